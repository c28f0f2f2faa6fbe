"""Scripts without a block: the end of the process ends the run.

What Python tells about its end: an uncaught exception goes to ``sys.excepthook``; ``sys.exit(n)`` goes nowhere, so the
function is wrapped, and so are ``exit`` and ``quit``; a signal ends the process without a word, so SIGTERM gets a
handler where nobody else has set one (and a listener, see ``stuck``, for a main thread that comes to no handler); what
remains is ``atexit``. A child made by fork has none of it: its end is not the run's.
"""

import atexit
import builtins
import opcode
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

from lastbeat.sdk.run import END_WAIT_S, Run, went_well
from lastbeat.sdk.stuck import die_of, listen

AGAIN_S = 2.0
"""How long the end is waited for once a second signal has come."""


class _Ends:
    """What is known of how this process ends, and the runs that end with it."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.process = os.getpid()
        self.error: SystemExit | None = None
        """What ``sys.exit`` was called with, where that is no success."""
        self.main: FrameType | None = None
        """The outermost frame of the main thread."""
        self.handling = False
        """SIGTERM has come, and the main thread attends to it."""
        self.hook_before = sys.excepthook

    def install(self) -> None:
        # Hooks are called in whatever order others chain them; each calls the one that it found.
        sys.excepthook = self._uncaught
        sys.exit = self._exit(sys.exit)
        for name in ("exit", "quit"):
            if hasattr(builtins, name):
                setattr(builtins, name, self._exit(getattr(builtins, name)))
        if threading.current_thread() is threading.main_thread():
            self.main = _outermost()
            if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
                signal.signal(signal.SIGTERM, self._terminated)
                listen(signal.SIGTERM, self._terminated_late)

    @property
    def _ours(self) -> bool:
        return os.getpid() == self.process

    def _uncaught(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        try:
            if self._ours:
                self._end(error)
        finally:
            self.hook_before(kind, error, trace)

    def _exit(self, before: Callable[..., Any]) -> Callable[..., Any]:
        def leave(code: Any = None, /) -> Any:
            if self._ours and threading.current_thread() is threading.main_thread():
                self.error = None if went_well(code) else SystemExit(code)
            return before(code)

        return leave

    def _terminated(self, number: int, _frame: FrameType | None) -> None:
        if self.handling and self._ours:
            # Whoever waits, below on this stack, sees it.
            self._hurry()
            return
        self.handling = True
        try:
            if self._ours:
                for run in self.runs:
                    run.cancel(f"received signal {number} ({signal.Signals(number).name})", wait_s=0.0)
                self._wait()
        finally:
            # And then as if nobody had handled it, so that whoever sent it sees what it expects.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _terminated_late(self, again: Callable[[], bool]) -> None:
        # Not if somebody has put a handler of their own into the place of ours: they end when they choose.
        if self._ours and not self.handling and signal.getsignal(signal.SIGTERM) == self._terminated:
            for run in self.runs:
                run.cancel("received signal 15 (SIGTERM), in the midst of native code", wait_s=0.0)
            self._wait(again)
            die_of(signal.SIGTERM)

    def at_exit(self) -> None:
        if self._ours:
            caught = self.error is not None and self.main is not None and _returned(self.main)
            self._end(None if caught else self.error)

    def _end(self, error: BaseException | None) -> None:
        for run in self.runs:
            if not run.ended:
                run.end_with(error, wait_s=0.0)
        # A second Ctrl-C ends the wait, and nothing else.
        with suppress(KeyboardInterrupt):
            self._wait()

    def _wait(self, again: Callable[[], bool] = lambda: False) -> None:
        """Wait until the sentinels are written, no longer than what is left of the one wait that a run's end has."""
        now = time.monotonic()
        for run in self.runs:
            run.until = now + END_WAIT_S if run.until is None else run.until
        # Polled, for a signal handler may interrupt it and shorten it.
        while any(run.waits and run.until is not None and time.monotonic() < run.until for run in self.runs):
            if again():
                self._hurry()
            time.sleep(0.005)

    def _hurry(self) -> None:
        soon = time.monotonic() + AGAIN_S
        for run in self.runs:
            run.until = soon if run.until is None else min(run.until, soon)


def _outermost() -> FrameType:
    frame = sys._getframe()  # noqa: SLF001 - documented, for all its underscore
    while frame.f_back is not None:
        frame = frame.f_back
    return frame


def _returned(frame: FrameType) -> bool:
    """Whether the last instruction of a frame that is over was to return: then no exception left it."""
    code, last = frame.f_code.co_code, frame.f_lasti
    return 0 <= last < len(code) and opcode.opname[code[last]].startswith("RETURN")


_ends: _Ends | None = None


def watch_the_end(run: Run) -> None:
    """End ``run`` with this process, as it ends."""
    global _ends  # noqa: PLW0603 - a process has one end
    if _ends is None or _ends.process != os.getpid():
        _ends = _Ends()
        _ends.install()
    # What is registered last is called first, so that the run ends before its beat thread is stopped.
    atexit.unregister(_ends.at_exit)
    atexit.register(_ends.at_exit)
    _ends.runs.append(run)


def known_error() -> SystemExit | None:
    """What this process is known to exit with; None where nothing says that it goes wrong."""
    return _ends.error if _ends is not None and _ends.process == os.getpid() else None
