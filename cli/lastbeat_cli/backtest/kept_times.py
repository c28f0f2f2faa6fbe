"""Reads the recorded times of steps and sections: three files a run, each bounded."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from lastbeat.fleet.all_records import FleetRecords
from lastbeat.lab.past_timeouts import Came, KeptTimes, PastTimeouts, StepPoint, past_timeouts
from lastbeat.model import runid
from lastbeat.model.heartbeat import DOCUMENT_LIMIT_BYTES, read_heartbeat
from lastbeat.model.learned_limits import LIMIT_BYTES, read_state
from lastbeat.model.record import Record
from lastbeat.stores.port import Store, StoreError
from lastbeat.views.heartbeats import read_told

_THREADS: Final = 16


@dataclass
class FleetTimeouts:
    """The alarms that learned limits would have raised in a fleet."""

    root: str
    records: FleetRecords
    runs: list[PastTimeouts] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    """Run → why its files could not be read."""

    @property
    def judged(self) -> list[PastTimeouts]:
        """The runs with enough recorded data."""
        return [each for each in self.runs if each.why_not is None]

    def count(self, came: Came) -> int:
        """The number of alarms with that outcome."""
        return sum(told.came is came for run in self.judged for told in run.told)


def kept_times(store: Store, record: Record) -> KeptTimes:
    """The recorded times of the run. Raises :class:`StoreError` if they cannot be read."""
    folder = f"{record.run_id}/"
    progress = store.read(folder + runid.PROGRESS, DOCUMENT_LIMIT_BYTES)
    metadata = store.read(folder + runid.METADATA, DOCUMENT_LIMIT_BYTES)
    state = store.read(folder + runid.LEARNED, LIMIT_BYTES)
    points = read_told(progress).points if progress is not None else ()
    beat = read_heartbeat(metadata) if metadata is not None else None
    return KeptTimes(
        [StepPoint(each.at, each.step) for each in points],
        record.progress.skew_s if record.progress is not None else 0.0,
        beat.start_time if beat is not None else None,
        beat.modified if beat is not None else None,
        beat.sections if beat is not None else (),
        read_state(state.body) if state is not None else None,
    )


def read_timeouts(found: FleetTimeouts, until: float) -> None:
    """Judge each run. ``until`` is a time of ``time.monotonic()``."""
    records, store = found.records, found.records.store

    def one(record: Record) -> PastTimeouts | str:
        if time.monotonic() >= until:
            return "no time was left"
        try:
            return past_timeouts(record, kept_times(store, record), records.at)
        except StoreError as error:
            return str(error)

    wanted = _wanted(records, until)
    with ThreadPoolExecutor(_THREADS, "lastbeat-times") as pool:
        while some := list(islice(wanted, 4 * _THREADS)):
            for record, told in zip(some, pool.map(one, some), strict=True):
                if isinstance(told, PastTimeouts):
                    found.runs.append(told)
                else:
                    found.unreadable[record.run_id] = told
    found.runs.sort(key=lambda each: each.run_id)


def _wanted(records: FleetRecords, until: float) -> Iterator[Record]:
    for record in records.read(until):
        if record.left_out is None or not record.left_out.forgotten:
            yield record
