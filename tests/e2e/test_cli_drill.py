"""``drill`` on local processes: every scenario, what it says when something goes wrong, and that it leaves nothing."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cli import LASTBEAT, environment, popen, run
from support.drilled import ALL_BUT_A_NODE_LOST
from support.http_sink import http_sink
from support.waiting import until

LIMIT_S = 240.0
NEVER = "policies:\n  - mode: crash\n    implementation: {class_name: NoRestartPolicy}\n"


def drill(folder: Path, *arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    return run(
        [*LASTBEAT, "drill", "--launcher", "local", "--root", "evidence", *arguments],
        cwd=folder,
        env=environment(folder, LASTBEAT_STATE_DIR=str(folder / "state"), **settings),
        text=True,
    )


def mentioning(folder: Path) -> Iterator[list[str]]:
    """The command lines of all processes that have to do with ``folder``."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if any(str(folder) in word for word in words):
            yield words


@pytest.fixture
def clean(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    until(lambda: list(mentioning(tmp_path)), lambda left: not left)


def test_every_scenario_goes_as_it_should_and_nobody_is_alerted(clean: Path) -> None:
    with http_sink() as sink:
        # The owner's own settings are no part of a drill.
        own = {"LASTBEAT_WEBHOOK_URL": sink.url, "LASTBEAT_RESTART_DELAY_SECONDS": "600", "STALE_MINUTES": "0.01"}
        done = drill(clean, "--json", **own)
        assert sink.requests == []
    told: dict[str, Any] = json.loads(done.stdout)
    results = {each["scenario"]: each for each in told["results"]}
    assert {name: each["result"] for name, each in results.items()} == ALL_BUT_A_NODE_LOST, done.stderr
    reasons = {name: each["why"] for name, each in results.items()}
    assert "Transient failure detected (error_type=cancelled)" in reasons["scancel"]
    assert "Transient failure detected (error_type=hang)" in reasons["hang"]
    assert "Transient failure detected (error_type=nccl" in reasons["nccl"]
    assert "Permanent failure detected (excluded error_type: oom)" in reasons["oom"]
    assert "retry budget exhausted (attempt 4/3)" in reasons["max_retries"]
    assert "no node but this machine" in reasons["node_lost"]
    assert [stage["what"] for stage in results["hang"]["stages"]] == [
        "fault",
        "noticed",
        "old job dead",
        "new job",
        "new job runs",
    ]
    assert (done.returncode, told["evidence"], told["left_running"]) == (0, None, [])
    assert list((clean / "evidence").iterdir()) == []
    assert "retry budget exhausted" in done.stderr


def test_a_policy_that_restarts_nothing_fails_and_leaves_its_evidence(clean: Path) -> None:
    (clean / "never.yaml").write_text(NEVER, encoding="utf-8")
    done = drill(clean, "--scenario", "scancel", "--scenario", "max_retries", "--policy", "never.yaml")
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("FAIL     scancel ")
    assert lines[1].strip() == "not restarted: NoRestartPolicy on crash"
    assert lines[2].startswith("SKIPPED  max_retries ")
    assert "0 passed, 1 failed, 1 skipped" in done.stdout
    assert lines[-2].endswith(" on local, with the signals of megatron_production and the policy never.yaml")
    evidence = Path(lines[-1].removeprefix("Evidence: "))
    (output,) = evidence.glob("output/*scancel*")
    assert "NoRestartPolicy" in (output / "supervise.log").read_text(encoding="utf-8")
    assert any("iteration" in path.read_text(encoding="utf-8") for path in output.glob("*-r0.log"))


def test_ctrl_c_ends_the_jobs(clean: Path) -> None:
    command = [*LASTBEAT, "drill", "--launcher", "local", "--root", "evidence", "--scenario", "hang"]
    env = environment(clean, LASTBEAT_STATE_DIR=str(clean / "state"))
    with popen(command, cwd=clean, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as it:
        assert it.stderr is not None
        said = it.stderr.readline()
        assert "fault hang" in said
        assert any("job.sh" in word for words in mentioning(clean) for word in words)
        it.send_signal(signal.SIGINT)
        rest = it.stderr.read()
        assert it.wait(LIMIT_S) == 130, rest
    assert "the drill's jobs are being ended" in rest
