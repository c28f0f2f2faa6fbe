"""SIGTERM while the main thread is in native code.

Python's signal handlers run in the main thread, between two of its own instructions. A rank that waits in a collective
for one that has died comes to none: with a handler it would outlive SIGTERM until SIGKILL, which torchrun, Slurm and
Kubernetes send half a minute later, and would hold up the restart for as long. Without a handler it would have died at
once. So a thread listens for the signal, too, by the file descriptor that Python's own C handler writes to, and acts
where the main thread has not. Native code that holds the GIL stops that thread as well.
"""

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable

LATE_S = 2.0
"""How long the main thread has to handle the signal itself."""

_hooked = False


def listen(number: int, late: Callable[[], None]) -> bool:
    """Call ``late`` in a thread, ``LATE_S`` after each signal ``number``. To be called in the main thread.

    False where somebody else listens already, an event loop for example.
    """
    global _hooked  # noqa: PLW0603 - a process has one such descriptor, and a hook of os cannot be taken back
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    if before != -1:
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)
        return False
    if not _hooked and hasattr(os, "register_at_fork"):
        # A DataLoader's worker that is told to end would else tell the parent so.
        os.register_at_fork(after_in_child=_deafen)
        _hooked = True
    threading.Thread(target=_listen, args=(reading, number, late), name="lastbeat-signals", daemon=True).start()
    return True


def die_of(number: int) -> None:
    """End this process as if nobody had handled the signal; unlike ``signal.signal`` it works in any thread."""
    ctypes.CDLL(None).signal(number, None)
    os.kill(os.getpid(), number)


def _listen(reading: int, number: int, late: Callable[[], None]) -> None:
    while True:
        told = os.read(reading, 64)
        if not told:
            return
        if number in told:
            time.sleep(LATE_S)
            late()


def _deafen() -> None:
    if threading.current_thread() is threading.main_thread():
        signal.set_wakeup_fd(-1)
