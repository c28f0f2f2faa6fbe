"""Keeps forks of this process out of another thread's imports.

A child forked in the middle of an import inherits the module's lock from a thread that it does not have. If it imports
that module too, it waits for ever: a DataLoader worker would hang. So a fork waits for the beat thread's imports, which
take milliseconds, and happen only when a run begins.
"""

import os
import sys
import threading
import time
from types import FrameType

_LIMIT_S = 0.5

_threads: "list[threading.Thread]" = []


def delay_forks_during_imports(thread: threading.Thread) -> None:
    """Let every fork of this process wait while ``thread`` imports, for ``_LIMIT_S`` at most."""
    if not _threads and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_wait_for_imports)
    _threads[:] = [*(each for each in _threads if each.is_alive()), thread]


def _wait_for_imports() -> None:
    deadline = time.monotonic() + _LIMIT_S
    while _importing() and time.monotonic() < deadline:
        time.sleep(0.0005)


def _importing() -> bool:
    frames = sys._current_frames()  # noqa: SLF001 - documented, for all its underscore
    return any(_inside_import(frames.get(thread.ident or 0)) for thread in _threads)


def _inside_import(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
