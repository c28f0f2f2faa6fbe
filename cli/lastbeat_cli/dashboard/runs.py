"""Single runs for all browsers, read once an interval each, and the budget of requests that pays for these reads.

A dashboard costs one listing an interval. While a browser shows single runs, every other interval is theirs: their
reads may then cost as much as one listing of the fleet. The first read of a run is not charged, because it happens
once a click.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from lastbeat.fleet.prices import dollars
from lastbeat.model.view import RunView
from lastbeat.stores.counting import Tally
from lastbeat.stores.port import StoreError, UnreachableError
from lastbeat.views.readers import RunReader
from lastbeat_cli.dashboard.answer import Body, json_body
from lastbeat_cli.dashboard.app import TooManyOpenError
from lastbeat_cli.dashboard.fleet import ASKED_INTERVALS, HANGS_S

_MOST: Final = 64
"""Most runs in the cache."""
_STAYS_S: Final = 60.0
"""A viewed run keeps its cache slot for at most this many seconds after a request. Without it, more viewers than slots
would thrash the cache with uncharged reads."""
_AT_ONCE: Final = 4
"""Most runs read at the same time, so that threads are left for other requests."""
_HANGING: Final = 8
"""Most runs read at the same time including reads that hang: those block only their own run."""
_PATIENCE_S: Final = 2.0
"""Longest time, in seconds, that opening a run waits until it may be read."""
_A_LOOK: Final = dollars({"LIST": 1, "GET": 4})
"""Approximate price of reading a run again, in dollars."""


class _Run:
    def __init__(self, looking: RunReader) -> None:
        self.looking = looking
        self.looked_at: float | None = None
        self.asked_at = 0.0
        self.body: Body | None = None
        self.fault: StoreError | None = None


class Allowance:
    """The budget for reading runs again, in dollars. It is unlimited if the store is ``free``.

    ``fleet`` counts the requests for the fleet, the first of which is one listing; ``runs`` those for single runs.
    """

    def __init__(self, fleet: Tally, runs: Tally, *, free: bool) -> None:
        self._fleet = fleet
        self._runs = runs
        self._free = free
        self._left = 0.0
        self._listing = 0.0
        self._lock = threading.Lock()

    def learn(self) -> None:
        """Note the price of one listing. Call it after the fleet was opened and before its next request."""
        if self._listing == 0:
            self._listing = dollars({"LIST": max(1, self._fleet.counts["LIST"])})

    def begin(self) -> None:
        """Add the budget of one interval. Unspent budget of earlier intervals does not accumulate."""
        with self._lock:
            self._left = min(self._listing, self._left + self._listing)

    @property
    def free(self) -> bool:
        """Whether requests cost nothing."""
        return self._free

    @property
    def spent(self) -> bool:
        """Whether the budget is used up until the next interval for runs."""
        # Sums of prices are floats, so they may miss zero by a little.
        return not self._free and self._left < _A_LOOK / 100

    @property
    def scarce(self) -> bool:
        """Whether less budget is left than two reads cost."""
        return not self._free and self._left < 2 * _A_LOOK

    def reserve(self) -> "Bought | None":
        """A reservation for one read, or None if the budget is used up."""
        with self._lock:
            if self.spent:
                return None
            # The exact price is known only afterwards; reads that begin meanwhile must not spend the same budget.
            self._left -= _A_LOOK
        return Bought(self._runs.counts)

    def settle(self, bought: "Bought") -> None:
        """Replace the reserved price of a read by its actual price."""
        with self._lock:
            self._left += _A_LOOK - dollars(self._runs.since(bought.before))


@dataclass(frozen=True)
class Bought:
    """A reservation for one read of a run."""

    before: Mapping[str, int]
    """Number of requests for runs by kind, at the time of the reservation."""


class RunLooks:
    """The runs that are open in browsers. ``make`` returns the reader of a run, ``document`` turns its view to JSON."""

    def __init__(
        self,
        make: Callable[[str], RunReader],
        document: Callable[[RunView], Mapping[str, object]],
        allowance: Allowance,
        *,
        interval_s: float,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._document = document
        self._allowance = allowance
        self._interval_s = interval_s
        self._steady = steady
        self._lock = threading.Condition()
        """Guards the attributes below; notified when a run has been read."""
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        """The cache, least recently requested first."""
        self._reading: dict[_Run, float] = {}
        """The runs being read, with the time when each read began."""
        self._asked_at = float("-inf")
        self._fleet_was_last = False

    def turn(self) -> bool:
        """Whether the interval that now begins belongs to the fleet. If not, it belongs to single runs."""
        self._allowance.learn()
        wanted = self._steady() - self._asked_at <= ASKED_INTERVALS * self._interval_s
        if not self._allowance.free and wanted and self._fleet_was_last:
            self._fleet_was_last = False
            self._allowance.begin()
            return False
        self._fleet_was_last = True
        return True

    def document(self, run_id: str) -> Body | None:
        """The run's document, at most an interval old while the budget lasts, or None if there is no such run. Raises
        :class:`StoreError` and :class:`TooManyOpenError`."""
        with self._lock:
            self._asked_at = self._steady()
            run = self._runs.get(run_id) or self._new(run_id)
            run.asked_at = self._asked_at
            self._runs.move_to_end(run_id)
        if self._due(run):
            self._read(run)
        with self._lock:
            if self._hangs(run):
                raise UnreachableError(
                    f"this run has been read for more than {HANGS_S:.0f} s, and its store has not answered",
                    "check that the store answers, and that its file system is mounted",
                )
            if run.fault is not None:
                raise run.fault
            if run.looked_at is None:
                raise TooManyOpenError
            return run.body

    def _new(self, run_id: str) -> _Run:
        if len(self._runs) >= _MOST:
            oldest_id, oldest = next(iter(self._runs.items()))
            if self._asked_at - oldest.asked_at <= min(_STAYS_S, ASKED_INTERVALS * self._interval_s):
                raise TooManyOpenError
            del self._runs[oldest_id]
        self._runs[run_id] = run = _Run(self._make(run_id))
        return run

    def _due(self, run: _Run) -> bool:
        if run.looked_at is None:
            return True
        now = self._steady()
        if now - run.looked_at < self._interval_s or self._allowance.spent:
            return False
        # A scarce budget goes to the run that was read longest ago.
        return not self._allowance.scarce or run.looked_at <= min(self._viewed_read_times(now), default=now)

    def _viewed_read_times(self, now: float) -> list[float]:
        """When each run that is open in a browser was last read."""
        with self._lock:
            runs = [run for run in self._runs.values() if now - run.asked_at <= ASKED_INTERVALS * self._interval_s]
        return [run.looked_at for run in runs if run.looked_at is not None]

    def _hangs(self, run: _Run) -> bool:
        return self._steady() - self._reading.get(run, float("inf")) > HANGS_S

    def _may_begin(self, run: _Run) -> bool:
        hanging = sum(map(self._hangs, self._reading))
        return run not in self._reading and len(self._reading) - hanging < _AT_ONCE and len(self._reading) < _HANGING

    def _read(self, run: _Run) -> None:
        """Read the run again. If it is being read already, or too many others are, the cached document stays."""
        opens = run.looked_at is None
        with self._lock:
            self._lock.wait_for(lambda: self._may_begin(run), _PATIENCE_S if opens else 0.0)
            if not self._may_begin(run) or not self._due(run):
                return
            # The first read of a run is not charged.
            bought = None if opens else self._allowance.reserve()
            if bought is None and not opens:
                return
            self._reading[run] = self._steady()
        try:
            self._look(run)
        finally:
            if bought is not None:
                self._allowance.settle(bought)
            with self._lock:
                run.looked_at = self._steady()
                del self._reading[run]
                self._lock.notify_all()

    def _look(self, run: _Run) -> None:
        try:
            view = run.looking.look()
            run.body = json_body(self._document(view)) if view is not None else None
            run.fault = None
        except StoreError as fault:
            run.fault = fault
