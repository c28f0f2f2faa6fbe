"""Collects the results of a pass from many threads, and reports them. A dry pass also lists what it would send."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

from lastbeat.fleet.groups import GroupedAlerts
from lastbeat.fleet.index import FleetIndex, IndexedRun
from lastbeat.fleet.shared_channel import SharedChannel
from lastbeat.model.figures import Figures
from lastbeat.model.fleet import FIGURES_LIMIT, LINES_LIMIT, PassReport, PlannedAlert, RunFigures, RunLine
from lastbeat.model.group import DeferredAlert
from lastbeat.model.outcome import Outcome
from lastbeat.model.record import Record, Transition
from lastbeat.model.status import UNWELL, Status
from lastbeat.watch.effects.deferral import prolong, release, settle_as_told
from lastbeat.watch.effects.outbox import DeliveryClaim, claim

_NOTES_LIMIT = 10
"""Most notes about runs in a report."""
_NOTES_KEPT = 1000
"""Most notes about runs that a pass keeps to choose from."""
_DRY_TOKEN = "dry-run"  # noqa: S105 - the name that claims carry in a dry run


@dataclass
class PassResults:
    """The results of one pass so far. Hold the lock of the fleet's index to write."""

    closed: bool = False
    """Whether the pass is over, so that results of late looks go to the next one."""
    looked: int = 0
    answered: int = 0
    """Number of runs that were observed, or answered when they were asked."""
    watched: int = 0
    """Number of observed runs that had a record before."""
    complete: bool = True
    notes: list[str] = field(default_factory=list)
    """Notes about the pass, its fleet and its store."""
    run_notes: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Note → the first run by name that has it, and the number of such runs."""
    ignored: tuple[str, ...] = ()
    transitions: list[tuple[str, Transition]] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    deferred: list[DeferredAlert] = field(default_factory=list)
    unrecorded: int = 0
    unsent: dict[str, Record] = field(default_factory=dict)
    """In a dry run, the records with alerts that a pass would send or hold back."""
    seen_again: list[str] = field(default_factory=list)
    """Runs that earlier passes could not observe."""

    def add(self, outcome: Outcome, deferred: Sequence[DeferredAlert], *, seen_again: bool) -> None:
        """Add the outcome of one look."""
        self.looked += 1
        self.answered += 1
        self.deferred.extend(deferred)
        began = outcome.transition is not None and outcome.transition.before is None
        self.watched += not began and not any(each.found_ended for each in deferred)
        self.unrecorded += not outcome.recorded
        if outcome.transition is not None and outcome.recorded:
            self.transitions.append((outcome.run_id, outcome.transition))
        if seen_again:
            self.seen_again.append(outcome.run_id)
        for note in outcome.notes:
            if note in self.run_notes or len(self.run_notes) < _NOTES_KEPT:
                first, count = self.run_notes.get(note, (outcome.run_id, 0))
                self.run_notes[note] = min(first, outcome.run_id), count + 1

    def note(self, text: str) -> None:
        """Add a note about the whole pass, once."""
        if text not in self.notes:
            self.notes.append(text)

    @property
    def all_notes(self) -> tuple[str, ...]:
        """Notes of the pass, then notes of runs, which begin with the run. Their order does not depend on threads."""
        about_runs = sorted(
            f"{run_id}: {note}" if count == 1 else f"{run_id} and {count - 1} more: {note}"
            for note, (run_id, count) in self.run_notes.items()
        )
        more = len(about_runs) - _NOTES_LIMIT
        left_out = (f"{more} more notes about runs are left out; `lastbeat show RUN` has those of one",)
        return (*self.notes, *about_runs[:_NOTES_LIMIT], *(left_out if more > 0 else ()))

    def move_to(self, other: "PassResults") -> None:
        """Hand results over to another pass: those of late looks, or of a pass that could not read the store."""
        other.transitions.extend(self.transitions)
        other.deferred.extend(self.deferred)
        other.seen_again.extend(self.seen_again)
        other.unrecorded += self.unrecorded
        self.transitions, self.deferred, self.seen_again, self.unrecorded = [], [], [], 0
        self.unreadable, self.notes, self.run_notes, self.looked = {}, [], {}, 0


@dataclass(frozen=True)
class DeliveryBaseline:
    """Counts of the channels' deliveries when the pass began."""

    channels: Sequence[SharedChannel]
    before: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, channels: Sequence[SharedChannel]) -> "DeliveryBaseline":
        """The baseline as of now."""
        return cls(channels, tuple((channel.sent, channel.failed) for channel in channels))

    @property
    def sent(self) -> int:
        """Number of deliveries since the baseline."""
        return sum(now.sent - sent for now, (sent, _) in zip(self.channels, self.before, strict=True))

    @property
    def failed(self) -> int:
        """Number of failed attempts since the baseline."""
        return sum(now.failed - failed for now, (_, failed) in zip(self.channels, self.before, strict=True))


def report(
    results: PassResults, index: FleetIndex, deliveries: DeliveryBaseline, waiting: int, now: datetime, plan: str
) -> PassReport:
    """The report of a pass that began at ``now``. ``waiting`` counts deliveries of groups; those of runs are added."""
    runs = index.runs.values()
    lines = sorted((_line(run, results) for run in runs), key=lambda line: _need(line, index.runs[line.run_id]))
    seen_at = min((run.seen_at for run in runs), default=now.timestamp())
    return PassReport(
        at=now,
        complete=results.complete,
        plan=plan,
        statuses=dict(Counter(_shown(line) for line in lines)),
        finished=len(index.finished),
        looked=results.looked,
        transitions=tuple(results.transitions),
        lines=tuple(lines[:LINES_LIMIT]),
        figures=tuple(_figures(line, index.runs[line.run_id]) for line in lines[:FIGURES_LIMIT]),
        unreadable=dict(list(results.unreadable.items())[:LINES_LIMIT]),
        unreadable_count=len(results.unreadable),
        ignored=results.ignored,
        unrecorded=results.unrecorded,
        sent=deliveries.sent,
        failed=deliveries.failed,
        pending=sum(run.pending for run in runs) + waiting,
        oldest_observation_s=max(0.0, now.timestamp() - seen_at),
        notes=results.all_notes,
    )


def planned(
    records: Mapping[str, Record], decision: GroupedAlerts, identities: Sequence[str], now: datetime
) -> tuple[PlannedAlert, ...]:
    """The alerts that a dry pass would send, by the rules of a real one: the notices of ``decision``, then the alerts
    left in the ``records`` of runs."""
    claims = list(decision.planned)
    for run_id in sorted(records):
        record = records[run_id]
        for key, numbers in decision.told.get(run_id, {}).items():
            record = settle_as_told(record, identities, numbers=numbers, key=key, now=now)
        if run_id in decision.wait:
            waiting, until = decision.wait[run_id]
            record = prolong(record, identities, numbers=waiting, until=until)
        if run_id in decision.release:
            record = release(record, identities, numbers=decision.release[run_id])
        claims += _due(record, identities, now)
    covered = Counter(key for by_key in decision.told.values() for key, numbers in by_key.items() for _ in numbers)
    notices = {claim.message.key for claim in decision.planned}
    return tuple(
        replace(each, transitions=covered[each.message.key]) if each.message.key in notices else each
        for each in _by_message(claims)
    )


def _due(record: Record, identities: Sequence[str], now: datetime) -> tuple[DeliveryClaim, ...]:
    """The deliveries of ``record`` that a pass would make now."""
    return claim(record, identities, _DRY_TOKEN, now, lease_s=1.0)[1]


def _by_message(claims: Iterable[DeliveryClaim]) -> Iterable[PlannedAlert]:
    found: dict[str, PlannedAlert] = {}
    for each in claims:
        known = found.get(each.message.key)
        channels = (*(known.channels if known is not None else ()), each.identity)
        found[each.message.key] = PlannedAlert(each.message, channels)
    return found.values()


def _line(run: IndexedRun, results: PassResults) -> RunLine:
    why = results.unreadable.get(run.line.run_id)
    if why is not None:
        return replace(run.line, status=Status.UNKNOWN, reason=why[:200])
    if not run.line.conditions:
        return run.line
    return replace(run.line, looked_at=datetime.fromtimestamp(run.looked_at, tz=timezone.utc))


def _figures(line: RunLine, run: IndexedRun) -> RunFigures:
    source, beat_at = run.step_source, run.beat_at
    if line.status is Status.UNKNOWN:
        # It may have beaten since.
        beat_at = None
    return RunFigures(
        line,
        beat_age_s=None if beat_at is None else max(0.0, run.seen_at - beat_at),
        figures=source.figures if source is not None else Figures(),
        step_at=source.modified if source is not None else None,
        pending=run.pending,
    )


def _shown(line: RunLine) -> str:
    warned = line.conditions and line.status is Status.RUNNING
    return f"{line.status.value} (WARNING)" if warned else line.status.value


def _need(line: RunLine, run: IndexedRun) -> tuple[int, str]:
    """Sort key: live trouble, failures, what is acknowledged, runs that are well, what is over; as in views."""
    if line.status is Status.UNKNOWN:
        return 0, line.run_id
    troubled = line.status in UNWELL or (line.status is Status.RUNNING and bool(line.conditions))
    if troubled and run.acknowledged:
        return 2, line.run_id
    if troubled:
        return int(line.status in UNWELL), line.run_id
    return 3 if line.status is Status.RUNNING else 4, line.run_id
