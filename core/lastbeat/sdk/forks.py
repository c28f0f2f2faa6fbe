"""A fork must not fall into the middle of an import.

The child would inherit that module's lock from a thread that it does not have, and wait for ever where it imports the
same module: a DataLoader's worker would hang. So a fork waits for the beat thread's imports, which take milliseconds
and only when a run begins.
"""

import os
import sys
import threading
import time
from types import FrameType

_LIMIT_S = 0.5

_threads: "list[threading.Thread]" = []


def watch_over(thread: threading.Thread) -> None:
    """Let no fork of this process interrupt an import of ``thread``."""
    if not _threads and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_wait)
    _threads[:] = [*(one for one in _threads if one.is_alive()), thread]


def _wait() -> None:
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
