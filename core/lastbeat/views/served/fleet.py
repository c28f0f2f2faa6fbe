"""The fleet for all browsers: one thread reads the store for all of them, as long as at least one page is open."""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lastbeat.model.view import FleetView, Row, StoreOutage
from lastbeat.views.readers import LiveFleetReader
from lastbeat.views.served.answer import Body, json_body

log = logging.getLogger(__name__)

ASKED_INTERVALS: Final = 3.0
"""A browser that has sent no request for this many intervals has disconnected."""
_KEPT: Final = 24
"""Number of snapshots kept for deltas. A browser with an older snapshot gets the whole fleet."""
_REOPEN_S: Final = 600.0
"""After this many seconds without a viewer the fleet is opened again, by reading all changes at once."""
HANGS_S: Final = 30.0
"""A read that has made no progress for this many seconds is reported as hanging."""
_PROGRESS_S: Final = 0.5
"""Shortest time, in seconds, between two snapshots while the fleet is read for the first time."""
_FIRST_S: Final = 0.5
"""Longest time, in seconds, that a first request waits for the first rows."""
_LOOK_MOST: Final = 1000
"""Most run ids remembered as shown by any browser."""
_FEW: Final = 100
"""Up to this many rows, deltas are always sent: they are cheap to build for each browser."""


@dataclass(frozen=True)
class Snapshot:
    """The fleet at one moment, as sent to browsers. ``rows`` are ordered by need."""

    seq: int
    view: FleetView
    rows: Mapping[str, Row]


@dataclass(frozen=True)
class DocumentQuery:
    """The content of one document: a snapshot, whole or as changes."""

    snapshot: Snapshot
    epoch: str
    since: int | None = None
    """Number of the snapshot whose changes are sent; None sends the whole fleet."""
    changed: frozenset[str] = frozenset()
    gone: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    """Names whose values the rows have."""


class FleetLook:
    """Reads the fleet once an interval and serves it to all browsers.

    ``document`` turns a query into JSON. Before each round but the first, ``turn`` decides whether this interval
    belongs to the fleet, see :class:`lastbeat.views.served.runs.RunLooks`. ``by_request``: no thread reads,
    so a request reads first if an interval is over.
    """

    def __init__(  # noqa: PLR0913 - what it reads with, each by its name
        self,
        watching: LiveFleetReader,
        document: Callable[[DocumentQuery], Mapping[str, object]],
        *,
        interval_s: float,
        epoch: str,
        turn: Callable[[], bool] = lambda: True,
        by_request: bool = False,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._watching = watching
        self._document = document
        self._interval_s = interval_s
        self._epoch = epoch
        self._turn = turn
        self._by_request = by_request
        self._steady = steady
        self._reading = threading.RLock()
        """Held by the thread that reads the store."""
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._working = False
        self._asked_at = steady()
        self._wanted: OrderedDict[str, float] = OrderedDict()
        self._looked_at: float | None = None
        self._looking_since: float | None = None
        """When the current read began, or last made progress; None between reads."""
        self._hung = False
        """Whether the newest snapshot reports a hanging read."""
        self._fault: str | None = None
        """The fault that was last logged, or None if the fleet can be read."""
        self._opened = False
        self._known = threading.Event()
        self._dirty = True
        self._told_at = 0.0
        self._snapshots: OrderedDict[int, Snapshot] = OrderedDict()
        self._bodies: dict[tuple[int | None, tuple[str, ...]], Body] = {}
        """Bodies of the newest snapshot by the snapshot whose changes they hold, None for the whole fleet, and keys."""

    # ---- called by the server's threads ------------------------------------------------------------------------

    def document(self, since: int | None, epoch: str | None, look: Sequence[str], keys: Sequence[str] = ()) -> Body:
        """The changes since the snapshot ``since`` if it is still kept, else the whole fleet. Its rows have the values
        of ``keys``."""
        if self._working:
            self._known.wait(_FIRST_S)
        if self._by_request:
            self._refresh(float("inf"))
        now = self._steady()
        with self._lock:
            self._asked_at = now
            for run_id in look:
                self._wanted.pop(run_id, None)
                self._wanted[run_id] = now
            while len(self._wanted) > _LOOK_MOST:
                self._wanted.popitem(last=False)
            self._wake.set()
            snapshot = self._newest(now)
            before = self._snapshots.get(since) if since is not None and epoch == self._epoch else None
            named = tuple(sorted(keys))
            key = (before.seq if before is not None else None, named)
            if key not in self._bodies:
                query = replace(_query(snapshot, before, self._epoch), keys=named)
                # The body of the whole fleet is the same for all browsers, so it is made once.
                whole = (None, named)
                known = self._bodies.get(whole) if query.since is None else None
                if len(self._bodies) >= _KEPT:
                    self._bodies.clear()
                self._bodies[key] = known or json_body(self._document(query))
                if query.since is None:
                    self._bodies[whole] = self._bodies[key]
            return self._bodies[key]

    def current_view(self, until: float) -> FleetView:
        """The fleet, at most an interval old as far as it can be read by ``until``, a time of ``time.monotonic()``."""
        self._refresh(until)
        return self._watching.view()

    def _refresh(self, until: float) -> None:
        """Read the fleet, unless that was done within an interval. Waits for a read that is under way."""
        if not self._reading.acquire(timeout=min(HANGS_S, max(0.0, until - time.monotonic()))):
            return
        try:
            if self._looked_at is None or not 0 <= self._steady() - self._looked_at < self._interval_s:
                self.look(until)
        finally:
            self._reading.release()

    def last_view(self) -> FleetView:
        """The fleet as last read, for metrics. A scrape is no viewer: it neither starts nor prolongs the reading."""
        with self._lock:
            return self._newest(self._steady()).view

    def _newest(self, now: float) -> Snapshot:
        newest = next(reversed(self._snapshots.values()), None)
        since = self._looking_since
        hangs = since is not None and now - since > HANGS_S
        if hangs is not self._hung:
            self._hung, self._dirty = hangs, True
        # During the first read the view changes all the time; a snapshot every _PROGRESS_S is enough.
        if newest is None or (self._dirty and now - self._told_at >= (0.0 if self._opened else _PROGRESS_S)):
            self._dirty, self._told_at = False, now
            view = self._watching.view()
            if hangs and view.fault is None:
                view = replace(view, fault=StoreOutage(_HANGS, _HANGS_ADVICE, view.at))
            newest = Snapshot(newest.seq + 1 if newest else 1, view, {row.run_id: row for row in view.rows})
            self._snapshots[newest.seq] = newest
            self._bodies.clear()
            while len(self._snapshots) > _KEPT:
                self._snapshots.popitem(last=False)
        return newest

    # ---- the one thread that reads -----------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread that reads the fleet until the process ends."""
        self._working = True
        threading.Thread(target=self._work, name="lastbeat-fleet", daemon=True).start()

    def _work(self) -> None:
        due = self._steady()
        while True:
            now = self._steady()
            if now - self._asked_at > ASKED_INTERVALS * self._interval_s:
                self._wake.clear()
                # A request may have arrived meanwhile; the next round of this loop sees it.
                if self._steady() - self._asked_at > ASKED_INTERVALS * self._interval_s:
                    self._wake.wait()
                continue
            if now < due:
                time.sleep(min(0.2, due - now))
                continue
            self.look()
            # Skipped intervals are not made up for: one interval pays for one read.
            due = max(due, now) + self._interval_s

    def look(self, until: float = float("inf")) -> None:
        """Read the fleet once, if this interval is the fleet's. Errors are logged; the next interval tries again. The
        first read ends at ``until``."""
        with self._reading:
            self._look(until)

    def _look(self, until: float) -> None:
        now = self._looking_since = self._steady()
        wanted = [run_id for run_id, at in self._wanted_now() if now - at <= ASKED_INTERVALS * self._interval_s]
        try:
            if not self._opened or (self._looked_at is not None and now - self._looked_at > _REOPEN_S):
                view = self._watching.open(until, on_progress=lambda _done, _of: self._come_on())
                self._opened = view.at is not None
                self._complain(view)
            elif self._turn():
                self._complain(self._watching.round(wanted))
            self._looked_at = self._steady()
            self._known.set()
        except Exception:
            log.exception("the fleet could not be looked at")
        self._looking_since = None
        self._dirty = True

    def _wanted_now(self) -> list[tuple[str, float]]:
        with self._lock:
            return list(self._wanted.items())

    def _come_on(self) -> None:
        self._looking_since = self._steady()
        self._dirty = True

    def _complain(self, view: FleetView) -> None:
        """Log once, in the dashboard's terminal, why the fleet cannot be read: the page may not be open yet."""
        fault = None if view.fault is None else "; ".join(filter(None, (view.fault.reason, view.fault.advice)))
        if fault is not None and self._fault is None:
            log.warning("the fleet cannot be seen: %s", fault)
        elif fault is None and self._fault is not None:
            log.warning("the fleet can be seen again")
        self._fault = fault


_HANGS: Final = f"the store has not answered for more than {HANGS_S:.0f} s"
_HANGS_ADVICE: Final = "check that it answers, and that its file system is mounted"


def _query(snapshot: Snapshot, before: Snapshot | None, epoch: str) -> DocumentQuery:
    if before is None:
        return DocumentQuery(snapshot, epoch)
    changed = frozenset(run_id for run_id, row in snapshot.rows.items() if before.rows.get(run_id) != row)
    if 2 * len(changed) > len(snapshot.rows) > _FEW:
        # More than half of the rows changed: the whole fleet is sent, in a body that all browsers share.
        return DocumentQuery(snapshot, epoch)
    # A browser moves changed rows to their new positions and leaves the others in their order. If the order of the
    # others has changed as well, it needs the whole fleet.
    stood = [run_id for run_id in before.rows if run_id in snapshot.rows and run_id not in changed]
    stand = [run_id for run_id in snapshot.rows if run_id not in changed]
    if stood != stand:
        return DocumentQuery(snapshot, epoch)
    gone = tuple(run_id for run_id in before.rows if run_id not in snapshot.rows)
    return DocumentQuery(snapshot, epoch, before.seq, changed, gone)
