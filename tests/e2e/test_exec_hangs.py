"""``lastbeat exec`` of a command that hangs: where it does, written beside the run for the alert."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from lastbeat.watch.observe.run import innermost
from support.cli import popen
from support.waiting import until
from support.wrapped import exec_command, left, python, settings

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
