"""A supervision in a file: what it asks for, every fault with its line, and that what is printed asks for the same."""

import configparser
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastbeat import settings as configuration
from lastbeat.jobs.restarts import loading
from lastbeat.settings import table
from lastbeat_cli import exits
from lastbeat_cli.commands import meant
from lastbeat_cli.supervise import config, manifest
from lastbeat_cli.supervise.asked import supervision
from lastbeat_cli.supervise.config import WantedSupervision
from support.checkout import ROOT
from support.laws import examples
from support.row_by_row import labelled

WHOLE = """\
run_id: llama
root: s3://bucket/runs
launcher: slurm
options: [--partition=gpu]
command: [train.sbatch, --lr, '0.1']
cwd: /data/ada
environment: {OMP_NUM_THREADS: 8, NCCL_DEBUG: INFO}
output: logs/%j.out
logs: [logs/%j.err, /scratch/a.log]
signals: [default, mine.yaml]
policy: megatron_transient
checkpoints: ckpt
limits: {stale_minutes: 5, stall_minutes: 30, inactivity_minutes: 60, start_minutes: 0}
interval_seconds: 10
restart_delay_seconds: 0
on_permanent: leave
"""


def read(text: str) -> tuple[WantedSupervision | None, list[str]]:
    faults: list[Any] = []
    found = config.read(text, "run.yaml", faults)
    return found, [str(each) for each in faults]


def test_everything_that_a_file_can_say() -> None:
    found, faults = read(WHOLE)
    assert faults == []
    assert found == WantedSupervision(
        "llama",
        "slurm",
        ("train.sbatch", "--lr", "0.1"),
        ("--partition=gpu",),
        "/data/ada",
        {"OMP_NUM_THREADS": "8", "NCCL_DEBUG": "INFO"},
        "logs/%j.out",
        ("/data/ada/logs/%j.err", "/scratch/a.log"),
        loading.shipped_text("megatron_transient"),
        "megatron_transient",
        "/data/ada/ckpt",
        {
            table.STALE_MINUTES.name: "5.0",
            table.STALL_MINUTES.name: "30.0",
            table.START_MINUTES.name: "0.0",
            table.MONITORING_ROOT.name: "s3://bucket/runs",
            table.SIGNALS.name: "default,/data/ada/mine.yaml",
            table.RESTART_DELAY_SECONDS.name: "0.0",
            table.ON_PERMANENT.name: "leave",
        },
        60.0,
        10.0,
    )


INLINE = """\
run_id: llama
policy:
  policies:
    - mode: crash
      implementation: {class_name: SelectiveRestartPolicy, restart_on_error_types: [%s]}
"""

FAULTS = [
    ("an unknown key", "run_id: a\nlauncer: local\n", "run.yaml:2: unknown key 'launcer' (did you mean 'launcher'?)"),
    ("an unknown launcher", "launcher: slrum\n", "run.yaml:1: launcher: there is no launcher 'slrum' (did you mean"),
    ("a command as text", "\ncommand: python train.py\n", "run.yaml:2: command is text; it has to be a list"),
    ("an unknown limit", "limits:\n  stale_minute: 5\n", "run.yaml:2: limits: unknown key 'stale_minute' (did"),
    ("a limit that is none", "limits:\n  stale_minutes: -1\n", "run.yaml:2: limits.stale_minutes:"),
    ("an unknown policy", "policy: megatron_transiet\n", "did you mean 'megatron_transient'"),
    ("an error in a policy that stands here", INLINE % "ncll", "run.yaml:5: there is no error type 'ncll'"),
    ("a root that is none", "root: s3:/x\n", "run.yaml:1: root:"),
    ("a secret by its name", "environment:\n  HF_TOKEN: abc\n", "run.yaml:2: environment: HF_TOKEN looks like"),
    ("a secret by its look", f"environment: {{X: ghp_{'0123456789' * 4}}}\n", "X looks like a secret"),
    ("a variable that is none", "environment: {'A B': x}\n", "'A B' is no name of a variable"),
    ("no mapping", "- a\n", "run.yaml: has to be 'key: value' lines"),
    ("no YAML", "a: [\n", "not YAML"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_a_fault_is_told_with_its_line_and_what_to_write(text: str, said: str) -> None:
    _, faults = read(text)
    assert any(said in each for each in faults), faults
    assert not any("0123456789012" in each for each in faults)


def test_a_policy_may_stand_in_the_file_and_is_one() -> None:
    found, faults = read(INLINE % "nccl")
    assert (faults, found is not None and found.policy_name) == ([], "llama")
    assert found is not None
    assert loading.load_text(found.policy, "llama.yaml", "llama").rules


def test_options_win_and_say_so_where_the_file_says_otherwise() -> None:
    file = WantedSupervision(
        "llama", "slurm", logs=("/a",), policy="x", policy_name="mine", interval_s=10.0, settings={"A": "1"}
    )
    options = WantedSupervision(
        "llama", "local", ("true",), policy="y", policy_name="default", settings={table.SIGNALS.name: "nccl"}
    )
    found, wins = config.over(options, file, "run.yaml")
    assert (found.launcher, found.command, found.logs, found.policy, found.interval_s) == (
        "local", ("true",), ("/a",), "y", 10.0,
    )  # fmt: skip
    assert found.settings == {"A": "1", table.SIGNALS.name: "nccl"}
    assert wins == ["--launcher wins over launcher in run.yaml", "--policy wins over policy in run.yaml"]


# The law: what is printed asks for the same.

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20).filter(
    lambda text: text.strip() != ""
)
NAMES = st.from_regex(r"\A[B-J][B-J_0-9]{0,9}\Z")
VALUES = st.sampled_from(["", "1", "{}", "a b", "é\u2028\U0001f600"])
PATHS = TEXT.map(lambda text: f"/x/{text.replace('/', '_')}")
NUMBERS = st.sampled_from(["0.5", "5.0", "60.0"])
POLICIES = st.sampled_from(
    [
        ("", ""),
        ("default", loading.shipped_text("default")),
        ("mine", json.dumps({"policies": [], "longest_delay_s": 5})),
    ]
)


@st.composite
def askings(draw: st.DrawFn) -> WantedSupervision:
    name, policy = draw(POLICIES)
    said: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {},
            optional={
                **dict.fromkeys((*config.LIMITS.values(), table.RESTART_DELAY_SECONDS.name), NUMBERS),
                table.SIGNALS.name: st.sampled_from(["default", "default,/x/mine.yaml"]),
                table.ON_PERMANENT.name: st.sampled_from(["end", "leave"]),
                table.MONITORING_ROOT.name: st.sampled_from(["/runs", "s3://bucket/prefix"]),
            },
        )
    )
    return WantedSupervision(
        draw(st.sampled_from(["", "llama-7b"])),
        draw(st.sampled_from(["", "local", "slurm"])),
        tuple(draw(st.lists(TEXT, max_size=4))),
        tuple(draw(st.lists(TEXT, max_size=3))),
        draw(PATHS).rstrip(),
        draw(st.dictionaries(NAMES, VALUES, max_size=3)),
        draw(st.sampled_from(["", "logs/%j.out"])),
        tuple(draw(st.lists(PATHS, max_size=3))),
        policy,
        name,
        draw(st.sampled_from(["", "/ckpt", "s3://bucket/ckpt"])),
        said,
        draw(st.sampled_from([None, 7.5])),
        draw(st.sampled_from([None, 0.5, 30.0])),
    )  # fmt: skip


@settings(max_examples=examples(80), deadline=None)
@given(askings())
def test_what_is_printed_asks_for_the_same(asked: WantedSupervision) -> None:
    printed = config.dump(config.document(asked))
    found, faults = read(printed)
    assert faults == []
    assert found is not None
    assert config.dump(config.document(found)) == printed
    # A policy's text is written anew; all else is the same.
    assert (found.command, found.logs, found.environment) == (asked.command, asked.logs, asked.environment)
    assert found.settings == asked.settings
    assert json.loads(printed) == config.document(asked), "and it is JSON"


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No such file"):
        config.load(str(tmp_path / "none.yaml"))


def test_the_service_in_the_docs_is_one_that_leaves_jobs_alone() -> None:
    text = (ROOT / "docs/supervisors.md").read_text(encoding="utf-8")
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text.partition("```ini\n")[2].partition("```")[0])
    service = unit["Service"]
    assert service["KillMode"] == "process", "or systemd ends what the supervisor started"
    program, *words = shlex.split(service["ExecStart"])
    assert (Path(program).name, meant(words)) == ("lastbeat", ["restart", "resume", "llama"])
    ended = {str(status) for status in (exits.WARNING, exits.CRITICAL)}
    assert (service["Restart"], set(service["SuccessExitStatus"].split())) == ("on-failure", ended)


def test_a_record_says_nothing_of_the_root_in_which_it_lies(tmp_path: Path) -> None:
    # Whoever goes on with the run may know that by another name, or have moved it.
    root = {table.MONITORING_ROOT.name: str(tmp_path)}
    asked = WantedSupervision("llama", "local", ("true",), settings={**root, table.SIGNALS.name: "default"})
    found = supervision(configuration.load({}, root, tmp_path), asked)
    assert found.settings == {table.SIGNALS.name: "default"}


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)
)
NO_MANIFESTS: list[tuple[str, str | None, str]] = [
    ("a file that there is not", None, ": No such file or directory; name the manifest of the job after --"),
    ("a bomb", BOMB, ": is nested or repeated too often for a manifest"),
]


@pytest.mark.parametrize(("text", "told"), labelled(NO_MANIFESTS))
def test_a_manifest_of_which_nothing_can_come_is_refused(tmp_path: Path, text: str | None, told: str) -> None:
    path = tmp_path / "train.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(configuration.SettingsError) as refused:
        manifest.kept(str(path))
    assert refused.value.faults == (f"{path}{told}",)
