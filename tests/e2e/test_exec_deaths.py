"""``lastbeat exec``: every way for a command to end, what it leaves behind, and what the watchdog then says."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from lastbeat.watch.observe.run import innermost
from support.cli import popen
from support.waiting import until
from support.wrapped import exec_command, left, python, run_exec, settings, watched

TRACE = "import sys\ndef f():\n    raise ValueError('loss is gone')\nprint('step 7/9 loss 0.5', flush=True)\nf()"


def test_an_exception_is_told_with_what_was_printed_last(tmp_path: Path) -> None:
    done = run_exec(tmp_path, *python(TRACE))
    assert done.returncode == 1
    error, log = (left(tmp_path, name) or "" for name in ("_error", "logs/training_log_latest.txt"))
    assert error.startswith("ValueError: loss is gone (exit status 1)\n")
    assert "step 7/9 loss 0.5" in error
    assert "Traceback (most recent call last):" in error
    assert "step 7/9 loss 0.5\n" in log
    assert "ValueError: loss is gone\n" in log
    assert left(tmp_path, "_complete") is None
    said = watched(tmp_path)
    assert (said["status"], said["attempt"], said["cause"]) == ("FAILED", 1, "exception")
    assert error.splitlines()[0] in said["reason"]
    assert (said["step"], said["total_steps"]) == (7, 9)


def test_exit_0_is_a_success_also_of_a_second_attempt(tmp_path: Path) -> None:
    run_exec(tmp_path, "false")
    assert watched(tmp_path)["status"] == "FAILED"
    done = run_exec(tmp_path, "sh", "-c", "echo fine")
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")
    assert left(tmp_path, "_complete") == ""
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


BELOW = """
import subprocess
print("loading", flush=True)
subprocess.run(["sleep", "600"])
"""


def test_a_hang_is_shown_where_it_is(tmp_path: Path) -> None:
    waits = " sleep: sleeping in "
    environment = settings(tmp_path, LASTBEAT_STALL_MINUTES="0.02")
    command = exec_command(*python(BELOW))
    null = subprocess.DEVNULL
    with popen(
        command, cwd=tmp_path, env=environment, stdin=null, stdout=null, stderr=null, start_new_session=True
    ) as process:
        try:
            told = until(lambda: left(tmp_path, "logs/stacks.txt") or "", lambda told: waits in told)
            assert told.startswith("No new output for "), told
            assert any(waits in line for line in innermost(told)), told
            assert process.poll() is None, "nobody stopped the command"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
