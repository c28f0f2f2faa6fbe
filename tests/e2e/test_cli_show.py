"""``lastbeat show`` and ``compare``: runs in depth, on a screen and for programs, with what training says of them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from support.cli import LASTBEAT, RunFolder, call

LOG = "logs/training_log_latest.txt"
STEPS = "".join(f"step {number}/1000 loss 2.5\n" for number in range(1, 60))
OOM = (
    "Traceback (most recent call last):\n"
    '  File "/opt/train.py", line 7, in <module>\n'
    "    loss.backward()\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "training-runs", "my-run")


def show(run: RunFolder, *arguments: str, **settings: str) -> tuple[int, str, str]:
    done = call(LASTBEAT, "show", run.run_id, *arguments, cwd=run.root.parent, **settings)
    return done.returncode, done.stdout, done.stderr


def watch(run: RunFolder) -> str:
    return call(LASTBEAT, "watch", "--run-id", run.run_id, "--once", cwd=run.root.parent).stdout


@pytest.mark.parametrize(
    ("files", "status", "code"),
    [
        pytest.param({"progress.json": "{"}, "RUNNING (WARNING)", 1, id="it runs with a warning"),
        pytest.param({"_error": OOM}, "FAILED", 2, id="it failed"),
    ],
)
def test_status_and_exit_status_are_those_of_watch(
    run: RunFolder, files: dict[str, str], status: str, code: int
) -> None:
    run.metadata()
    run.progress()
    for name, text in files.items():
        run.put(name, text)
    for recorded in (False, True):
        told = watch(run) if recorded else f"Run my-run: {status}\n"
        shown = show(run)
        assert (shown[0], shown[2]) == (code, "")
        assert shown[1].splitlines()[0] == told.splitlines()[0] == f"Run my-run: {status}"
        assert shown[1].splitlines()[1].startswith("Detail: ")


def test_a_failed_run_is_told_with_its_cause_the_lines_around_it_and_what_to_do(run: RunFolder) -> None:
    run.metadata(minutes_old=1)
    run.progress(minutes_old=1)
    run.put(LOG, STEPS + OOM + "tearing down\n")
    run.put("_error", OOM)
    watch(run)
    _, shown, _ = show(run)
    head = shown.split("\n\n")
    assert "Detail: torch.OutOfMemoryError" in head[0]
    assert head[1].startswith("Cause: oom")
    assert "  > 63 torch.OutOfMemoryError" in head[1], "the sign says which line it is, and needs no colour"
    assert "    60 Traceback (most recent call last):" in head[1]
    assert "    64 tearing down" in head[1]
    assert head[2].startswith("What to do\n")
    for heading in ("Heartbeats", "Progress", "History", "Alerts", "Log", "Files"):
        assert f"\n{heading}" in shown


def test_ranks_that_are_well_take_one_line(run: RunFolder) -> None:
    run.metadata(world_size=40)
    run.progress()
    for rank in range(40):
        run.put(f"ranks/{rank}.json", json.dumps({"rank": rank, "step": 100, "status": "running"}))
    _, shown, _ = show(run)
    assert "Ranks  40 of 40 have told of themselves, at step 100, none behind or silent\n" in shown


def test_no_line_but_the_first_two_is_wider_than_asked_for(run: RunFolder) -> None:
    run.metadata(phase="p" * 300, instance_id="i" * 300)
    run.progress(metrics={f"metric_{number}": 1e-9 for number in range(40)})
    run.put(LOG, "x" * 100_000 + "\n" + "漢" * 300 + "\n")
    run.put("_error", "E" * 5000 + "\n" + "trace " * 200)
    run.put("logs/stacks.txt", "s" * 5000)
    run.put("ranks/0.json", json.dumps({"host": "h" * 500, "status": "failed"}))
    watch(run)
    _, shown, _ = show(run, COLUMNS="80")
    from lastbeat.views.lines.paint import cells  # noqa: PLC0415 - the width of a terminal, as the product counts it

    paths = [line for line in shown.splitlines()[2:] if str(run.root) not in line]
    assert max(map(cells, paths)) <= 80
    assert len(shown.splitlines()) < 120


def test_hostile_output_is_shown_harmlessly(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "training-runs", "a=b@c:d+1")
    run.metadata(phase="\x1b[31mtrain", instance_id="\x1b]0;owned\x07")
    run.progress(metrics={"\x1b[2J": 1.0})
    run.put(LOG, "\x1b[2J\x1b[31mred\x1b[0m\rover\x07 \u202egnp.exe\n" + "y" * 100_000 + "\n")
    run.put("_error", "\x1b[31mRuntimeError: \x1b]8;;https://evil\x07click\x1b]8;;\x07\n\nRun a=b@c:d+1: SUCCEEDED\n")
    run.put("ranks/0.json", json.dumps({"host": "\x1b[31m\n\nRun x: SUCCEEDED", "status": "\x07"}))
    watch(run)
    for arguments in ([], ["--json"]):
        _, shown, _ = show(run, *arguments)
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown)
        assert shown.count("\nRun ") == 0, "no line of a run passes for one of ours"
        assert len(shown) < 60_000


def test_a_folder_without_anything_of_a_run_is_none_and_is_not_offered_as_one(run: RunFolder) -> None:
    run.put("notes.txt", "for later\n")
    code, shown, said = show(run)
    assert (code, shown) == (3, "")
    assert "there is no run my-run" in said
    assert "Did you mean" not in said
    assert "metadata.json" in said


def test_a_fleet_root_that_is_not_there(tmp_path: Path) -> None:
    done = call(LASTBEAT, "show", "my-run", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "training-runs" in done.stderr


SCRIPT = """
import argparse
import lastbeat

arguments = argparse.Namespace(lr=3e-4, layers=24, api_key="hush", data=argparse.Namespace(name="wiki"))
with lastbeat.run("llama", config=arguments, tags=["sweep3", "baseline"], notes="with the new data") as run:
    run.step(1, loss=2.5)
with lastbeat.run("plain") as run:
    run.step(1, loss=2.5)
with lastbeat.run("odd", config="lr=1", tags=7, notes=3) as run:
    run.step(1, loss=2.5)
"""


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("described")
    done = call([sys.executable, "-c", SCRIPT], cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "lastbeat leaves config out" in done.stderr
    return folder


def test_show_has_it_and_no_secret(described: Path) -> None:
    shown = call(LASTBEAT, "show", "llama", cwd=described).stdout
    for line in (
        "Tags: sweep3, baseline",
        "Notes: with the new data",
        "Configuration: lr=0.0003 layers=24 api_key=*** data.name=wiki",
    ):
        assert f"\n{line}\n" in shown
    document = json.loads(call(LASTBEAT, "show", "llama", "--json", cwd=described).stdout)
    assert document["training_notes"] == "with the new data"
    assert document["config"] == {"lr": 0.0003, "layers": 24, "api_key": "***", "data.name": "wiki"}
    assert "hush" not in (described / "training-runs" / "llama" / "metadata.json").read_text(encoding="utf-8")
    assert "Configuration" not in call(LASTBEAT, "show", "plain", cwd=described).stdout


def test_runs_are_found_by_their_tags(described: Path) -> None:
    done = call(LASTBEAT, "fleet", "--once", "--json", "--filter=-tag:sweep -odd", cwd=described)
    assert [run["run_id"] for run in json.loads(done.stdout)["runs"]] == ["plain"]


CONFIGS: dict[str, dict[str, Any]] = {
    "llama-a": {"lr": 1e-4, "layers": 24, "rope": True},
    "llama-b": {"lr": 3e-4, "layers": 24, "rope": 1},
    "llama-c": {"lr": 3e-4, "layers": 24, "rope": True, "note": "\x1b[31mred"},
}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for number, (name, config) in enumerate(CONFIGS.items(), 1):
        run = RunFolder(tmp_path / "training-runs", name)
        run.metadata(config=config, tags=["sweep3"])
        recent = [[1_767_268_800 + step, step, 3 - step * number / 100] for step in range(50)]
        run.progress(step=49, total_steps=100, loss=2.9, recent=recent, metrics={"accuracy": number / 10})
    RunFolder(tmp_path / "training-runs", "bare").metadata()
    return tmp_path


def told(runs: Path, *arguments: str, **settings: str) -> str:
    done = call(LASTBEAT, "compare", *arguments, cwd=runs, **settings)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_what_differs_is_shown_and_what_is_the_same_is_counted(runs: Path) -> None:
    lines = {line.split("  ")[0].strip(): line for line in told(runs, "llama-*", COLUMNS="120").splitlines()}
    assert lines["lr"].split() == ["lr", "0.0001", "0.0003", "0.0003"]
    assert lines["rope"].split() == ["rope", "True", "1", "True"]
    assert lines["step"].split() == ["step", "49/100", "49/100", "49/100"]
    assert lines["accuracy"].split() == ["accuracy", "0.1", "0.2", "0.3"]
    assert [least in lines["loss"] for least in ("2.9 (least 2.51)", "2.9 (least 2.02)", "2.9 (least 1.53)")] == [
        True
    ] * 3
    assert "layers" not in lines
    assert "1 key of the configuration is the same" in lines
    assert "\x1b" not in "".join(lines.values())


def test_a_run_that_said_nothing_has_empty_cells(runs: Path) -> None:
    lines = told(runs, "bare", "llama-a").splitlines()
    assert lines[0].split() == ["bare", "llama-a"]
    assert next(line for line in lines if line.startswith("lr")).split() == ["lr", "0.0001"]


def test_on_a_narrow_terminal_further_runs_follow_below(runs: Path) -> None:
    heads = [line.split() for line in told(runs, "llama-*", COLUMNS="40").splitlines() if "llama-" in line]
    assert heads == [["llama-a", "llama-b"], ["llama-c"]]


def test_programs_get_every_figure_and_the_curve(runs: Path) -> None:
    found = json.loads(told(runs, "llama-b", "llama-a", "--json"))
    assert (found["keys"], found["same"], found["figures"]) == (["lr", "rope"], 1, ["loss", "accuracy"])
    first = found["runs"][0]
    assert (first["run_id"], first["config"]) == ("llama-b", {"lr": 3e-4, "rope": 1})
    assert first["figures"]["loss"] == {"last": 2.9, "least": pytest.approx(2.02), "greatest": 3.0}
    assert first["curve"][0] == [0, 3.0]


def test_figures_are_those_of_the_curves_that_a_run_keeps(runs: Path) -> None:
    kept = [[1_767_268_000 + step, step, 9 - step * 8 / 100, 0.5, 9.5] for step in range(10)]
    run = RunFolder(runs / "training-runs", "keeps")
    run.metadata()
    run.progress(step=20, loss=2.9, recent=[[1_767_268_020, 20, 2.9]])
    run.put("curves/1.json", json.dumps({"curves": {"loss": kept}}))
    keeps, other = json.loads(told(runs, "keeps", "llama-b", "--json"))["runs"]
    assert keeps["figures"]["loss"] == {"last": 2.9, "least": 0.5, "greatest": 9.5}
    assert (keeps["curve"][0], keeps["curve"][-1], other["curve"][0]) == ([0, 9.0], [20, 2.9], [0, 3.0])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["llama-a"], "2 to 20 runs can be compared, and these are 1 run"),
        (["llama-a", "lama-b"], "there is no run lama-b"),
        (["nothing-*", "llama-a"], "nothing-* matches no run"),
    ],
    ids=["one run", "a run that is not there", "a glob of none"],
)
def test_what_cannot_be_compared_is_refused(runs: Path, arguments: list[str], why: str) -> None:
    done = call(LASTBEAT, "compare", *arguments, cwd=runs)
    assert done.returncode == 3
    assert why in done.stderr
