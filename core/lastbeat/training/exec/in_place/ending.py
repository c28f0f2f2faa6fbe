"""Ends all processes of a command, in any session: two runs that write into one folder of checkpoints are worse than
none.

This process becomes the reaper of its descendants, so that all of them stay below it. That includes processes in
sessions of their own, such as torchrun's workers, and processes whose parent is gone.
"""

import os
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from typing import Final

from lastbeat.jobs.launchers import processes
from lastbeat.jobs.launchers.processes import ProcessIdentity
from lastbeat.training.exec.child.exit_reason import ChildExit
from lastbeat.training.exec.child.process import ChildProcess

_POLL_S: Final = 0.1
_INSISTS: Final = 2
"""Number of requests to end that cut the grace period short."""
KILLED_S: Final = 20.0
"""Longest time in s that a process may outlive SIGKILL: a driver may have to free its GPU first."""


def left_below(spared: Collection[int]) -> set[ProcessIdentity]:
    """The processes below this one, except ``spared``."""
    return {each for each in processes.below(os.getpid()) if each.pid not in spared}


def end_all(
    child: ChildProcess,
    ended: ChildExit | None,
    spared: Collection[int],
    grace_s: float,
    *,
    killed_s: float = KILLED_S,
) -> tuple[ChildExit | None, set[ProcessIdentity]]:
    """Send SIGTERM to all processes below this one, and SIGKILL after ``grace_s``, or at the second request to end this
    process. Signals that come meanwhile are passed on. ``ended`` is the command's exit, or None if it still runs.

    Returns the command's exit, and the processes left ``killed_s`` after SIGKILL. A process that hangs in the kernel
    cannot be ended, and no start may run beside it.
    """
    began, before = time.monotonic(), child.times_asked()
    asked = set[ProcessIdentity]()
    while True:
        left = left_below(spared)
        if ended is not None and not left:
            break
        spent_s = time.monotonic() - began
        if child.times_asked() - before >= _INSISTS:
            grace_s = min(grace_s, spent_s)
        if spent_s > grace_s + killed_s:
            break
        late = spent_s > grace_s
        # Processes that were started in between get the signal too.
        for process in left if late else left - asked:
            with suppress(PermissionError):
                processes.send(process, signal.SIGKILL if late else signal.SIGTERM)
        asked |= left
        if ended is None:
            ended = child.wait_until(lambda: True, _POLL_S)
        else:
            _reap()
            child.hear(_POLL_S)
    return (None if ended is None else replace(ended, signals=child.recent_signals())), left


def _reap() -> None:
    """Reap orphans that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
