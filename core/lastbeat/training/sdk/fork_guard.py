"""Keeps forks of this process out of another thread's imports and log lines.

A child forked in the middle of an import inherits the module's lock from a thread that it does not have. If it imports
that module too, it waits for ever: a DataLoader worker would hang. The same holds for the buffer of a stream that a
line is being written to, which Python flushes when the child ends. So a fork waits for the beat thread's imports, which
happen only when a run begins, and for its log lines. Both take milliseconds.
"""

import logging
import os
import threading
import time
from types import FrameType

from lastbeat.training.sdk.thread_frames import current_frames

_LIMIT_S = 0.5
_UNSAFE = ("<frozen importlib._bootstrap>", logging.__file__)
"""Files of the code that holds such locks."""

_threads: "list[threading.Thread]" = []


def delay_unsafe_forks(thread: threading.Thread) -> None:
    """Let every fork of this process wait while ``thread`` imports or logs, for ``_LIMIT_S`` at most."""
    if not _threads and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_wait)
    _threads[:] = [*(each for each in _threads if each.is_alive()), thread]


def _wait() -> None:
    deadline = time.monotonic() + _LIMIT_S
    while _unsafe() and time.monotonic() < deadline:
        time.sleep(0.0005)


def _unsafe() -> bool:
    frames = current_frames()
    return any(_holds_locks(frames.get(thread.ident or 0)) for thread in _threads)


def _holds_locks(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename in _UNSAFE:
            return True
        frame = frame.f_back
    return False
