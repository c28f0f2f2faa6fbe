"""``lastbeat show``: one run in depth, on a screen and for programs."""

import json
from pathlib import Path

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
        pytest.param({}, "RUNNING", 0, id="it runs"),
        pytest.param({"progress.json": "{"}, "RUNNING (WARNING)", 1, id="it runs with a warning"),
        pytest.param({"_complete": ""}, "SUCCEEDED", 0, id="it is done"),
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


def test_ranks_that_are_well_take_one_line_and_the_others_are_named_worst_first(run: RunFolder) -> None:
    run.metadata(world_size=40)
    run.progress()
    for rank in range(40):
        run.put(f"ranks/{rank}.json", json.dumps({"rank": rank, "step": 100, "status": "running"}))
    _, shown, _ = show(run)
    assert "Ranks  40 of 40 have told of themselves, at step 100, none behind or silent\n" in shown
    run.put("ranks/7.json", json.dumps({"rank": 7, "step": 60, "status": "running", "host": "node-2"}))
    run.put("ranks/9.json", json.dumps({"rank": 9, "step": 100, "status": "failed"}))
    run.put("ranks/3.json", json.dumps({"rank": 3, "step": 100, "status": "running"}), minutes_old=9)
    _, shown, _ = show(run)
    named = [line.split()[1] for line in shown.splitlines() if line.startswith("  rank ")]
    assert named == ["9", "7", "3"]


def test_where_it_hangs_is_shown(run: RunFolder) -> None:
    run.metadata()
    run.put(
        "logs/stacks.txt", 'No new step for 15m\n\nThread "MainThread" (main), most recent call last:\n  File "a.py"\n'
    )
    _, shown, _ = show(run)
    assert 'Where it hangs  logs/stacks.txt\n  No new step for 15m\n\n  Thread "MainThread"' in shown


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
