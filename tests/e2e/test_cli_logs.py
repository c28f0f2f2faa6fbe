"""``lastbeat watch`` over a program that writes nothing but a log."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from support.cli import LASTBEAT, RunFolder, call, start
from support.waiting import LIMIT_S

LOG = "logs/training_log_latest.txt"
CRASH = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 210, in <module>\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
)


def steps(first: int, last: int) -> str:
    return "".join(f"step {step}/1000 loss 2.5\n" for step in range(first, last + 1))


def look(run: RunFolder, *arguments: str, **settings: str) -> dict[str, Any]:
    done = call(
        LASTBEAT, "watch", "--run-id", "run-1", "--once", "--json", "--root", str(run.root), *arguments,
        cwd=run.root.parent, **settings,
    )  # fmt: skip
    document: dict[str, Any] = json.loads(done.stdout)
    return {**document, "exit": done.returncode, "stderr": done.stderr}


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "runs")


def test_the_life_of_a_program_that_was_never_changed(run: RunFolder) -> None:
    run.put(LOG, steps(1, 10))
    first = look(run)
    assert (first["status"], first["exit"], first["step"], first["total_steps"]) == ("RUNNING", 0, 10, 1000)
    assert first["last_progress_at"].endswith("Z")
    run.put(LOG, steps(1, 20))
    assert look(run)["step"] == 20
    run.put(LOG, steps(1, 20) + CRASH)
    failed = look(run)
    assert (failed["status"], failed["exit"], failed["cause"]) == ("FAILED", 2, "oom")
    assert "batch" in failed["action"]
    assert look(run) == failed
    run.put(LOG, steps(1, 20) + CRASH + steps(21, 30))
    again = look(run)
    assert (again["status"], again["cause"], again["step"]) == ("RUNNING", None, 30)
    run.put(LOG, steps(1, 20) + CRASH + steps(21, 30), minutes_old=11)
    silent = look(run)
    assert silent["status"] == "RUNNING", "the text was there a moment ago"


def test_a_log_of_this_machine_is_read_where_it_lies(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "slurm-1.out").write_text(steps(1, 3))
    (tmp_path / "slurm-2.out").write_text(steps(1, 7) + CRASH)
    assert look(run, "--log", "slurm-1.out")["step"] == 3
    failed = look(run, "--log", "slurm-1.out", "--log", str(tmp_path / "slurm-2.*"))
    assert (failed["status"], failed["cause"]) == ("FAILED", "oom")
    told = look(run, LASTBEAT_LOGS="slurm-*.out")
    assert told["status"] == "FAILED"


@pytest.mark.parametrize(
    ("name", "note"),
    [
        pytest.param("nosuch-*.log", "Note: No log file is called nosuch-*.log (yet).", id="no file"),
        pytest.param("runs/", "Note: runs/ is a folder; name its logs, for example runs/*.log.", id="a folder"),
    ],
)
def test_a_log_that_is_not_there_is_told(run: RunFolder, name: str, note: str) -> None:
    run.root.mkdir(exist_ok=True)
    done = call(
        LASTBEAT, "watch", "--run-id", "run-1", "--once", "--root", str(run.root), "--log", name, cwd=run.root.parent
    )
    assert note in done.stdout.splitlines()


def test_the_words_of_a_user_s_own_file_are_used(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(
        "signals:\n"
        "  licence:\n"
        "    substring: 'no licence left'\n"
        "    verdict: crash\n"
        "    severity: critical\n"
        "    error_type: environment\n"
        "    hint: Ask the licence desk.\n"
    )
    run.put(LOG, steps(1, 3) + "FATAL: no licence left\n")
    failed = look(run, LASTBEAT_SIGNALS="./own.yaml")
    assert (failed["status"], failed["cause"]) == ("FAILED", "environment")
    assert "licence desk" in failed["action"]


def test_a_watch_goes_on_until_the_log_says_that_it_is_over(run: RunFolder, tmp_path: Path) -> None:
    run.put(LOG, steps(1, 3))
    watch = start(
        LASTBEAT, "watch", "--run-id", "run-1", "--root", str(run.root), "--interval", "0.2", "--json", cwd=tmp_path
    )
    try:
        assert watch.stdout is not None
        passes = map(json.loads, watch.stdout)
        first = next(passes)
        assert (first["status"], first["step"]) == ("RUNNING", 3)
        run.put(LOG, steps(1, 9))
        assert next(each for each in passes if each["step"] == 9)["status"] == "RUNNING"
        run.put(LOG, steps(1, 9) + CRASH)
        out, _ = watch.communicate(timeout=LIMIT_S)
    finally:
        if watch.poll() is None:
            os.kill(watch.pid, signal.SIGKILL)
    last = json.loads(out.splitlines()[-1])
    assert (last["status"], last["cause"], last["step"]) == ("FAILED", "oom", 9)
    assert watch.returncode == 2
