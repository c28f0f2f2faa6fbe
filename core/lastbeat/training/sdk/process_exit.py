"""Ends the runs of scripts without a ``with`` block when their process ends.

An uncaught exception reaches ``sys.excepthook``. ``sys.exit(n)`` has no hook, so the function is wrapped, as are
``exit`` and ``quit``. SIGTERM has a handler (see ``termination.py``). ``atexit`` covers all else. In a child made by
fork none of this applies, because its end is not the run's.
"""

import atexit
import builtins
import opcode
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

from lastbeat.training.sdk.run import Run, is_success
from lastbeat.training.sdk.termination import Termination, termination


class _ProcessExit:
    """Observes how this process ends, and ends its runs accordingly."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.pid = os.getpid()
        self.error: SystemExit | None = None
        """The last call of ``sys.exit`` as an exception, unless its code means success."""
        self.main_frame: FrameType | None = None
        """The outermost frame of the main thread."""
        self.termination: Termination = termination()
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
        """``exit_before``, wrapped so that it notes its code first."""

        def leave(code: Any = None, /) -> Any:
            if threading.current_thread() is threading.main_thread():
                self.error = None if is_success(code) else SystemExit(code)
            return exit_before(code)

        return leave

    def at_exit(self) -> None:
        """End the runs of a process that ends without an uncaught exception: well, or by ``sys.exit`` with an error."""
        if self._in_own_process:
            # If the main module returned, its code caught the SystemExit.
            caught = self.error is not None and self.main_frame is not None and _returned(self.main_frame)
            self._end_runs(None if caught else self.error)

    def _end_runs(self, error: BaseException | None) -> None:
        for run in self.runs:
            if not run.ended:
                run.end_with(error, wait_s=0.0)
        # A second Ctrl-C ends the wait and nothing else.
        with suppress(KeyboardInterrupt):
            self.termination.wait_for_sentinels()


def _outermost_frame() -> FrameType:
    frame = sys._getframe()  # noqa: SLF001 - documented, for all its underscore
    while frame.f_back is not None:
        frame = frame.f_back
    return frame


def _returned(frame: FrameType) -> bool:
    """Whether the last instruction of a finished frame was a return, so that no exception left the frame."""
    code, last = frame.f_code.co_code, frame.f_lasti
    return 0 <= last < len(code) and opcode.opname[code[last]].startswith("RETURN")


_process_exit: _ProcessExit | None = None


def end_with_process(run: Run) -> None:
    """End ``run`` when this process ends, with the outcome of the process."""
    global _process_exit  # noqa: PLW0603 - a process ends once
    if _process_exit is None or _process_exit.pid != os.getpid():
        _process_exit = _ProcessExit()
        _process_exit.install()
    # The function registered last is called first, so the run ends before its beat thread is stopped.
    atexit.unregister(_process_exit.at_exit)
    atexit.register(_process_exit.at_exit)
    _process_exit.runs.append(run)
    _process_exit.termination.watch(run)


def known_exit() -> SystemExit | None:
    """The error that this process is known to exit with, or None."""
    return _process_exit.error if _process_exit is not None and _process_exit.pid == os.getpid() else None
