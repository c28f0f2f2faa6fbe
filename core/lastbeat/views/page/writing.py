"""A page of the whole fleet that passes leave beside the runs, for a team to put behind its own access control."""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from lastbeat.model.fleet import PassReport
from lastbeat.model.text import one_line
from lastbeat.model.view import Row
from lastbeat.stores.counting import Tally
from lastbeat.stores.port import Store, StoreError
from lastbeat.views.documents import fleet_document
from lastbeat.views.fleet_losses import LOSSES_SINCE_S, LossReader, losses_document
from lastbeat.views.order import NEEDS_PEOPLE, need
from lastbeat.views.page.assembling import page
from lastbeat.views.page.embedding import fitted
from lastbeat.views.readers import FleetReader, RunReader
from lastbeat.views.row_keys import telling_keys
from lastbeat.views.run_document import run_document

log = logging.getLogger(__name__)

KEY: Final = "_watchdog/index.html"
MOST_RUNS: Final = 100
"""Most runs with details in a page; those that need people come first."""
PAGE_S: Final = 30.0
"""Time limit in s of a pass for writing one page."""
_WRITE_S: Final = 2.0
"""Part of that time in s that is reserved for the write itself."""
_AHEAD_S: Final = 60.0
_AT_ONCE: Final = 8
_COSTS_S: Final = 3600.0
_COSTS_RECORDS: Final = 300
"""Most records that are read for the cost of failures at each write of the page."""
_COSTS_GROUPS: Final = 20


@dataclass
class _Known:
    """A run whose details were read."""

    looking: RunReader
    row: Row | None = None
    document: Mapping[str, object] | None = None


class PageOfFleet:
    """Writes the page at the end of a pass, at most every ``every_s`` seconds across all processes.

    Processes read the time of the last write from the page's own time of change, so that they keep the interval
    together. ``watch`` and the readers from ``runs`` remember their documents, and so does this. ``tally`` counts the
    requests to ``store`` of this, of both of them and of ``losses``, which reads the cost of failures.
    """

    def __init__(  # noqa: PLR0913 - what a page is made of, each by its name
        self,
        store: Store,
        watch: FleetReader,
        runs: Callable[[str], RunReader],
        every_s: float,
        *,
        stale_s: float,
        tally: Tally | None = None,
        losses: LossReader | None = None,
    ) -> None:
        self._store = store
        self._watch = watch
        self._runs = runs
        self._every_s = every_s
        self._stale_s = stale_s
        self._tally = tally or Tally()
        self._losses = losses
        self._costs: Mapping[str, object] | None = None
        self._costs_at: datetime | None = None
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._not_before: datetime | None = None
        self._writing: threading.Thread | None = None
        self._note: str | None = None

    def write(self, report: PassReport, until: float) -> PassReport:
        """Write the page if it is time, before ``until``, a time of ``time.monotonic()``. The report, with what that
        cost, and why there is none. Never raises: of a pass this is the part that may fail."""
        asked = self._tally.counts
        until = min(until, time.monotonic() + PAGE_S)
        if self._writing is None or not self._writing.is_alive():
            # A thread, because a store may take longer than there is time; what it is at then, it ends alone.
            self._note = None
            self._writing = threading.Thread(target=self._try, args=(until,), name="lastbeat-page", daemon=True)
            self._writing.start()
        self._writing.join(max(0.0, until - time.monotonic()))
        late = "The page of the fleet was not ready in time, and an older one stands until it is."
        note = late if self._writing.is_alive() else self._note
        cost = self._tally.since(asked)
        kinds = dict.fromkeys((*report.requests, *cost))
        requests = {kind: report.requests.get(kind, 0) + cost.get(kind, 0) for kind in kinds}
        return replace(report, requests=requests, notes=(*report.notes, one_line(note)) if note else report.notes)

    def _try(self, until: float) -> None:
        try:
            self._note = self._write(until)
        except StoreError as error:
            self._note = f"The page of the fleet could not be written: {error}"
        except Exception as error:
            log.exception("the page of the fleet could not be written")
            self._note = f"The page of the fleet could not be written: {type(error).__name__}: {error}"

    def _write(self, until: float) -> str | None:
        now = self._store.clock()
        if not self._due(now) or time.monotonic() > until - _WRITE_S:
            return None
        # One that cannot be written is not read for again in each pass.
        self._not_before = _later(now, self._every_s)
        view = self._watch.open(until=until - _WRITE_S)
        if view.fault is not None or view.at is None:
            why = view.fault.reason if view.fault is not None else "the time ran out"
            return f"The page of the fleet was not written, and an older one stands: {why}"
        keys = telling_keys(view.rows)
        made = fleet_document(view, made_at=now, interval_s=self._every_s, stale_s=self._stale_s, keys=keys)
        # Nobody can ask a file for more of them.
        fleet = {**made, "keys": keys}
        needy = [row.run_id for row in view.rows if need(row, view.at) <= NEEDS_PEOPLE]
        costs = self._lost(now, min(until - _WRITE_S, (time.monotonic() + until) / 2))
        documents = self._documents(view.rows[:MOST_RUNS], now, until - _WRITE_S)
        data = fitted(fleet, documents, needy=needy, causes=costs)
        self._store.write(KEY, page(data=data).html)
        return None

    def _lost(self, now: datetime, until: float) -> Mapping[str, object] | None:
        """What failures cost, an hour old at most. None: not known. A part of the fleet's records is read each time, so
        a process that is new knows a little, and says how much."""
        if self._losses is None:
            return None
        if self._costs_at is None or now >= _later(self._costs_at, _COSTS_S):
            try:
                found = self._losses.read(LOSSES_SINCE_S, until=until, most=_COSTS_RECORDS)
            except StoreError as fault:
                log.info("the page does not say what failures cost: %s", fault)
                return self._costs
            self._costs = losses_document(found, _COSTS_GROUPS)
            # What is left is read soon; what no reading comes to is no reason for another one.
            self._costs_at = None if found.left else now
        return self._costs

    def _due(self, now: datetime) -> bool:
        if self._not_before is not None and now < self._not_before:
            return False
        # A byte of it tells when it was written, here or anywhere.
        blob = self._store.read(KEY, 1)
        if blob is None:
            return True
        # A time that is yet to come says nothing of when it was written.
        if (blob.modified - now).total_seconds() > _AHEAD_S:
            return True
        self._not_before = _later(blob.modified, self._every_s)
        return now >= self._not_before

    def _documents(
        self, rows: Sequence[Row], now: datetime, until: float
    ) -> Iterator[tuple[str, Mapping[str, object]]]:
        """What there is time for, in the order of ``rows``. A run that did not change is not asked for again."""
        pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="lastbeat-page")
        try:
            for first in range(0, len(rows), _AT_ONCE):
                part = [(row, self._remembered(row.run_id)) for row in rows[first : first + _AT_ONCE]]
                asked = [pool.submit(_look, known, row, now) for row, known in part if known.row != row]
                wait(asked, timeout=max(0.0, until - time.monotonic()))
                for row, known in part:
                    if known.row == row and known.document is not None:
                        yield row.run_id, known.document
                if time.monotonic() > until:
                    return
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _remembered(self, run_id: str) -> _Known:
        known = self._known.get(run_id) or _Known(self._runs(run_id))
        self._known[run_id] = known
        self._known.move_to_end(run_id)
        while len(self._known) > MOST_RUNS:
            self._known.popitem(last=False)
        return known


def _look(known: _Known, row: Row, now: datetime) -> None:
    try:
        view = known.looking.look()
    except StoreError as fault:
        log.info("the page has no details of %s: %s", row.run_id, fault)
        return
    if view is not None:
        known.document, known.row = run_document(view, now), row


def _later(when: datetime, seconds: float) -> datetime:
    return when + timedelta(seconds=seconds)
