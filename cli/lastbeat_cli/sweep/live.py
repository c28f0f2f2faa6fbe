"""The terminal between reports: the progress of a long pass, and a countdown to the next one."""

import sys
import threading
import time
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from lastbeat.model.text import counted
from lastbeat.model.times import format_duration

PATIENCE_S = 2.0
"""A pass shorter than this many seconds shows no progress."""


class Spinner:
    """Shows the progress of one pass on stderr, as a context that is called with the runs checked and found.

    It is a spinner with a count. More runs are found while the first are checked, so a bar would move backwards.
    """

    def __init__(self, console: Console | None = None, *, patience_s: float = PATIENCE_S) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console or Console(stderr=True), transient=True)
        self._task = self._progress.add_task("looking for runs", total=None)
        self._over = False
        self._shown = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(patience_s, self._show)
        self._timer.daemon = True

    def __call__(self, done: int, of: int) -> None:
        """Update the count. ``of`` may grow while more runs are found. Thread-safe."""
        if of:
            found = counted(of, "run")
            self._progress.update(self._task, description=f"looked at {done:,} of {found} found so far")

    def _show(self) -> None:
        with self._lock:
            if not self._over:
                self._shown = True
                self._progress.start()
                self._progress.console.show_cursor(True)  # A second Ctrl-C must not leave a terminal without one.

    def __enter__(self) -> "Spinner":
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._timer.cancel()
        with self._lock:
            self._over = True
            if self._shown:
                self._progress.stop()


class Pause:
    """Counts down to ``due``, by ``time.monotonic()``, on stderr: a context for the time between two passes."""

    def __init__(self, due: float, console: Console | None = None) -> None:
        self._due = due
        self._console = console or Console(stderr=True)
        self._live = Live(
            console=self._console,
            get_renderable=self.render,
            refresh_per_second=1,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=sys.stderr is not None and sys.stderr.isatty(),
        )

    def render(self) -> RenderableType:
        """The current line. The cursor rests below it, so the echo of Ctrl-C does not overwrite it."""
        left = max(0.0, self._due - time.monotonic())
        line = Text(f"next pass in {format_duration(left)}; Ctrl-C stops the watching, the runs go on", style="dim")
        return Group(line, Text(""))

    def __enter__(self) -> "Pause":
        self._live.start(refresh=True)
        self._console.show_cursor(True)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()
