"""The frames of all threads, taken without a deadlock."""

import gc
import sys
import threading
from types import FrameType


def current_frames() -> dict[int, FrameType]:
    """Thread ident → its innermost frame. For this thread, the caller's frame.

    ``sys._current_frames`` holds a lock of the interpreter while it allocates. A garbage collection in that moment may
    drop a ``threading.local``, which waits for the same lock with the GIL held: the process would hang for good
    (gh-106883; Python 3.11.7 still does). So no collection runs meanwhile.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        frames = sys._current_frames()  # noqa: SLF001 - it has no other name, and is documented
    finally:
        if collects:
            gc.enable()
    frames[threading.get_ident()] = sys._getframe(1)  # noqa: SLF001 - likewise
    return frames
