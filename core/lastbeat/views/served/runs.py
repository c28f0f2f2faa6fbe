"""Single runs for all browsers, read once an interval each, and the limit of these reads.

A dashboard costs one listing an interval. While a browser shows single runs, every other interval is theirs: as many
runs are then read again as the listing of the fleet has pages. The first read of a run does not count, because it
happens once a click.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from lastbeat.model.as_json import Json
from lastbeat.model.view import RunView
from lastbeat.stores.port import StoreError, UnreachableError
from lastbeat.views.comparison import compare, comparison_document
from lastbeat.views.curves import CurvesAsked
from lastbeat.views.readers import CurvesReader
from lastbeat.views.served.answer import Body, json_body
from lastbeat.views.served.app import TooManyOpenError
from lastbeat.views.served.fleet import ASKED_INTERVALS, HANGS_S

_MOST: Final = 64
"""Most runs in the cache."""
_STAYS_S: Final = 60.0
"""A viewed run keeps its cache slot for at most this many seconds after a request. Without it, more viewers than slots
would thrash the cache with first reads."""
_AT_ONCE: Final = 4
"""Most runs read at the same time, so that threads are left for other requests."""
_HANGING: Final = 8
"""Most runs read at the same time including reads that hang: those block only their own run."""
_PATIENCE_S: Final = 2.0
"""Longest time, in seconds, that opening a run waits until it may be read."""


class _Run:
    def __init__(self, looking: CurvesReader) -> None:
        self.looking = looking
        self.looked_at: float | None = None
        self.asked_at = 0.0
        self.view: RunView | None = None
        self.body: Body | None = None
        self.fault: StoreError | None = None


class RunLooks:
    """The runs that are open in browsers. ``make`` returns the reader of a run, ``document`` turns its view to JSON.

    ``reads_an_interval`` returns the most runs to read again in an interval for runs. Without it there is no limit, and
    the fleet has every interval, as if requests cost nothing.
    """

    def __init__(
        self,
        make: Callable[[str], CurvesReader],
        document: Callable[[RunView], Mapping[str, object]],
        *,
        interval_s: float,
        reads_an_interval: Callable[[], int] | None = None,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._document = document
        self._reads_an_interval = reads_an_interval
        self._interval_s = interval_s
        self._steady = steady
        self._lock = threading.Condition()
        """Guards the attributes below; notified when a run has been read."""
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        """The cache, least recently requested first."""
        self._curve_seats = threading.BoundedSemaphore(_AT_ONCE)
        self._reading: dict[_Run, float] = {}
        """The runs being read, with the time when each read began."""
        self._asked_at = float("-inf")
        self._fleet_was_last = False
        self._reads_left = 0
        """Runs that may be read again before the next interval for runs, where that is limited."""

    def turn(self) -> bool:
        """Whether the interval that now begins belongs to the fleet. If not, it belongs to single runs."""
        wanted = self._steady() - self._asked_at <= ASKED_INTERVALS * self._interval_s
        if self._reads_an_interval is not None and wanted and self._fleet_was_last:
            self._fleet_was_last = False
            with self._lock:
                # Reads that an earlier interval left do not accumulate.
                self._reads_left = self._reads_an_interval()
            return False
        self._fleet_was_last = True
        return True

    def document(self, run_id: str) -> Body | None:
        """The run's document, or None if there is no such run. It is at most an interval old as far as the limit of
        reads allows. Raises :class:`StoreError` and :class:`TooManyOpenError`."""
        return self._current(run_id).body

    def curves(self, run_id: str, asked: CurvesAsked) -> Body | None:
        """The run's curves as of its last read. Raises likewise."""
        found = self._curves(run_id, asked)
        return None if found is None else json_body(found[1])

    def comparison(self, run_ids: Sequence[str], asked: CurvesAsked) -> Body:
        """These runs beside each other, without those that have gone, and the curves of each. Raises likewise."""
        found = {run_id: each for run_id in run_ids if (each := self._curves(run_id, asked)) is not None}
        compared = comparison_document(compare([view for view, _ in found.values()]))
        return json_body({**compared, "tables": {run_id: table for run_id, (_, table) in found.items()}})

    def _curves(self, run_id: str, asked: CurvesAsked) -> tuple[RunView, Json] | None:
        run = self._current(run_id)
        view = run.view
        if view is None:
            return None
        if not self._curve_seats.acquire(timeout=_PATIENCE_S):
            raise TooManyOpenError
        try:
            return view, run.looking.curves(asked)
        finally:
            self._curve_seats.release()

    def _current(self, run_id: str) -> _Run:
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
            return run

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
        if now - run.looked_at < self._interval_s:
            return False
        if self._reads_an_interval is None:
            return True
        # The reads that are left go to the runs that were read longest ago.
        return sum(at < run.looked_at for at in self._viewed_read_times(now)) < self._reads_left

    def _viewed_read_times(self, now: float) -> list[float]:
        """When each run that is open in a browser, and is not being read, was last read."""
        with self._lock:
            # One whose read hangs would stay the oldest, and keep all others from being read.
            idle = [run for run in self._runs.values() if run not in self._reading]
            runs = [run for run in idle if now - run.asked_at <= ASKED_INTERVALS * self._interval_s]
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
            if not opens:
                self._reads_left -= 1
            self._reading[run] = self._steady()
        try:
            self._look(run)
        finally:
            with self._lock:
                run.looked_at = self._steady()
                del self._reading[run]
                self._lock.notify_all()

    def _look(self, run: _Run) -> None:
        try:
            run.view = view = run.looking.look()
            run.body = json_body(self._document(view)) if view is not None else None
            run.fault = None
        except StoreError as fault:
            run.fault = fault
