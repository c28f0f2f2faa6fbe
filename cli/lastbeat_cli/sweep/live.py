"""What a terminal shows while nothing is to be printed: how far a long pass is, and when the next one comes."""

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
"""Passes that are over by then show no bar."""


class Spinner:
    """A context for one pass, called with how many runs were looked at and how many need it; on stderr.

    A spinner with a count, for more are found while the first are looked at: a bar would go back, and its time left
    would be wrong.
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
        """``of`` may grow while more are found; it is called from any thread."""
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
    """A context for the time between two passes: counts down to ``due``, by ``time.monotonic()``; on stderr."""

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
        """The line as of now; the cursor rests below it, where the terminal's echo of Ctrl-C spoils nothing."""
        left = max(0.0, self._due - time.monotonic())
        line = Text(f"next pass in {format_duration(left)}; Ctrl-C stops the watching, the runs go on", style="dim")
        return Group(line, Text(""))

    def __enter__(self) -> "Pause":
        self._live.start(refresh=True)
        self._console.show_cursor(True)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()
