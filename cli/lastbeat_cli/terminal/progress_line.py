"""A line on stderr that says how far slow work is."""

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, TextIO

from lastbeat.model.text import counted
from lastbeat.views.lines import paint

PATIENCE_S: Final = 2.0
"""Work that takes less than this many seconds shows no line."""
_TICK_S: Final = 0.5
"""Seconds between two changes of the line."""
_CLEAR: Final = "\r\x1b[K"


class ProgressLine:
    """A context that shows a line and removes it at the end. Off a terminal it shows nothing. Thread-safe."""

    def __init__(self, stream: TextIO | None = None, *, patience_s: float = PATIENCE_S) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._wanted = paint.capable(self._stream)
        self._due = time.monotonic() + patience_s
        self._shown = False
        self._lock = threading.Lock()

    def show(self, text: Callable[[], str]) -> None:
        """Show the line that ``text`` makes, if the work has taken long and the last change is some time ago."""
        if not self._wanted or time.monotonic() < self._due:
            return
        with self._lock:
            if self._wanted and time.monotonic() >= self._due:
                print(f"{_CLEAR}{text()}", end="", file=self._stream, flush=True)
                self._due, self._shown = time.monotonic() + _TICK_S, True

    def runs(self, done: int, of: int) -> None:
        """Show that ``done`` of ``of`` runs were looked at. ``of`` may grow while more runs are found."""
        if of:
            self.show(lambda: f"looked at {done:,} of {counted(of, 'run')} found so far")

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        with self._lock:
            self._wanted = False
            if self._shown:
                print(_CLEAR, end="", file=self._stream, flush=True)
