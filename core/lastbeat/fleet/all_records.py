"""Reads the records of a whole fleet, up to a limit, for questions that need every record."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Final

from lastbeat.fleet.index import SETTLED_S, FleetIndex, newest_of
from lastbeat.fleet.index_store import index_names, read_index
from lastbeat.model import runid
from lastbeat.model.codec import DamagedError
from lastbeat.model.record import Record
from lastbeat.model.text import counted
from lastbeat.stores.port import Entry, Store, StoreError
from lastbeat.watch.observe.fleet import FleetListing, RunFiles
from lastbeat.watch.record.codec import RECORD_LIMIT_BYTES, decode_record

MOST: Final = 5000
"""Most records that are read; the newest are preferred."""
_THREADS: Final = 16
_FAULTS: Final = 20


@dataclass
class FleetRecords:
    """The records of a fleet. Iterating over :meth:`read` fills ``faults`` and ``unread``."""

    store: Store
    at: datetime
    """The store's time before the listing."""
    runs: int = 0
    """Number of runs in the listing."""
    unrecorded: int = 0
    """Number of runs that no watchdog has looked at."""
    skipped: int = 0
    """Number of runs whose records the fleet's index shows to be irrelevant."""
    unread: int = 0
    """Number of records left unread, because there are too many or time ran out."""
    faults: dict[str, str] = field(default_factory=dict)
    """Run → why its record cannot be used; the first ones."""
    unusable: int = 0
    """Number of records that cannot be used."""
    partial: str | None = None
    """Why the listing does not show all runs; None if it does."""
    wanted: list[tuple[str, Entry]] = field(default_factory=list)
    """Run and file of each record to read."""

    def read(self, until: float = float("inf")) -> Iterator[Record]:
        """Each record, the newest first. Holds at most a few records per thread. ``until`` is a time of
        ``time.monotonic()``. Faults of single records go to ``faults``."""

        def one(wanted: tuple[str, Entry]) -> Record | str | None:
            if time.monotonic() >= until:
                return None
            try:
                blob = self.store.read(wanted[1].key, RECORD_LIMIT_BYTES)
            except StoreError as error:
                return str(error)
            if blob is None:
                return "it went away while it was looked at"
            try:
                found = decode_record(blob.body)
            except DamagedError as error:
                return str(error)
            return found if found.run_id == wanted[0] else "it is another run's"

        wanted = iter(self.wanted)
        with ThreadPoolExecutor(_THREADS, "lastbeat-records") as pool:
            while some := list(islice(wanted, 4 * _THREADS)):
                for (run_id, _), found in zip(some, pool.map(one, some), strict=True):
                    if isinstance(found, Record):
                        yield found
                    elif found is None:
                        self.unread += 1
                    else:
                        self.unusable += 1
                        if len(self.faults) < _FAULTS:
                            self.faults[run_id] = found


def all_records(
    store: Store,
    *,
    until: float = float("inf"),
    most: int = MOST,
    skip: Callable[[FleetIndex, RunFiles], bool] | None = None,
) -> FleetRecords:
    """List the fleet. ``skip`` returns whether an index shows that the record of a run need not be read. Raises
    :class:`StoreError` if nothing could be listed."""
    listing = FleetListing(store, until=until)
    found = FleetRecords(store, store.clock())
    runs: list[RunFiles] = []
    try:
        runs.extend(listing)
    except StoreError as error:
        if not listing.pages:
            raise
        found.partial = f"the listing broke off after {counted(len(runs), 'run')}: {error}"
    if found.partial is None and not listing.done:
        found.partial = f"the listing could not be finished in time; it came to {counted(len(runs), 'run')}"
    indices = list(_indices(store, listing.own)) if skip is not None else []
    for run in runs:
        entry = run.files.get(runid.RECORD)
        found.runs += 1
        if run.fault is not None or (entry is not None and entry.fault is not None):
            found.unusable += 1
            if len(found.faults) < _FAULTS:
                found.faults[run.run_id] = str(run.fault or (entry.fault if entry is not None else ""))
        elif entry is None:
            found.unrecorded += 1
        elif skip is not None and any(skip(index, run) for index in indices):
            found.skipped += 1
        else:
            found.wanted.append((run.run_id, entry))
    found.wanted.sort(key=lambda each: (-each[1].modified.timestamp(), each[0]))
    found.unread = max(0, len(found.wanted) - most)
    del found.wanted[most:]
    return found


def _indices(store: Store, own: dict[str, Entry]) -> Iterator[FleetIndex]:
    """The indices that passes have saved. No result depends on them, so unreadable ones are skipped."""
    for name in index_names(own):
        try:
            index, _ = read_index(store, name)
        except StoreError:
            continue
        if index is not None:
            yield index


def never_supervised(index: FleetIndex, run: RunFiles) -> bool:
    """Whether the index is current for the run and shows that lastbeat does not start its jobs."""
    known, entry = index.runs.get(run.run_id), run.files.get(runid.RECORD)
    if known is None or entry is None or known.supervised:
        return False
    recorded = known.files.get(runid.RECORD)
    return recorded is not None and recorded[1] == entry.version


def ended_long_ago(index: FleetIndex, run: RunFiles) -> bool:
    """Whether the index shows that the run ended more than a day ago, and none of its files is newer."""
    ended = index.finished.get(run.run_id)
    if ended is None or newest_of(run.files) > ended:
        return False
    recorded = run.files.get(runid.RECORD)
    # Passes looked at the run for that long after its end. A new beginning would write the record.
    return recorded is not None and recorded.modified.timestamp() <= ended + SETTLED_S
