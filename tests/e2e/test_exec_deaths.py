"""``lastbeat exec``: every way for a command to end, what it leaves behind, and what the watchdog then says."""

import re
import signal
from pathlib import Path

import pytest

from support.cgroup import counts_oom_kills
from support.wrapped import left, python, run_exec, watched

TRACE = "import sys\ndef f():\n    raise ValueError('loss is gone')\nprint('step 7/9 loss 0.5', flush=True)\nf()"
COUNTS = counts_oom_kills()
NO_OOM_KILL = "; its cgroup counted no OOM kill" if COUNTS else ""
KILLER = "unknown" if COUNTS else "oom"
ENDS = [
    pytest.param(python(TRACE), 1, r"ValueError: loss is gone \(exit status 1\)", "exception", id="an exception"),
    pytest.param(("sh", "-c", "kill -SEGV $$"), -signal.SIGSEGV,
                 r"sh was killed by SIGSEGV \(signal 11\): a segmentation fault in native code", "exception",
                 id="a segmentation fault"),
    pytest.param(
        ("sh", "-c", "sh -c 'kill -9 $$'; exit $?"),
        137,
        r"sh ended with exit status 137 \(128 \+ 9: one of its processes was killed by SIGKILL\)" + NO_OOM_KILL,
        KILLER,
        id="a SIGKILL of what a script had started",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("command", "status", "first", "cause"), ENDS)
def test_a_death_is_told(tmp_path: Path, command: tuple[str, ...], status: int, first: str, cause: str | None) -> None:
    done = run_exec(tmp_path, *command)
    assert done.returncode == status
    error = left(tmp_path, "_error")
    assert error is not None
    assert re.fullmatch(first, error.splitlines()[0]), error
    assert left(tmp_path, "_complete") is None
    said = watched(tmp_path)
    assert (said["status"], said["attempt"]) == ("FAILED", 1)
    assert error.splitlines()[0] in said["reason"]
    assert said["cause"] == cause


def test_what_was_printed_last_is_kept_and_what_is_printed_is_shipped(tmp_path: Path) -> None:
    run_exec(tmp_path, *python(TRACE))
    error, log = (left(tmp_path, name) or "" for name in ("_error", "logs/training_log_latest.txt"))
    assert "step 7/9 loss 0.5" in error
    assert "Traceback (most recent call last):" in error
    assert "step 7/9 loss 0.5\n" in log
    assert "ValueError: loss is gone\n" in log
    assert (watched(tmp_path)["step"], watched(tmp_path)["total_steps"]) == (7, 9)


def test_exit_0_is_a_success(tmp_path: Path) -> None:
    done = run_exec(tmp_path, "sh", "-c", "echo fine")
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")
    assert left(tmp_path, "_complete") == ""
    assert left(tmp_path, "_error") is None
    assert watched(tmp_path)["status"] == "SUCCEEDED"


def test_a_second_start_is_a_second_attempt(tmp_path: Path) -> None:
    run_exec(tmp_path, "false")
    assert watched(tmp_path)["status"] == "FAILED"
    run_exec(tmp_path, "true")
    assert left(tmp_path, "_error") is None
    said = watched(tmp_path)
    assert (said["status"], said["attempt"]) == ("SUCCEEDED", 2)


def _file(folder: Path, text: str, mode: int) -> Path:
    path = folder / "it's a script.sh"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


NOT_STARTED = [
    pytest.param("no-such-command", None, 0, 127, "command not found", id="no such command"),
    pytest.param("./it's a script.sh", "#!/bin/sh\n", 0o644, 126, "permission denied", id="not executable"),
    pytest.param("./it's a script.sh", "#!/no/such/sh\n", 0o755, 126, "interpreter", id="a missing interpreter"),
    pytest.param("./", None, 0, 126, "directory", id="a folder"),
]


@pytest.mark.parametrize(("command", "text", "mode", "status", "why"), NOT_STARTED)
def test_what_cannot_be_started(
    tmp_path: Path, command: str, text: str | None, mode: int, status: int, why: str
) -> None:
    if text is not None:
        _file(tmp_path, text, mode)
    done = run_exec(tmp_path, command)
    assert done.returncode == status
    assert why in done.stderr
    assert why in (left(tmp_path, "_error") or "").splitlines()[0]
    assert watched(tmp_path)["status"] == "FAILED"


def test_a_script_without_its_first_line_is_run_as_shells_run_it(tmp_path: Path) -> None:
    path = _file(tmp_path, 'echo "got $1"; exit 4\n', 0o755)
    done = run_exec(tmp_path, str(path), "an argument")
    assert (done.returncode, done.stdout) == (4, "got an argument\n")


def test_a_fault_in_the_environment_leaves_training_unwatched_and_alone(tmp_path: Path) -> None:
    done = run_exec(tmp_path, "sh", "-c", "echo trained", STALE_MINUTES="ten")
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert "STALE_MINUTES='ten'" in done.stderr
