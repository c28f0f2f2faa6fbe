"""SIGTERM: ends the runs of this process as cancelled, before the process dies of it as it would have.

A signal ends a process without a word, so while there is a run SIGTERM gets a handler, unless it has one. Python's
handlers run in the main thread, between two bytecode instructions. A rank that waits in a collective for a dead peer
never gets there: with a handler it would outlive SIGTERM until SIGKILL, which torchrun, Slurm and Kubernetes send half
a minute later, and would delay the restart as long. Without one it would have died at once. So a thread waits on the
file descriptor that Python's C-level handler writes to, and acts if the main thread has not. Native code that holds the
interpreter lock stops that thread as well.

In a child made by fork none of this applies: its end is not the run's.
"""

import ctypes
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

from lastbeat.sdk.run import END_WAIT_S, Run

SECOND_SIGNAL_WAIT_S = 2.0
"""How long the end is waited for after a second signal."""
LATE_S = 2.0
"""How long the main thread has to handle a signal itself."""


class Termination:
    """The runs of this process that SIGTERM ends."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.pid = os.getpid()
        self._handling = False
        """SIGTERM has come, and the main thread handles it."""
        self._listener: _Listener | None = None

    def watch(self, run: Run) -> None:
        """``run`` ends with SIGTERM from now on, if this is the main thread and nobody else handles that."""
        self.runs.append(run)
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._on_sigterm)
            self._listener = self._listener or listen(signal.SIGTERM, self._on_late_sigterm)

    def leave(self, run: Run) -> None:
        """``run`` is over. After the last one SIGTERM is as it was, unless somebody has put another handler there."""
        if run in self.runs:
            self.runs.remove(run)
        if self.runs or not self.in_own_process or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) == self._on_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if self._listener is not None:
                self._listener.close()
                self._listener = None

    @property
    def in_own_process(self) -> bool:
        """Whether this is the process whose runs these are, and no fork of it."""
        return os.getpid() == self.pid

    def _on_sigterm(self, number: int, _frame: FrameType | None) -> None:
        """The main thread's handler.

        1. A second SIGTERM during step 3 only shortens that wait, which is further down on this stack.
        2. End the runs as cancelled.
        3. Wait for their sentinels.
        4. Die by the default action, so that the sender sees what it expects.
        """
        if self._handling and self.in_own_process:
            self._shorten_wait()
            return
        self._handling = True
        try:
            if self.in_own_process:
                for run in self.runs:
                    run.terminated(f"received signal {number} ({signal.Signals(number).name})")
                self.wait_for_sentinels()
        finally:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _on_late_sigterm(self, came_again: Callable[[], bool]) -> None:
        """The same in the listening thread, unless the main thread handles it, or training has installed a handler."""
        if self.in_own_process and not self._handling and signal.getsignal(signal.SIGTERM) == self._on_sigterm:
            for run in self.runs:
                run.terminated("received signal 15 (SIGTERM), in the midst of native code")
            self.wait_for_sentinels(came_again)
            _die_of(signal.SIGTERM)

    def wait_for_sentinels(self, came_again: Callable[[], bool] = lambda: False) -> None:
        """Wait until all sentinels are written, or the time that each run's end has in total is over."""
        now = time.monotonic()
        for run in self.runs:
            run.end_deadline = now + END_WAIT_S if run.end_deadline is None else run.end_deadline
        # Polled, because a signal handler may interrupt it and shorten it.
        while any(
            run.end_pending and run.end_deadline is not None and time.monotonic() < run.end_deadline
            for run in self.runs
        ):
            if came_again():
                self._shorten_wait()
            time.sleep(0.005)

    def _shorten_wait(self) -> None:
        soon = time.monotonic() + SECOND_SIGNAL_WAIT_S
        for run in self.runs:
            run.end_deadline = soon if run.end_deadline is None else min(run.end_deadline, soon)


_termination: Termination | None = None


def termination() -> Termination:
    """That of this process."""
    global _termination  # noqa: PLW0603 - a process has one SIGTERM
    if _termination is None or not _termination.in_own_process:
        _termination = Termination()
    return _termination


# The listener.

_fork_hooked = False


class _Listener:
    """A thread that hears of signals, and the pipe by which it does."""

    def __init__(self, writing: int) -> None:
        self._writing = writing

    def close(self) -> None:
        """Hear of no more. Call this in the main thread."""
        now = signal.set_wakeup_fd(-1)
        if now != self._writing:
            signal.set_wakeup_fd(now)
        # The thread reads the end of the pipe, and ends.
        os.close(self._writing)


def listen(number: int, on_late: Callable[[Callable[[], bool]], None]) -> _Listener | None:
    """Call ``on_late`` in another thread, ``LATE_S`` after each signal ``number``.

    Its argument tells whether another signal has come since it was last asked. Call this in the main thread. Returns
    None if nobody can listen: another listener is there (an event loop, for example), or no pipe or thread is left.
    """
    global _fork_hooked  # noqa: PLW0603 - a process has one such descriptor, and a hook of os cannot be removed
    try:
        reading, writing = os.pipe()
    except OSError:
        return None
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    thread = threading.Thread(target=_hear, args=(reading, number, on_late), name="lastbeat-signals", daemon=True)
    if before == -1 and _thread_started(thread):
        if not _fork_hooked and hasattr(os, "register_at_fork"):
            # Or a signal to a DataLoader worker would reach the parent through the shared pipe.
            os.register_at_fork(after_in_child=_stop_listening)
            _fork_hooked = True
        return _Listener(writing)
    signal.set_wakeup_fd(before)
    os.close(reading)
    os.close(writing)
    return None


def _thread_started(thread: threading.Thread) -> bool:
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


def _die_of(number: int) -> None:
    """Kill this process by the signal's default action. Works in any thread, which ``signal.signal`` does not."""
    ctypes.CDLL(None).signal(number, None)
    os.kill(os.getpid(), number)


def _hear(reading: int, number: int, on_late: Callable[[Callable[[], bool]], None]) -> None:
    ready = select.poll()
    ready.register(reading, select.POLLIN)
    closed = False

    def came(wait_ms: float | None) -> bool:
        """Whether the signal comes within ``wait_ms``."""
        nonlocal closed
        if closed or not ready.poll(wait_ms):
            return False
        numbers = os.read(reading, 64)
        closed = not numbers
        return number in numbers

    while not closed:
        if came(None):
            time.sleep(LATE_S)
            on_late(lambda: came(0))
    os.close(reading)


def _stop_listening() -> None:
    if threading.current_thread() is threading.main_thread():
        signal.set_wakeup_fd(-1)
