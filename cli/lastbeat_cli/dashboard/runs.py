"""Single runs as browsers see them: however many look at one, it is read once an interval; and who may read when.

A watched store is asked for no more than one listing an interval. While people look at single runs the fleet gives them
every other interval, in which they are read again for what a listing of the fleet costs. That a person opens a run is
not counted: that is once a click.
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
"""So many runs are remembered."""
_STAYS_S: Final = 60.0
"""For so long at most nobody else gets the place of a run that is looked at: else more browsers than there are places
would have theirs opened anew each time, which is paid for by nobody."""
_AT_ONCE: Final = 4
"""So many are read at the same time, which leaves threads for everybody else."""
_HANGING: Final = 8
"""So many are, where some of them hang: those keep nobody waiting but themselves."""
_PATIENCE_S: Final = 2.0
_A_LOOK: Final = dollars({"LIST": 1, "GET": 4})
"""What reading a run again costs about."""


class _Run:
    def __init__(self, looking: RunReader) -> None:
        self.looking = looking
        self.looked_at: float | None = None
        self.asked_at = 0.0
        self.body: Body | None = None
        self.fault: StoreError | None = None


class Allowance:
    """What reading runs again may cost, in dollars; nothing limits it where the store is ``free``.

    ``fleet`` counts what the fleet's looks ask, the first of which is one listing; ``runs`` what those of runs do.
    """

    def __init__(self, fleet: Tally, runs: Tally, *, free: bool) -> None:
        self._fleet = fleet
        self._runs = runs
        self._free = free
        self._left = 0.0
        self._listing = 0.0
        self._lock = threading.Lock()

    def learn(self) -> None:
        """The fleet has been opened, for one listing, and asked for nothing since."""
        if self._listing == 0:
            self._listing = dollars({"LIST": max(1, self._fleet.counts["LIST"])})

    def begin(self) -> None:
        """One more interval is given to runs. What was not spent in those before is not saved up."""
        with self._lock:
            self._left = min(self._listing, self._left + self._listing)

    @property
    def free(self) -> bool:
        """Whether nothing is ever spent."""
        return self._free

    @property
    def spent(self) -> bool:
        """Whether runs have to wait for another interval."""
        # Sums of prices are never quite nothing.
        return not self._free and self._left < _A_LOOK / 100

    @property
    def scarce(self) -> bool:
        """Whether there is enough for one or two runs at most."""
        return not self._free and self._left < 2 * _A_LOOK

    def reserve(self) -> "Bought | None":
        """Leave to read one run again; None: there is nothing left to pay for it."""
        with self._lock:
            if self.spent:
                return None
            # What it will cost is known when it is done; others that begin meanwhile must not spend the same.
            self._left -= _A_LOOK
        return Bought(self._runs.counts)

    def settle(self, bought: "Bought") -> None:
        """What was read with that leave is paid for as what it cost."""
        with self._lock:
            self._left += _A_LOOK - dollars(self._runs.since(bought.before))


@dataclass(frozen=True)
class Bought:
    """Leave to read one run again."""

    before: Mapping[str, int]
    """What had been asked until then."""


class RunLooks:
    """The runs that people look at. ``make`` gives what reads one, ``document`` makes JSON of what it saw."""

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
        """Held by whoever uses what follows; told when a run was read."""
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        """Who was asked for last comes last."""
        self._reading: dict[_Run, float] = {}
        """What is being read right now, and since when."""
        self._asked_at = float("-inf")
        self._fleet_was_last = False

    def turn(self) -> bool:
        """Whether the fleet may be asked in the interval that now begins; if not, it is given to runs."""
        self._allowance.learn()
        wanted = self._steady() - self._asked_at <= ASKED_INTERVALS * self._interval_s
        if not self._allowance.free and wanted and self._fleet_was_last:
            self._fleet_was_last = False
            self._allowance.begin()
            return False
        self._fleet_was_last = True
        return True

    def document(self, run_id: str) -> Body | None:
        """The run as it is, or was within the interval. None: there is no such run."""
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
        # Where there is not enough for everybody it goes round.
        return not self._allowance.scarce or run.looked_at <= min(self._looked(now), default=now)

    def _looked(self, now: float) -> list[float]:
        """When the runs that people look at were last read."""
        with self._lock:
            runs = [run for run in self._runs.values() if now - run.asked_at <= ASKED_INTERVALS * self._interval_s]
        return [run.looked_at for run in runs if run.looked_at is not None]

    def _hangs(self, run: _Run) -> bool:
        return self._steady() - self._reading.get(run, float("inf")) > HANGS_S

    def _may_begin(self, run: _Run) -> bool:
        hanging = sum(map(self._hangs, self._reading))
        return run not in self._reading and len(self._reading) - hanging < _AT_ONCE and len(self._reading) < _HANGING

    def _read(self, run: _Run) -> None:
        """Read it anew, unless it is being read already, or too many others are: then what is known has to do."""
        opens = run.looked_at is None
        with self._lock:
            self._lock.wait_for(lambda: self._may_begin(run), _PATIENCE_S if opens else 0.0)
            if not self._may_begin(run) or not self._due(run):
                return
            # That a person opens a run is paid for by nobody.
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
