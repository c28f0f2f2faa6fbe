"""The fleet as all browsers together see it: one thread looks for all of them, while at least one of them looks."""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lastbeat.model.view import FleetView, Row, StoreOutage
from lastbeat.views.readers import LiveFleetReader
from lastbeat_cli.dashboard.answer import Body, json_body

log = logging.getLogger(__name__)

ASKED_INTERVALS: Final = 3.0
"""Who has not asked for so many intervals is gone."""
_KEPT: Final = 24
"""So many snapshots are kept to tell what changed since; who saw an older one gets everything."""
_ANEW_S: Final = 600.0
"""After so long without anybody looking it begins as it did at first, by reading all that changed."""
HANGS_S: Final = 30.0
"""A look that has taken so long, without coming on, hangs, and that is told."""
_PROGRESS_S: Final = 0.5
_FIRST_S: Final = 0.5
"""Who comes while nothing at all is known yet waits so long for the first rows rather than ask again."""
_LOOK_MOST: Final = 1000
_FEW: Final = 100
"""So many rows are told in no time, whoever asks."""


@dataclass(frozen=True)
class Snapshot:
    """The fleet as it was told at one moment; ``rows`` are in the order of need."""

    seq: int
    view: FleetView
    rows: Mapping[str, Row]


@dataclass(frozen=True)
class DocumentQuery:
    """What one document is to tell."""

    snapshot: Snapshot
    epoch: str
    since: int | None = None
    """None: everything; else only what is another since that snapshot."""
    changed: frozenset[str] = frozenset()
    gone: tuple[str, ...] = ()


class FleetLook:
    """Looks at the fleet once an interval, and tells what it saw to whoever asks.

    ``document`` makes JSON of what is to be told. ``turn`` is asked before each round but the first whether the fleet
    may be asked in this interval, see :class:`lastbeat_cli.dashboard.runs.RunLooks`.
    """

    def __init__(
        self,
        watching: LiveFleetReader,
        document: Callable[[DocumentQuery], Mapping[str, object]],
        *,
        interval_s: float,
        epoch: str,
        turn: Callable[[], bool] = lambda: True,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._watching = watching
        self._document = document
        self._interval_s = interval_s
        self._epoch = epoch
        self._turn = turn
        self._steady = steady
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._working = False
        self._asked_at = steady()
        self._wanted: OrderedDict[str, float] = OrderedDict()
        self._looked_at: float | None = None
        self._looking_since: float | None = None
        """When the look that is under way began, or last came on."""
        self._hung = False
        """Whether the newest snapshot tells that it hangs."""
        self._fault: str | None = None
        """What was last said of a fleet that cannot be seen."""
        self._opened = False
        self._known = threading.Event()
        self._dirty = True
        self._told_at = 0.0
        self._snapshots: OrderedDict[int, Snapshot] = OrderedDict()
        self._bodies: dict[int | None, Body] = {}
        """What was packed of the newest snapshot, by the snapshot that it tells the changes since."""

    # ---- what the server's threads call ------------------------------------------------------------------------

    def document(self, since: int | None, epoch: str | None, look: Sequence[str]) -> Body:
        """All that is known, or what changed since the snapshot ``since``, where that is still known."""
        if self._working:
            self._known.wait(_FIRST_S)
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
            key = before.seq if before is not None else None
            if key not in self._bodies:
                told = _told(snapshot, before, self._epoch)
                # What tells everything is the same for all, and packed once.
                known = self._bodies.get(None) if told.since is None else None
                self._bodies[key] = known or json_body(self._document(told))
                if told.since is None:
                    self._bodies[None] = self._bodies[key]
            return self._bodies[key]

    def known(self) -> FleetView:
        """What was last seen, for who is nobody that looks: it neither begins nor keeps up the looking."""
        with self._lock:
            return self._newest(self._steady()).view

    def _newest(self, now: float) -> Snapshot:
        newest = next(reversed(self._snapshots.values()), None)
        since = self._looking_since
        hangs = since is not None and now - since > HANGS_S
        if hangs is not self._hung:
            self._hung, self._dirty = hangs, True
        # While everything is read for the first time there is news all the time; twice a second is enough of it.
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

    # ---- the one thread that looks -----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to look, as long as the process lives."""
        self._working = True
        threading.Thread(target=self._work, name="lastbeat-fleet", daemon=True).start()

    def _work(self) -> None:
        due = self._steady()
        while True:
            now = self._steady()
            if now - self._asked_at > ASKED_INTERVALS * self._interval_s:
                self._wake.clear()
                # Asked meanwhile? Then the next turn of this loop sees it.
                if self._steady() - self._asked_at > ASKED_INTERVALS * self._interval_s:
                    self._wake.wait()
                # What was due meanwhile is not made up for: one interval pays for one look.
                due = max(due, self._steady())
                continue
            if now < due:
                time.sleep(min(0.2, due - now))
                continue
            self.look()
            due = max(due + self._interval_s, self._steady())

    def look(self) -> None:
        """What one interval may do. Whatever happens in it, the next may go better."""
        now = self._looking_since = self._steady()
        wanted = [run_id for run_id, at in self._wanted_now() if now - at <= ASKED_INTERVALS * self._interval_s]
        try:
            if not self._opened or (self._looked_at is not None and now - self._looked_at > _ANEW_S):
                view = self._watching.open(on_progress=lambda _done, _of: self._come_on())
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
        """Say once, where it was started, why nothing is to be seen: perhaps nobody has opened the page yet."""
        fault = None if view.fault is None else "; ".join(filter(None, (view.fault.reason, view.fault.advice)))
        if fault is not None and self._fault is None:
            log.warning("the fleet cannot be seen: %s", fault)
        elif fault is None and self._fault is not None:
            log.warning("the fleet can be seen again")
        self._fault = fault


_HANGS: Final = f"the store has not answered for more than {HANGS_S:.0f} s"
_HANGS_ADVICE: Final = "check that it answers, and that its file system is mounted"


def _told(snapshot: Snapshot, before: Snapshot | None, epoch: str) -> DocumentQuery:
    if before is None:
        return DocumentQuery(snapshot, epoch)
    changed = frozenset(run_id for run_id, row in snapshot.rows.items() if before.rows.get(run_id) != row)
    if 2 * len(changed) > len(snapshot.rows) > _FEW:
        # Nearly everything: then everything, which all who ask can share.
        return DocumentQuery(snapshot, epoch)
    # A browser puts changed rows where their ranks say and leaves the others in their order: if that is not the order
    # that they are in now, it needs everything.
    stood = [run_id for run_id in before.rows if run_id in snapshot.rows and run_id not in changed]
    stand = [run_id for run_id in snapshot.rows if run_id not in changed]
    if stood != stand:
        return DocumentQuery(snapshot, epoch)
    gone = tuple(run_id for run_id in before.rows if run_id not in snapshot.rows)
    return DocumentQuery(snapshot, epoch, before.seq, changed, gone)
