"""``lastbeat exec``: every way for a command to end, what it leaves behind, and what the watchdog then says."""

import re
import signal
from pathlib import Path

import pytest

from support.cgroup import counts_oom_kills
from support.wrapped import left, python, run_exec, watched

TRACE = "import sys\ndef f():\n    raise ValueError('loss is gone')\nprint('step 7/9 loss 0.5', flush=True)\nf()"
COUNTS = counts_oom_kills()
KILL = (
    "sh was killed by SIGKILL (signal 9), and its cgroup counted no OOM kill: often a person or the scheduler"
    if COUNTS
    else "sh was killed by SIGKILL (signal 9): often the OOM killer or the scheduler"
)
NO_OOM_KILL = "; its cgroup counted no OOM kill" if COUNTS else ""
KILLER = "unknown" if COUNTS else "oom"
ENDS = [
    pytest.param(python("import os; os._exit(7)"), 7, r"python\S* ended with exit status 7", "unknown",
                 id="os._exit(7)"),
    pytest.param(("sh", "-c", "exit 3"), 3, "sh ended with exit status 3", "unknown", id="a shell's exit 3"),
    pytest.param(python(TRACE), 1, r"ValueError: loss is gone \(exit status 1\)", "exception", id="an exception"),
    pytest.param(python("import sys; sys.exit('no data')"), 1, r"python\S* ended with exit status 1", "unknown",
                 id="sys.exit(text)"),
    pytest.param(("sh", "-c", "kill -SEGV $$"), -signal.SIGSEGV,
                 r"sh was killed by SIGSEGV \(signal 11\): a segmentation fault in native code", "exception",
                 id="a segmentation fault"),
    pytest.param(python("import os; os.abort()"), -signal.SIGABRT, r".* was killed by SIGABRT .*", "unknown",
                 id="abort()"),
    pytest.param(("sh", "-c", "kill -9 $$"), -signal.SIGKILL, re.escape(KILL), KILLER, id="a SIGKILL"),
    pytest.param(
        ("sh", "-c", "sh -c 'kill -9 $$'; exit $?"),
        137,
        r"sh ended with exit status 137 \(128 \+ 9: one of its processes was killed by SIGKILL\)" + NO_OOM_KILL,
        KILLER,
        id="a SIGKILL of what a script had started",
    ),
    pytest.param(python("import torch_is_not_here"), 1,
                 r"ModuleNotFoundError: No module named 'torch_is_not_here' \(exit status 1\)", "environment",
                 id="a missing package"),
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


def test_exit_0_is_a_success(tmp_path: Path) -> None:
    done = run_exec(tmp_path, "sh", "-c", "echo fine")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"fine\n", b"")
    assert left(tmp_path, "_complete") == ""
    assert left(tmp_path, "_error") is None
    assert watched(tmp_path)["status"] == "SUCCEEDED"


def test_the_error_holds_the_last_lines_of_both_streams(tmp_path: Path) -> None:
    run_exec(tmp_path, *python(TRACE))
    error = left(tmp_path, "_error") or ""
    assert "step 7/9 loss 0.5" in error
    assert "Traceback (most recent call last):" in error
    log = left(tmp_path, "logs/training_log_latest.txt") or ""
    assert "step 7/9 loss 0.5\n" in log, "the output is shipped"
    assert "ValueError: loss is gone\n" in log
    said = watched(tmp_path)
    assert (said["step"], said["total_steps"]) == (7, 9)


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
    pytest.param("./no-such-file", None, 0, 127, "command not found", id="no such file"),
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
    assert why in done.stderr.decode()
    assert why in (left(tmp_path, "_error") or "").splitlines()[0]
    assert watched(tmp_path)["status"] == "FAILED"


def test_a_script_without_its_first_line_is_run_as_shells_run_it(tmp_path: Path) -> None:
    path = _file(tmp_path, 'echo "got $1"; exit 4\n', 0o755)
    done = run_exec(tmp_path, str(path), "an argument")
    assert (done.returncode, done.stdout) == (4, b"got an argument\n")


REFUSED = [
    pytest.param(("--total-steps", "many"), ("true",), "--total-steps", id="a number that is none"),
    pytest.param(("--root", "ftp://x/y"), ("true",), "--root", id="a root of another kind"),
    pytest.param((), (), "command is missing", id="no command"),
]


@pytest.mark.parametrize(("options", "command", "why"), REFUSED)
def test_wrong_arguments_start_nothing(
    tmp_path: Path, options: tuple[str, ...], command: tuple[str, ...], why: str
) -> None:
    done = run_exec(tmp_path, *command, options=options)
    assert done.returncode == 3
    assert why in done.stderr.decode()
    assert not (tmp_path / "runs").exists()


def test_a_fault_in_the_environment_leaves_training_unwatched_and_alone(tmp_path: Path) -> None:
    done = run_exec(tmp_path, "sh", "-c", "echo trained", STALE_MINUTES="ten")
    assert (done.returncode, done.stdout) == (0, b"trained\n")
    assert "STALE_MINUTES='ten'" in done.stderr.decode()
