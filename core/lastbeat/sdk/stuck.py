"""SIGTERM while the main thread is in native code.

Python's signal handlers run in the main thread, between two of its own instructions. A rank that waits in a collective
for one that has died comes to none: with a handler it would outlive SIGTERM until SIGKILL, which torchrun, Slurm and
Kubernetes send half a minute later, and would hold up the restart for as long. Without a handler it would have died at
once. So a thread listens for the signal, too, by the file descriptor that Python's own C handler writes to, and acts
where the main thread has not. Native code that holds the GIL stops that thread as well.
"""

import ctypes
import os
import select
import signal
import threading
import time
from collections.abc import Callable

LATE_S = 2.0
"""How long the main thread has to handle the signal itself."""

_hooked = False


def listen(number: int, late: Callable[[Callable[[], bool]], None]) -> bool:
    """Call ``late`` in a thread, ``LATE_S`` after a signal ``number``; what it is given tells whether another one has
    come since it was asked last. To be called in the main thread.

    False where nobody can listen: somebody else does already, an event loop for example, or no pipe or thread is to be
    had.
    """
    global _hooked  # noqa: PLW0603 - a process has one such descriptor, and a hook of os cannot be taken back
    try:
        reading, writing = os.pipe()
    except OSError:
        return False
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    thread = threading.Thread(target=_listen, args=(reading, number, late), name="lastbeat-signals", daemon=True)
    if before == -1 and _started(thread):
        if not _hooked and hasattr(os, "register_at_fork"):
            # A DataLoader's worker that is told to end would else tell the parent so.
            os.register_at_fork(after_in_child=_deafen)
            _hooked = True
        return True
    signal.set_wakeup_fd(before)
    os.close(reading)
    os.close(writing)
    return False


def _started(thread: threading.Thread) -> bool:
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


def die_of(number: int) -> None:
    """End this process as if nobody had handled the signal; unlike ``signal.signal`` it works in any thread."""
    ctypes.CDLL(None).signal(number, None)
    os.kill(os.getpid(), number)


def _listen(reading: int, number: int, late: Callable[[Callable[[], bool]], None]) -> None:
    ready = select.poll()
    ready.register(reading, select.POLLIN)
    closed = False

    def came(wait_ms: float | None) -> bool:
        """Whether the signal comes within ``wait_ms``."""
        nonlocal closed
        if closed or not ready.poll(wait_ms):
            return False
        told = os.read(reading, 64)
        closed = not told
        return number in told

    while not closed:
        if came(None):
            time.sleep(LATE_S)
            late(lambda: came(0))


def _deafen() -> None:
    if threading.current_thread() is threading.main_thread():
        signal.set_wakeup_fd(-1)
