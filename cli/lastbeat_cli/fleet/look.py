"""``fleet`` on a terminal: connects keys, screen, and a thread that reads the store."""

import sys
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from lastbeat.model.view import FleetView
from lastbeat.settings import Settings, opening
from lastbeat.stores.port import StoreError
from lastbeat.views.choosing import choose
from lastbeat.views.lines import signs
from lastbeat.views.one_run import run_watch
from lastbeat.views.watching import FleetWatch
from lastbeat_cli import exits
from lastbeat_cli.compare import compared, comparison_lines
from lastbeat_cli.fleet import doing
from lastbeat_cli.fleet.asked import FleetAsked
from lastbeat_cli.fleet.screen import FleetScreen
from lastbeat_cli.run import page as run_page
from lastbeat_cli.terminal import live, scrolled
from lastbeat_cli.terminal.live import Feed
from lastbeat_cli.terminal.screen import Screen

if TYPE_CHECKING:
    from lastbeat.stores.port import Store

TICK_S: Final = 1.0
"""Seconds between two updates of the ages."""
_SWITCH_S: Final = 0.001
"""Python's thread switch interval, in seconds."""
_OPENING_S: Final = 0.5
"""Seconds between two updates of the table while the fleet is read for the first time."""


def follow(settings: Settings, watch: FleetWatch, asked: FleetAsked, interval_s: float) -> int:
    """Show the fleet until the user quits. Returns the exit status."""
    # Short, so that the thread that reads thousands of documents does not delay a key.
    sys.setswitchinterval(_SWITCH_S)
    table = FleetScreen(asked, signs.of(sys.stdout))
    with Screen() as screen, live.quiet():
        look = _Look(watch, screen)
        feed = Feed(look.look, interval_s, screen.wake)
        feed.start()
        _show(settings, screen, look, feed, table, interval_s)
    return live.leave(feed, exits.OK if look.seen else exits.UNKNOWN)


class _Look:
    """Reads the fleet in the feed's thread, and holds what it has read."""

    def __init__(self, watch: FleetWatch, screen: Screen) -> None:
        self.wanted: Sequence[str] = ()
        self.paused = False
        """Whether a single run is open instead, so that only that run is read."""
        self._opened = False
        self._watch = watch
        self._screen = screen
        self._view: FleetView | None = None
        self._at: datetime | None = None
        self._at_seen = 0.0
        self._shown_at = 0.0

    @property
    def seen(self) -> bool:
        """Whether the last read of the fleet succeeded."""
        return self._view is not None and self._view.at is not None and self._view.fault is None

    def look(self) -> FleetView:
        """Read everything the first time, and then what one interval may cost. Runs in the feed's thread."""
        if self.paused:
            return self.view
        if not self._opened:
            view = self._watch.open(on_progress=lambda _done, _of: self._progress())
            self._opened = view.at is not None
        else:
            view = self._watch.round(tuple(self.wanted))
        self._take(view)
        return view

    def _progress(self) -> None:
        now = time.monotonic()
        if now - self._shown_at >= _OPENING_S:
            self._shown_at = now
            self._take(self._watch.view())
            self._screen.wake()

    def _take(self, view: FleetView) -> None:
        if view.at != self._at:
            self._at, self._at_seen = view.at, time.monotonic()
        self._view = view

    @property
    def view(self) -> FleetView:
        """The fleet as last read."""
        if self._view is None:
            self._view = self._watch.view()
        return self._view

    @property
    def now(self) -> datetime | None:
        """The store's time now, extrapolated from its last answer."""
        return None if self._at is None else self._at + timedelta(seconds=time.monotonic() - self._at_seen)


def _show(
    settings: Settings, screen: Screen, look: _Look, feed: "Feed[FleetView]", table: FleetScreen, interval_s: float
) -> None:
    store: Store | None = None
    while not screen.ended and feed.broken is None:
        columns, height = screen.size
        screen.draw(table.picture(look.view, look.now, columns, height))
        look.wanted = table.in_sight
        keys = screen.wait(TICK_S)
        for index, key in enumerate(keys):
            action, run_id = table.press(key), table.picked()
            if action == "quit":
                return
            if action is None or run_id is None:
                continue
            store = store or opening.store(settings)
            screen.put_back(keys[index + 1 :])
            if action in {"silence", "ack"}:
                do = doing.silence if action == "silence" else doing.acknowledge
                table.note = doing.done(partial(do, settings, store, run_id, table.entered))
                break
            look.paused = True
            watch = run_watch(settings, run_id, at=store)
            if action != "compare":
                run_page.show(screen, watch, interval_s, signs.of(sys.stdout), logs=action == "logs")
            else:
                table.note = _compare(settings, store, screen, [*table.ticked, run_id])
            look.paused = False
            break


def _compare(settings: Settings, store: "Store", screen: Screen, runs: Sequence[str]) -> str:
    """Show these runs beside each other until the user leaves; or what is wrong."""
    chosen = tuple(dict.fromkeys(runs))
    if len(chosen) < 2:
        return "tick runs with Space first, then c compares them with this one"
    try:
        found = compared(choose(settings, store, chosen, curves=True))
    except StoreError as fault:
        return str(fault)
    scrolled.show(screen, lambda columns: list(comparison_lines(found, columns, signs.of(sys.stdout))))
    return ""
