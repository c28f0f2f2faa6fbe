"""Ends all that a command has started, wherever it has put itself: two trainings that write into one folder of
checkpoints are worse than none.

This process becomes the reaper of its descendants, so that whatever is below it stays below it: in sessions of its own,
as torchrun's workers are, and when its parent is gone.
"""

import ctypes
import os
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from typing import Final

from lastbeat.child.exit_reason import ChildExit
from lastbeat.child.process import ChildProcess
from lastbeat.launchers import processes
from lastbeat.launchers.processes import ProcessIdentity

_SUBREAPER: Final = 36
"""PR_SET_CHILD_SUBREAPER."""
_POLL_S: Final = 0.1
_INSISTS: Final = 2
"""Who asks so often does not want to wait any longer."""
KILLED_S: Final = 20.0
"""How long after SIGKILL a process may still be there: a driver may have to give its GPU back first."""


def become_reaper() -> bool:
    """Have orphans below this process become its children. Whether the system does that."""
    try:
        return bool(ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def left_below(spared: Collection[int]) -> set[ProcessIdentity]:
    """What runs below this process, but for ``spared``."""
    return {each for each in processes.below(os.getpid()) if each.pid not in spared}


def end_all(
    child: ChildProcess,
    ended: ChildExit | None,
    spared: Collection[int],
    grace_s: float,
    *,
    killed_s: float = KILLED_S,
) -> tuple[ChildExit | None, set[ProcessIdentity]]:
    """SIGTERM to all that is below this process, and SIGKILL after ``grace_s``, or as soon as somebody asks for the end
    of this process for a second time. Signals that come meanwhile are passed on. ``ended`` is how the command itself
    did, if it has.

    Returns how the command ended, and what is left ``killed_s`` after SIGKILL: what hangs in the kernel cannot be
    ended, and nothing may be started beside it.
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
        # What was started in between is asked, too.
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
    """Take note of orphans that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
