"""Scripts without a block: the end of the process ends the run.

What Python tells about its end: an uncaught exception goes to ``sys.excepthook``; ``sys.exit(n)`` goes nowhere, so the
function is wrapped; a signal ends the process without a word, so SIGTERM gets a handler where nobody else has set one;
what remains is ``atexit``. A child made by fork has none of it: its end is not the run's.
"""

import atexit
import logging
import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

from lastbeat.sdk.run import Run

log = logging.getLogger("lastbeat")


class _Ends:
    """What is known of how this process ends, and the runs that end with it."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.process = os.getpid()
        self.error: BaseException | None = None
        self.exit_before = sys.exit
        self.hook_before = sys.excepthook
        self.thread_hook_before = threading.excepthook

    def install(self) -> None:
        # Hooks are called in whatever order others chain them; each calls the one that it found.
        sys.excepthook = self._uncaught
        threading.excepthook = self._uncaught_in_thread
        sys.exit = self._exit
        atexit.register(self._at_exit)
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._terminated)

    @property
    def _ours(self) -> bool:
        return os.getpid() == self.process

    def _uncaught(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        if self._ours:
            self._end(error)
        return self.hook_before(kind, error, trace)

    def _uncaught_in_thread(self, args: threading.ExceptHookArgs) -> Any:
        # A thread that dies is not training that dies: it may have been a logger's. It counts if the process then
        # ends without saying that all went well.
        if self._ours and args.exc_value is not None and self.error is None:
            self.error = args.exc_value
        return self.thread_hook_before(args)

    def _exit(self, code: Any = None, /) -> Any:
        if self._ours and threading.current_thread() is threading.main_thread():
            self.error = SystemExit(code) if code not in {None, 0} else self.error
        return self.exit_before(code)

    def _terminated(self, number: int, _frame: FrameType | None) -> None:
        if self._ours:
            for run in self.runs:
                run.cancel(f"received signal {number} ({signal.Signals(number).name})")
        # And then as if nobody had handled it, so that whoever sent it sees what it expects.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _at_exit(self) -> None:
        if self._ours:
            self._end(self.error)

    def _end(self, error: BaseException | None) -> None:
        for run in self.runs:
            if not run.ended:
                run.end_with(error)


_ends: _Ends | None = None


def watch_the_end(run: Run) -> None:
    """End ``run`` with this process, as it ends."""
    global _ends  # noqa: PLW0603 - a process has one end
    if _ends is None or _ends.process != os.getpid():
        _ends = _Ends()
        _ends.install()
    _ends.runs.append(run)
