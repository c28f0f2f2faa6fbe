"""The live panel of a terminal: the result of the last pass, with running ages and a countdown to the next."""

import sys
import time
from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel as Box
from rich.table import Table
from rich.text import Text

from lastbeat.alerts.facts import number
from lastbeat.model.document import heartbeat
from lastbeat.model.outcome import Outcome
from lastbeat.model.status import Status, steps_done
from lastbeat.model.text import one_line
from lastbeat.model.times import format_duration
from lastbeat_cli import lines, logs

# The word carries the meaning; the colour only helps to find it.
_STYLES = {
    Status.RUNNING: "bold green",
    Status.SUCCEEDED: "bold green",
    Status.FAILED: "bold red",
    Status.TIMED_OUT: "bold red",
    Status.CANCELLED: "bold",
    Status.PREEMPTED: "bold",
    Status.UNKNOWN: "bold magenta",
}
_BAR_WIDTH = 20
_MOST_ROWS = 4  # Notes, warnings and failures of each kind; the plain text at the end has them all.
WINDOW = 30
"""Number of passes for the pace: enough to smooth a slow checkpoint, few enough to follow a change of speed."""


class Panel:
    """A context that shows a panel, updated by :meth:`show`, and clears it at the end."""

    def __init__(self, where: str, console: Console | None = None) -> None:
        self._where = where
        self._outcome: Outcome | None = None
        self._due: float | None = None
        self._seen_at = 0.0
        self._pace = StepRate()
        self._console = console or Console()
        self._live = Live(
            console=self._console,
            get_renderable=self.render,
            refresh_per_second=2,
            transient=True,
            # Logs that go into a file are not redirected.
            redirect_stderr=sys.stderr is not None and sys.stderr.isatty(),
        )

    def __enter__(self) -> "Panel":
        self._live.start(refresh=True)
        # A second Ctrl-C ends the process at once and must not leave the terminal without a cursor.
        self._console.show_cursor(True)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()

    def show(self, outcome: Outcome, due: float | None) -> None:
        """Show ``outcome``. ``due`` is the time of the next pass, by ``time.monotonic()``, or None after the last."""
        beat = heartbeat(outcome)
        if beat is not None and beat.step is not None:
            self._pace.see(outcome.at, beat.step)
        self._outcome, self._due, self._seen_at = outcome, due, time.monotonic()
        self._live.refresh()

    def render(self) -> RenderableType:
        """The current panel."""
        title = Text(f"lastbeat · {one_line(self._where)}", overflow="ellipsis", no_wrap=True)
        if self._outcome is None:
            return Box(Text("first look …"), title=title, title_align="left")
        now = time.monotonic()
        rows = Table.grid(padding=(0, 2))
        rows.add_column(no_wrap=True)
        rows.add_column(overflow="fold")
        for name, value in self._rows(self._outcome, timedelta(seconds=now - self._seen_at)):
            rows.add_row(Text(name, style="dim"), value)
        footer = Text("Ctrl-C stops the watching; the run goes on", style="dim")
        box = Box(
            Group(rows, footer), title=title, title_align="left", subtitle=self._countdown(now), subtitle_align="right"
        )
        # The cursor rests on a line of its own. Beside a full-width border the echo of Ctrl-C would wrap, and the
        # panel would be cleared one line too low.
        return Group(box, Text(""))

    def _rows(self, outcome: Outcome, since: timedelta) -> Iterator[tuple[str, RenderableType]]:
        warned = outcome.status is Status.RUNNING and outcome.conditions
        yield (
            "Status",
            Text(
                lines.headline(outcome), style="bold yellow" if warned else _STYLES.get(outcome.status, "bold magenta")
            ),
        )
        # The detail of a running run is the ages of its heartbeats, which are updated below.
        if outcome.status is not Status.RUNNING:
            yield "Detail", _text(outcome.reason)
        if text := lines.phase(outcome):
            yield "Phase", _text(text)
        if text := lines.owner(outcome):
            yield "Owner", _text(text)
        yield from self._progress(outcome)
        now = outcome.at + since
        yield (
            "Heartbeats",
            _text(f"metadata {_age(now, outcome.last_metadata_at)}, progress {_age(now, outcome.last_progress_at)}"),
        )
        told = f"{outcome.pending} pending, {outcome.delivered} delivered"
        yield "Alerts", Text(told, style="yellow" if outcome.pending else "")
        if cause := lines.cause(outcome):
            yield "Cause", _text(cause)
        for label, text in lines.why(outcome):
            yield label, _text(text)
        if outcome.action:
            yield "Action", _text(outcome.action)
        for name, seen in list(outcome.conditions.items())[:_MOST_ROWS]:
            yield "Warning", _text(f"{name}: {seen}")
        for failure in outcome.failures[-_MOST_ROWS:]:
            yield "Undelivered", _text(failure)
        for note in outcome.notes[:_MOST_ROWS]:
            yield "Note", _text(note)

    def _progress(self, outcome: Outcome) -> Iterator[tuple[str, RenderableType]]:
        beat = heartbeat(outcome)
        if beat is None or beat.step is None:
            return
        if not beat.total_steps or beat.total_steps < 0:
            yield "Step", Text(str(beat.step))
        else:
            total = beat.total_steps
            left = self._pace.left_s(total) if outcome.status is Status.RUNNING else None
            eta = f", ETA {format_duration(left)}" if left is not None else ""
            step = steps_done(beat.step, total, outcome.status)
            bar = lines.bar(step, total, _BAR_WIDTH, ascii_only=not self._console.encoding.startswith("utf"))
            yield "Step", _text(f"{bar} {step}/{total} ({lines.percent(step, total)}){eta}")
        if beat.loss is not None:
            yield "Loss", Text(number(beat.loss))

    def _countdown(self, now: float) -> Text:
        if self._due is None:
            return Text("last check")
        left = self._due - now
        return Text(f"next check in {format_duration(left)}" if left > 0 else "checking …")


def _text(text: str) -> Text:
    """Text from training: cleaned, bounded, without known secrets, and never interpreted as markup."""
    text = logs.redact(one_line(text))
    return Text(text if len(text) <= 300 else text[:300] + "…")


def _age(now: datetime, then: datetime | None) -> str:
    return lines.age(now, then) if then is not None else "not seen"


class StepRate:
    """The pace of a run over the last passes, for an estimate of its end."""

    def __init__(self) -> None:
        self._seen: deque[tuple[datetime, int]] = deque(maxlen=WINDOW)

    def see(self, at: datetime, step: int) -> None:
        """Add ``step``. A lower step than before means a new attempt, so earlier steps are dropped."""
        if self._seen and (step < self._seen[-1][1] or at <= self._seen[-1][0]):
            self._seen.clear()
        self._seen.append((at, step))

    def steps_per_s(self) -> float | None:
        """The pace, or None if fewer than two different steps are known."""
        if len(self._seen) < 2:
            return None
        (first_at, first), (last_at, last) = self._seen[0], self._seen[-1]
        return (last - first) / (last_at - first_at).total_seconds() if last > first else None

    def left_s(self, total_steps: int) -> float | None:
        """Seconds until ``total_steps`` at this pace, or None if the pace is unknown."""
        pace = self.steps_per_s()
        return max(0, total_steps - self._seen[-1][1]) / pace if pace else None
