"""``lastbeat exec`` of a command that hangs: where it does, written beside the run for the alert."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from lastbeat.watch.observe.run import innermost
from support.waiting import until
from support.wrapped import exec_command, left, python, settings

LOCK = """
import threading
lock = threading.Lock()
def wait_for_turn():
    lock.acquire(); lock.acquire()
print("step 50/1000 loss 2.5", flush=True)
wait_for_turn()
"""
BELOW = """
import subprocess
print("loading", flush=True)
subprocess.run(["sleep", "600"])
"""


@pytest.mark.parametrize(
    ("code", "head", "waits"),
    [
        pytest.param(LOCK, "No new step for ", ": sleeping in ", id="in a lock, after a step"),
        pytest.param(BELOW, "No new output for ", " sleep: sleeping in ", id="in a subprocess, without a word"),
    ],
)
def test_a_hang_is_shown_where_it_is(tmp_path: Path, code: str, head: str, waits: str) -> None:
    environment = settings(tmp_path, LASTBEAT_STALL_MINUTES="0.02")
    command = exec_command(*python(code))
    null = subprocess.DEVNULL
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdin=null, stdout=null, stderr=null, start_new_session=True
    ) as process:
        try:
            told = until(lambda: left(tmp_path, "logs/stacks.txt") or "", lambda told: waits in told)
            assert told.startswith(head), told
            assert any(waits in line for line in innermost(told)), told
            assert process.poll() is None, "nobody stopped the command"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
