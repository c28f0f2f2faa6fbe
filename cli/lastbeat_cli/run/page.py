"""One run live on a full terminal screen: everything about it, or its curves."""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from lastbeat.model.times import format_duration, format_time
from lastbeat.model.view import RunView
from lastbeat.stores.port import StoreError
from lastbeat.views.lines import signs
from lastbeat.views.lines.paint import Line, broken, cut, line
from lastbeat.views.lines.run import show_lines
from lastbeat.views.lines.signs import Signs, harmless
from lastbeat.views.one_run import RunWatch
from lastbeat_cli.explain import command as explain
from lastbeat_cli.run.screen import top_lines
from lastbeat_cli.terminal import scrolled
from lastbeat_cli.terminal.live import Feed
from lastbeat_cli.terminal.screen import Screen

_TICK_S: Final = 1.0
_LOG_LINES: Final = 40
_MOST_LOG_LINES: Final = 1000
"""Most lines of the log where it is shown alone."""
_TALL: Final = 36
"""From this many screen lines on, the whole traceback around the evidence is shown."""
_BEFORE: Final = 3
"""Lines shown before the evidence on a low screen."""
_AFTER: Final = 2
"""Lines shown after the evidence on a low screen."""


def show(
    screen: Screen, watch: RunWatch, interval_s: float, signs_of: Signs, *, alone: bool = False, logs: bool = False
) -> Feed[object]:
    """Show the run until the user leaves it, and return its feed. ``alone``: begin with the curves. ``logs``: with the
    end of its newest log."""
    page = RunPage(watch.run_id, signs_of, curves=alone, logs=logs, leave="quit" if alone else "back")
    feed: Feed[object] = Feed(
        lambda: watch.look(log_lines=_MOST_LOG_LINES if page.logs else _LOG_LINES), interval_s, screen.wake
    )
    feed.start()
    try:
        while not screen.ended and feed.broken is None:
            columns, height = screen.size
            view = feed.value if isinstance(feed.value, RunView) else None
            screen.draw(page.picture(view, Freshness.of(feed), columns, height))
            keys = screen.wait(_TICK_S)
            last = next((index for index, key in enumerate(keys) if page.press(key)), None)
            if last is not None:
                screen.put_back(keys[last + 1 :])
                break
    finally:
        feed.stop()
    if feed.broken is not None:
        raise feed.broken
    return feed


class Freshness:
    """How old the shown view is, and whether reading it fails now."""

    def __init__(self, *, looked: bool, since_s: float, fault: StoreError | None, fault_s: float) -> None:
        self.looked = looked
        """Whether the store has answered at least once."""
        self.since_s = since_s
        """Seconds since the last answer."""
        self.fault = fault
        self.fault_s = fault_s

    @classmethod
    def of(cls, feed: Feed[object], steady: Callable[[], float] = time.monotonic) -> "Freshness":
        """The freshness of ``feed`` now."""
        now = steady()
        return cls(
            looked=feed.seen_at > 0,
            since_s=max(0.0, now - feed.seen_at),
            fault=feed.fault,
            fault_s=max(0.0, now - feed.fault_since),
        )


class RunPage:
    """The screen of a run, and the effect of each key on it. Independent of terminal and store."""

    def __init__(self, run_id: str, signs_of: Signs, *, curves: bool, leave: str = "back", logs: bool = False) -> None:
        self.logs = logs
        """Whether the log is shown alone."""
        self._last = logs
        """Whether its end stays in sight."""
        self._run_id = run_id
        self._signs = signs_of
        self._curves = curves
        self._leave = leave
        self._window = scrolled.Viewport()
        self._height = 1
        self._count = 0
        self._kept: tuple[RunView, tuple[int, int], list[Line]] | None = None

    def press(self, key: str) -> bool:
        """Handle ``key``. Returns whether the user leaves the run."""
        if key == "t":
            self._curves, self.logs = not self._curves, False
            self._window.top = 0
        elif key == "l":
            self.logs = self._last = not self.logs
            self._window.top = 0
        elif key in scrolled.MOVES:
            last = max(1, self._count - self._height + 1)
            self._window.top = scrolled.moved(self._window.top, key, last, self._height)
            self._last = self.logs and self._window.top == last - 1
        return key in scrolled.LEAVE

    def picture(self, view: RunView | None, seen: Freshness, columns: int, height: int) -> list[Line]:
        """All lines of the screen."""
        head = list(self._faults(view, seen, columns))
        self._height = max(1, height - len(head) - 1)
        if view is None:
            body: Sequence[Line] = () if seen.fault is not None else [line(self._nothing(seen, columns))]
        elif self.logs:
            body = list(_log(view, columns))
        elif self._curves:
            now = view.at + timedelta(seconds=seen.since_s)
            body = top_lines(view, columns, self._height, now, self._signs)
        else:
            body = self._all(view, columns, height)
        self._count = len(body)
        if self._last:
            self._window.top = max(0, self._count - self._height)
        start, end = self._window.of(body, self._height)
        lines = [*head, *body[start:end]]
        lines += [line("")] * (height - 1 - len(lines))
        told = [*lines[: height - 1], self._foot(view, seen, columns, start, end)]
        return [self._signs.line(signs.line_cut(each, columns)) for each in told]

    def _all(self, view: RunView, columns: int, height: int) -> list[Line]:
        known = (columns, height)
        if self._kept is None or self._kept[0] is not view or self._kept[1] != known:
            low = height < _TALL and view.evidence is not None
            # On a low screen the advice is worth more than the lines before the evidence.
            told = show_lines(view, columns, explain.mask, (_BEFORE, _AFTER) if low else None)
            lines = [part for each in told for part in ([each] if low else broken(each, columns))]
            self._kept = (view, known, lines)
        return self._kept[2]

    def _nothing(self, seen: Freshness, columns: int) -> str:
        name = signs.name(self._run_id)
        return cut(f"there is no run {name}" if seen.looked else f"looking at {name} …", columns)

    def _faults(self, view: RunView | None, seen: Freshness, columns: int) -> Sequence[Line]:
        if seen.fault is None:
            return ()
        stands = f"; shown as of {_time(view.at)}" if view is not None else ""
        text = f"! It cannot be seen for {format_duration(seen.fault_s)}{stands}: {harmless(str(seen.fault))}"
        told = [line(cut(text, columns), "bad")]
        if seen.fault.advice:
            told.append(line(cut(f"  {harmless(seen.fault.advice)}", columns)))
        return told

    def _foot(self, view: RunView | None, seen: Freshness, columns: int, start: int, end: int) -> Line:
        told = [f"q {self._leave}", f"t {'all about it' if self._curves else 'curves'}"]
        told.append("l all about it" if self.logs else "l log")
        if self._count > self._height:
            told.append(f"↑↓ scroll  {start + 1}-{end} of {self._count}")
        if view is not None:
            told.append(f"seen {format_duration(seen.since_s)} ago")
        return line(cut("  ".join(told), columns), "dim")


def _log(view: RunView, columns: int) -> Iterator[Line]:
    """The end of the newest log."""
    if view.log is None:
        yield line("no log was found")
        return
    yield line(cut(harmless(view.log.file), columns), "heading")
    for each in view.log.lines:
        yield from broken(line(harmless(each)), columns)


def _time(at: datetime) -> str:
    return format_time(at.replace(microsecond=0)) or ""
