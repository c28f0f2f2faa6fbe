"""What the failures of a fleet cost, from the records of its runs: one small read for each that changed."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from lastbeat.fleet.all_records import MOST, FleetRecords, all_records
from lastbeat.model.as_json import Json, picked
from lastbeat.model.losses import CountedFailure, Dimension, LossGroup, by_loss, grouped
from lastbeat.model.record import Record
from lastbeat.model.text import counted
from lastbeat.model.times import format_time
from lastbeat.stores.port import Store
from lastbeat.views.heartbeats import NAME_LIMIT
from lastbeat.views.safe import shown
from lastbeat.watch.decide.losses import counted_failures
from lastbeat.watch.decide.timesheet import restart_waits

SCHEMA: Final = 1
LOSSES_SINCE_S: Final = 30 * 86400.0
"""How far back people are shown them, unless they ask otherwise."""
MOST_GROUPS: Final = 100
"""Most groups of each kind, those that lost the most."""
MOST_FINGERPRINTS: Final = 10
"""Most fingerprints of one cause in the document: those that lost the most."""
_SAID_LIMIT: Final = 300
Mask = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class RunFailures:
    """The failures of one record."""

    failures: tuple[CountedFailure, ...] = ()
    thin: bool = False
    """It keeps no change of status."""
    cut: bool = False
    """There were more changes than it keeps."""
    grows: bool = False
    """Its hours grow without a write: its run lies dead until its next job is seen."""


@dataclass
class FleetLosses:
    """The failures of a fleet since ``since``."""

    root: str
    at: datetime
    since: datetime
    records: FleetRecords
    failures: list[CountedFailure] = field(default_factory=list)
    runs: int = 0
    """Whose records were looked at."""
    older: int = 0
    """Records that were last written before ``since``: nothing has failed there."""
    left: int = 0
    """The unread records that the next reading begins with."""
    thin: int = 0
    cut: int = 0

    @property
    def total(self) -> LossGroup:
        """All of them."""
        whole = LossGroup("")
        for each in self.failures:
            whole.add(each)
        return whole

    def by(self, dimension: Dimension) -> list[LossGroup]:
        """What to mend first."""
        return grouped(self.failures, dimension)


class LossReader:
    """Reads them, again and again: a record that did not change is not read twice, but for one whose hours grow. Not
    for two threads at once. ``most``: most records that count, those that were written last."""

    def __init__(self, store: Store, root: str, mask: Mask = str, *, most: int = MOST) -> None:
        self._store = store
        self._root = root
        self._mask = mask
        self._most = most
        self._known: dict[str, tuple[str, RunFailures]] = {}
        """Run → version of its record, and what that tells."""

    def read(self, since_s: float, *, until: float = float("inf"), most: int = MOST) -> FleetLosses:
        """What failed within ``since_s`` seconds. Reads ``most`` records at most, those that changed last, and none
        after ``until``, a time of ``time.monotonic()``. Raises :class:`StoreError` where nothing could be listed."""
        records = all_records(self._store, until=until, most=sys.maxsize)
        since = records.at - timedelta(seconds=since_s)
        found = FleetLosses(self._root, records.at, since, records)
        young = [(run_id, entry) for run_id, entry in records.wanted if entry.modified >= since]
        found.older = len(records.wanted) - len(young)
        beyond = max(0, len(young) - self._most)
        del young[self._most :]
        versions = {run_id: entry.version for run_id, entry in young}
        self._known = {run_id: each for run_id, each in self._known.items() if versions.get(run_id) == each[0]}
        new = [(run_id, entry) for run_id, entry in young if run_id not in self._known]
        growing = [(run_id, entry) for run_id, entry in young if run_id in self._known and self._known[run_id][1].grows]
        records.unread = max(0, len(new) - most)
        records.wanted = (new + growing)[:most]
        for record in records.read(until):
            told = failures_of(record, records.at, self._mask)
            self._known[record.run_id] = versions[record.run_id], told
        # Those that grow come last, and their earlier failures still count.
        again = max(0, len(records.wanted) - len(new))
        found.left = max(0, records.unread - again)
        records.unread = found.left + beyond
        # A fault quotes the record.
        records.faults = {run_id: shown(why, self._mask, _SAID_LIMIT) for run_id, why in records.faults.items()}
        records.partial = shown(records.partial, self._mask, _SAID_LIMIT) if records.partial is not None else None
        for _, told in self._known.values():
            found.runs += 1
            found.thin += told.thin
            found.cut += told.cut
            found.failures += [each for each in told.failures if each.happened_at >= since]
        return found


def failures_of(record: Record, now: datetime, mask: Mask = str) -> RunFailures:
    """The failures of ``record``, in texts that may be shown."""
    if record.left_out is not None and record.left_out.forgotten:
        return RunFailures()
    failures = tuple(_shown(each, mask) for each in counted_failures(record, now))
    return RunFailures(
        failures, not record.history, record.transitions > len(record.history), bool(failures) and restart_waits(record)
    )


def _shown(failure: CountedFailure, mask: Mask) -> CountedFailure:
    def name(text: str | None) -> str | None:
        return shown(text, mask, NAME_LIMIT) or None if text is not None else None

    return replace(
        failure,
        error_type=name(failure.error_type),
        signal=name(failure.signal),
        fingerprint=name(failure.fingerprint),
        said=shown(failure.said, mask, _SAID_LIMIT),
        node=name(failure.node),
        user=name(failure.user),
    )


def losses_document(found: FleetLosses, most: int = MOST_GROUPS) -> Json:
    """The promised keys, all of them always there; what is not known is null. Hours are of wall time."""
    records = found.records
    groups: Mapping[str, Dimension] = {
        "causes": Dimension.CAUSE,
        "nodes": Dimension.NODE,
        "users": Dimension.USER,
        "steps": Dimension.STEPS,
    }
    each = {name: found.by(dimension) for name, dimension in groups.items()}
    return {
        "schema": SCHEMA,
        **picked(found, "root at since runs older thin cut"),
        "total": _group(found.total, None),
        **{name: [_group(group, groups[name]) for group in some[:most]] for name, some in each.items()},
        "left_out": {name: max(0, len(some) - most) for name, some in each.items()},
        **picked(records, "unrecorded unread unusable"),
        "notes": list(notes(found)),
    }


def _group(group: LossGroup, by: Dimension | None) -> Json:
    if by is not Dimension.CAUSE:
        return _hours_of(group)
    fingerprints = by_loss(group.fingerprints.values())
    return {
        **_hours_of(group, words=True),
        # As documents had it when each fingerprint was a group of its own.
        "name": (group.latest.fingerprint if group.latest is not None else None) or group.name,
        "fingerprints": [_hours_of(each, words=True) for each in fingerprints[:MOST_FINGERPRINTS]],
        "fingerprints_left_out": max(0, len(fingerprints) - MOST_FINGERPRINTS),
    }


def _hours_of(group: LossGroup, *, words: bool = False) -> Json:
    latest = group.latest
    named = "error_type signal said"
    return {
        "name": group.name or None,
        **(picked(latest, named) if words and latest is not None else dict.fromkeys(named.split())),
        "failures": group.failures,
        "runs": len(group.runs),
        "lost_hours": _hours(group.lost_s),
        "at_least": group.at_least,
        "thrown_away_hours": _hours(group.thrown_away_s if group.thrown_away_known else None),
        "thrown_away_known_of": group.thrown_away_known,
        "dead_hours": _hours(group.dead_s if group.dead_known else None),
        "dead_known_of": group.dead_known,
        "last_at": format_time(latest.happened_at) if latest is not None else None,
        "last_seen_at": format_time(latest.at) if latest is not None else None,
        "last_run": latest.run_id if latest is not None else None,
        "started_again": latest.started_again if latest is not None else None,
    }


def _hours(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds / 3600, 3)


def notes(found: FleetLosses) -> list[str]:
    """How far that can be trusted, a sentence each."""
    records, total = found.records, found.total
    unknown = total.failures - min(total.thrown_away_known, total.dead_known)
    told = [
        (unknown, f"What {counted(unknown, 'failure')} cost is not fully known; only what is known is counted."),
        (records.unrecorded, f"Nothing is recorded of {counted(records.unrecorded, 'run')}."),
        (found.thin, f"No change of status is kept of {counted(found.thin, 'run')}."),
        (found.cut, f"Known in part: {counted(found.cut, 'run')}, of which the latest 50 changes are kept."),
        (records.unread, f"{counted(records.unread, 'record')} not read: there are too many, or no time was left."),
    ]
    said = [text for count, text in told if count]
    if records.partial is not None:
        said.append(f"Not all runs are known: {records.partial}.")
    if records.unusable:
        run_id, why = next(iter(records.faults.items()))
        said.append(f"{counted(records.unusable, 'run')} could not be looked at; {run_id}: {why}")
    return said
