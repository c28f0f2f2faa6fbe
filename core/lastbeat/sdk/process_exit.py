"""Ends the runs of scripts without a ``with`` block when their process ends.

What Python reveals of its end: an uncaught exception goes to ``sys.excepthook``. ``sys.exit(n)`` goes nowhere, so the
function is wrapped, as are ``exit`` and ``quit``. A signal ends the process without a word, so SIGTERM gets a handler
unless it has one, and a listener for a main thread that does not get to its handlers. All else is left to ``atexit``.
In a child made by fork none of this applies: its end is not the run's.

The listener is needed because Python's signal handlers run in the main thread, between two bytecode instructions. A
rank that waits in a collective for a dead peer never gets there: with a handler it would outlive SIGTERM until SIGKILL,
which torchrun, Slurm and Kubernetes send half a minute later, and would delay the restart as long. Without one it would
have died at once. So a thread waits on the file descriptor that Python's C-level handler writes to, and acts if the
main thread has not. Native code that holds the interpreter lock stops that thread as well.
"""

import atexit
import builtins
import ctypes
import opcode
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

from lastbeat.sdk.run import END_WAIT_S, Run, is_success

SECOND_SIGNAL_WAIT_S = 2.0
"""How long the end is waited for after a second signal."""
LATE_S = 2.0
"""How long the main thread has to handle a signal itself."""


class _ProcessExit:
    """What is known of how this process ends, and the runs that end with it."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.pid = os.getpid()
        self.error: SystemExit | None = None
        """What ``sys.exit`` was called with, unless it means success."""
        self.main_frame: FrameType | None = None
        """The outermost frame of the main thread."""
        self.handling_sigterm = False
        """SIGTERM has come, and the main thread handles it."""
        self.excepthook_before = sys.excepthook

    def install(self) -> None:
        """Hook into every way in which this process may end. Each hook calls the one that it replaces."""
        sys.excepthook = self._on_exception
        sys.exit = self._recording(sys.exit)
        for name in ("exit", "quit"):
            if hasattr(builtins, name):
                setattr(builtins, name, self._recording(getattr(builtins, name)))
        if threading.current_thread() is threading.main_thread():
            self.main_frame = _outermost_frame()
            if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
                signal.signal(signal.SIGTERM, self._on_sigterm)
                _listen_for_late_signal(signal.SIGTERM, self._on_late_sigterm)

    @property
    def _in_own_process(self) -> bool:
        return os.getpid() == self.pid

    def _on_exception(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        try:
            if self._in_own_process:
                self._end_runs(error)
        finally:
            self.excepthook_before(kind, error, trace)

    def _recording(self, exit_before: Callable[..., Any]) -> Callable[..., Any]:
        """``exit_before``, with its code noted first."""

        def leave(code: Any = None, /) -> Any:
            if self._in_own_process and threading.current_thread() is threading.main_thread():
                self.error = None if is_success(code) else SystemExit(code)
            return exit_before(code)

        return leave

    def _on_sigterm(self, number: int, _frame: FrameType | None) -> None:
        """The main thread's handler.

        1. A second SIGTERM during step 3 only shortens that wait, which is further down on this stack.
        2. End the runs as cancelled.
        3. Wait for their sentinels.
        4. Die by the default action, so that the sender sees what it expects.
        """
        if self.handling_sigterm and self._in_own_process:
            self._shorten_wait()
            return
        self.handling_sigterm = True
        try:
            if self._in_own_process:
                for run in self.runs:
                    run.cancel(f"received signal {number} ({signal.Signals(number).name})", wait_s=0.0)
                self._wait_for_sentinels()
        finally:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _on_late_sigterm(self, came_again: Callable[[], bool]) -> None:
        """The same in the listening thread, unless the main thread handles it, or training has installed a handler."""
        if self._in_own_process and not self.handling_sigterm and signal.getsignal(signal.SIGTERM) == self._on_sigterm:
            for run in self.runs:
                run.cancel("received signal 15 (SIGTERM), in the midst of native code", wait_s=0.0)
            self._wait_for_sentinels(came_again)
            _die_of(signal.SIGTERM)

    def at_exit(self) -> None:
        """The process ends without an uncaught exception: well, or by ``sys.exit`` with an error."""
        if self._in_own_process:
            # If the main module returned, somebody caught the SystemExit.
            caught = self.error is not None and self.main_frame is not None and _returned(self.main_frame)
            self._end_runs(None if caught else self.error)

    def _end_runs(self, error: BaseException | None) -> None:
        for run in self.runs:
            if not run.ended:
                run.end_with(error, wait_s=0.0)
        # A second Ctrl-C ends the wait and nothing else.
        with suppress(KeyboardInterrupt):
            self._wait_for_sentinels()

    def _wait_for_sentinels(self, came_again: Callable[[], bool] = lambda: False) -> None:
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


def _outermost_frame() -> FrameType:
    frame = sys._getframe()  # noqa: SLF001 - documented, for all its underscore
    while frame.f_back is not None:
        frame = frame.f_back
    return frame


def _returned(frame: FrameType) -> bool:
    """Whether the last instruction of a finished frame was a return: then no exception left it."""
    code, last = frame.f_code.co_code, frame.f_lasti
    return 0 <= last < len(code) and opcode.opname[code[last]].startswith("RETURN")


_process_exit: _ProcessExit | None = None


def end_with_process(run: Run) -> None:
    """End ``run`` when this process ends, and as it ends."""
    global _process_exit  # noqa: PLW0603 - a process ends once
    if _process_exit is None or _process_exit.pid != os.getpid():
        _process_exit = _ProcessExit()
        _process_exit.install()
    # The function registered last is called first, so the run ends before its beat thread is stopped.
    atexit.unregister(_process_exit.at_exit)
    atexit.register(_process_exit.at_exit)
    _process_exit.runs.append(run)


def known_exit() -> SystemExit | None:
    """The error that this process is known to exit with; None if nothing says that it fails."""
    return _process_exit.error if _process_exit is not None and _process_exit.pid == os.getpid() else None


# The listener.

_fork_hooked = False


def _listen_for_late_signal(number: int, on_late: Callable[[Callable[[], bool]], None]) -> bool:
    """Call ``on_late`` in another thread, ``LATE_S`` after each signal ``number``.

    Its argument tells whether another signal has come since it was last asked. Call this in the main thread. Returns
    False if nobody can listen: another listener is there (an event loop, for example), or no pipe or thread is left.
    """
    global _fork_hooked  # noqa: PLW0603 - a process has one such descriptor, and a hook of os cannot be removed
    try:
        reading, writing = os.pipe()
    except OSError:
        return False
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    thread = threading.Thread(target=_listen, args=(reading, number, on_late), name="lastbeat-signals", daemon=True)
    if before == -1 and _thread_started(thread):
        if not _fork_hooked and hasattr(os, "register_at_fork"):
            # Or a signal to a DataLoader worker would reach the parent through the shared pipe.
            os.register_at_fork(after_in_child=_stop_listening)
            _fork_hooked = True
        return True
    signal.set_wakeup_fd(before)
    os.close(reading)
    os.close(writing)
    return False


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


def _listen(reading: int, number: int, on_late: Callable[[Callable[[], bool]], None]) -> None:
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


def _stop_listening() -> None:
    if threading.current_thread() is threading.main_thread():
        signal.set_wakeup_fd(-1)
