"""What a run is, as its record says; where there is none, as one look decides."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from lastbeat.model import runid
from lastbeat.model.cause import NOTHING as NO_CAUSE
from lastbeat.model.cause import Explanation
from lastbeat.model.codec import DamagedError, NewerError
from lastbeat.model.heartbeat import DOCUMENT_LIMIT_BYTES, Heartbeat
from lastbeat.model.limits import LEARNED
from lastbeat.model.observation import NeverSeen, Seen
from lastbeat.model.policy import HERE, Policy
from lastbeat.model.preemption import LIMIT_BYTES as PREEMPTED_LIMIT_BYTES
from lastbeat.model.raised_alert import LIMIT_BYTES as ALERTS_LIMIT_BYTES
from lastbeat.model.record import Attempt, LimitName, Record
from lastbeat.model.state import HasState, State
from lastbeat.model.status import UNWELL, Status
from lastbeat.model.times import format_time
from lastbeat.model.timesheet import Timesheet
from lastbeat.model.view import LimitInForce
from lastbeat.stores.port import Blob, ConflictError, Entry, StoreError
from lastbeat.views.excerpts import STACKS_LIMIT_BYTES
from lastbeat.views.file_cache import FileCache, FilePiece
from lastbeat.views.standing import NOTHING, Standing, of_decision, of_record
from lastbeat.watch.decide.freshness import learned_limit_s
from lastbeat.watch.decide.transition import Decision, decide, explained, with_explanation
from lastbeat.watch.observe.log_observer import LogObserver, LogSettings
from lastbeat.watch.observe.run import ERROR_LIMIT_BYTES, Observer
from lastbeat.watch.record.codec import RECORD_LIMIT_BYTES, decode_record

READ_LIMITS: Final = {
    runid.RECORD: RECORD_LIMIT_BYTES,
    runid.METADATA: DOCUMENT_LIMIT_BYTES,
    runid.PROGRESS: DOCUMENT_LIMIT_BYTES,
    runid.ERROR: ERROR_LIMIT_BYTES,
    runid.PREEMPTED: PREEMPTED_LIMIT_BYTES,
    runid.STACKS: STACKS_LIMIT_BYTES,
    runid.ALERTS: ALERTS_LIMIT_BYTES,
    runid.STOP: runid.STOP_LIMIT_BYTES,
}
"""Name of a document → most bytes of it that are read."""


@dataclass(frozen=True, slots=True)
class Judged(HasState):
    """State and what shows it. ``record`` is None where there is none that could be read."""

    state: State
    standing: Standing = NOTHING
    """The same as a row shows it."""
    record: Record | None = None
    attempt: Attempt = field(default_factory=Attempt)
    seen: Seen | None = None
    """The evidence of this attempt; None if it could not be read."""
    ended: Status | None = None
    """How this attempt ended, as far as known: training may have said so since the last record."""
    fault: str | None = None
    notes: tuple[str, ...] = ()
    unread: bool = False
    """Whether there is a record that could not be read."""
    timesheet: Timesheet | None = None
    """As recorded, with what its documents show since."""

    @property
    def metadata(self) -> Heartbeat | None:
        """The metadata.json of this attempt."""
        return None if self.seen is None else self.seen.metadata

    @property
    def stacks_count(self) -> bool:
        """Whether ``stacks.txt`` is of this attempt, as far as known."""
        return self.seen is None or self.seen.stacks is not None


class Judge:
    """Judges one run again and again from what was read of it."""

    def __init__(self, cache: FileCache, run_id: str, mask: Callable[[str], str], signals: LogSettings) -> None:
        self._cache = cache
        self._run_id = run_id
        self._mask = mask
        self._signals = signals
        self._observer = Observer(cache, run_id, mask)  # type: ignore[arg-type]  # it reads, and no more
        self._logs: LogObserver | None = None
        self._explained: tuple[object, Explanation] | None = None

    def judge(
        self, files: Mapping[str, Entry], at: datetime, policy: Policy, dumps_at: datetime | None = None
    ) -> Judged:
        """``files`` are as they were listed at ``at``, the store's time, and the cache has read those that are
        :func:`documents`. ``policy`` has the fleet's limits for the run. ``dumps_at`` is when the newest dump of a
        flight recorder was stored: those stored after the record of a failure add to its cause.

        Raises :class:`StoreError` when the store did not answer for the record, :class:`ConflictError` when a file went
        away: then look again.
        """
        record, said, refused = self._record()
        notes = (said,) if said else ()
        if record is not None and record.left_out is not None:
            did = "forgotten" if record.left_out.forgotten else "archived"
            when = format_time(record.left_out.at.replace(microsecond=0))
            told = f"It was {did} by {record.left_out.by} at {when}: passes and the fleet leave it out"
            notes = (*notes, f"{told} until it is written to again.")
        if record is not None and record.status is None:
            # Nothing is recorded but that.
            record = None
        try:
            seen, _ = self._observer.look(dict(files))
        except StoreError as fault:
            if record is None or fault.retryable or isinstance(fault, ConflictError):
                raise
            return self._recorded(record, None, str(fault), notes)
        if record is not None:
            decision = decide(record, self._run_id, seen, policy, at)
            judged = replace(
                self._recorded(record, decision.seen, self._fault(), notes), timesheet=_timesheet(record, decision)
            )
            judged = replace(judged, ended=decision.verdict.status) if decision.verdict.by_sentinel else judged
            return self._with_late_dumps(judged, record, dumps_at)
        if refused:
            decision, notes = replace(decide(None, self._run_id, seen, policy, at), unobservable=said), ()
        else:
            decision = self._first(seen, files, at, policy)
        known = Judged(
            State(Status.UNKNOWN, decision.unobservable or ""),
            of_decision(decision, files),
            attempt=decision.record.attempt,
            seen=decision.seen,
            fault=decision.unobservable,
            notes=notes,
            unread=bool(said),
        )
        if decision.unobservable is not None:
            return known
        verdict = decision.verdict
        return replace(
            known,
            state=verdict.state,
            ended=verdict.status if verdict.status.ended else None,
            fault=self._fault(),
            notes=(*notes, *decision.seen.log_notes),
            timesheet=decision.record.timesheet,
        )

    def know(self, name: str, heartbeat: Heartbeat) -> None:
        """Judge by ``heartbeat``, which the caller has read from the run's file ``name``."""
        self._observer.know(f"{self._run_id}/{name}", heartbeat)

    def _first(self, seen: Seen | NeverSeen, files: Mapping[str, Entry], at: datetime, policy: Policy) -> Decision:
        """What a pass that knows nothing of the run would decide."""
        self._logs = self._logs or LogObserver(self._cache.store, self._run_id, self._mask, self._signals)
        decision = decide(None, self._run_id, self._logs.add_to(seen, files, None, at), policy, at)
        if not decision.needs_explanation or decision.unobservable is not None:
            return decision
        key = sorted((name, entry.version, entry.modified) for name, entry in files.items())
        if self._explained is None or self._explained[0] != key:
            self._logs.begin(decision.record.attempt)
            error = decision.seen.error
            metadata = decision.seen.metadata
            world_size = metadata.world_size if metadata is not None else None
            found = self._logs.explain(files, error.text if error is not None else None, world_size)
            self._explained = key, found
        return with_explanation(decision, self._explained[1])

    def _with_late_dumps(self, judged: Judged, record: Record, dumps_at: datetime | None) -> Judged:
        """``judged`` with what dumps show that were stored after the failure in ``record``, which stays as it was
        reported."""
        late = dumps_at is not None and record.since is not None and dumps_at > record.since
        if not late or record.status not in UNWELL:
            self._logs = None
            return judged
        known = judged.explained
        key = record.since, dumps_at, known
        if self._explained is None or self._explained[0] != key:
            self._logs = self._logs or LogObserver(self._cache.store, self._run_id, self._mask, self._signals)
            self._logs.begin(record.attempt)
            world_size = judged.metadata.world_size if judged.metadata is not None else None
            before = NO_CAUSE if known is None else Explanation(known.cause, missing=known.missing, stuck=known.stuck)
            self._explained = key, self._logs.with_dumps(before, world_size)
        found = self._explained[1]
        if found.cause is None or found.stuck is None or (known is not None and found.stuck == known.stuck):
            return judged
        came = f"Dumps of flight recorders came after the alert, the last at {format_time(dumps_at)}"
        state = explained(judged.state, found, found.cause)
        return replace(
            judged, state=state, notes=(*judged.notes, f"{came}: this cause counts them, the alert's does not.")
        )

    def _recorded(self, record: Record, seen: Seen | None, fault: str | None, notes: tuple[str, ...]) -> Judged:
        return Judged(
            record.state or State(Status.UNKNOWN),
            of_record(record, self._mask),
            record,
            record.attempt,
            seen,
            record.status if record.status is not None and record.status.ended else None,
            fault,
            notes,
        )

    def _fault(self) -> str | None:
        """Why something that the row is made of could not be read again."""
        files = map(self._cache.files.get, (runid.RECORD, runid.METADATA, runid.PROGRESS))
        return next((str(each.fault) for each in files if each is not None and each.fault is not None), None)

    def _record(self) -> tuple[Record | None, str, bool]:
        """The record, what is to be said of it, and whether there is one that this program may not judge without."""
        read = self._cache.files.get(runid.RECORD)
        if read is None or (read.blob is None and read.fault is None):
            return None, "", False
        if read.blob is None:
            assert read.fault is not None  # noqa: S101 - just asked
            if read.fault.retryable:
                raise read.fault
            return None, f"The record could not be read: {read.fault}", True
        return self._cache.understood(runid.RECORD, _decoded) or (None, "", False)


def documents(files: Mapping[str, Entry]) -> dict[str, FilePiece]:
    """What of ``files`` a run is judged by, besides its logs."""
    ended = bool({runid.ERROR, runid.PREEMPTED} & files.keys())
    names = (name for name in READ_LIMITS if name in files and (ended or name != runid.STOP))
    return {name: FilePiece(files[name], READ_LIMITS[name]) for name in names}


def _decoded(blob: Blob) -> tuple[Record | None, str, bool]:
    try:
        record = decode_record(blob.body)
    except NewerError as wrong:
        return None, f"The record cannot be used: {wrong}; upgrade lastbeat on this machine", True
    except DamagedError as wrong:
        return None, f"The record is damaged ({wrong}): the status is what one look says.", False
    if record.status is None and record.left_out is None:
        return None, "", False
    return record, "", False


def _timesheet(record: Record, decision: Decision) -> Timesheet | None:
    """The times by the run's own documents. That it fell silent, or that its job is gone, only a watcher decides."""
    news = decision.transition is None or decision.verdict.by_sentinel
    new_attempt = decision.record.attempt.number != record.attempt.number
    return decision.record.timesheet if news or new_attempt else record.timesheet


def in_force(policy: Policy, beat: Heartbeat | None, record: Record | None) -> Policy:
    """``policy``, which has the fleet's limits, with those that the run states in ``beat``, its metadata.json; while
    that cannot be read, with those that it last stated."""
    if beat is not None and beat.fault is None:
        return policy.of_run(beat.stale_s, beat.stall_s)
    known = record.metadata if record is not None else None
    return policy if known is None else policy.of_run(known.stale_s, known.stall_s)


def limits_shown(policy: Policy, beat: Heartbeat | None) -> Iterator[LimitInForce]:
    """The limits of ``policy``, which has all of them, for people."""
    learned_s = learned_limit_s(beat) if policy.learned else None
    if learned_s is not None and learned_s < policy.stale_s:
        yield LimitInForce(LEARNED, learned_s, policy.learned_from)
    yield LimitInForce(LimitName.STALE.value, policy.stale_s, policy.stale_from)
    if policy.stall_s is None and policy.inactivity_s is not None:
        yield LimitInForce(LimitName.INACTIVITY.value, policy.inactivity_s, HERE)
    else:
        yield LimitInForce(LimitName.STALL.value, policy.stall_s, policy.stall_from)
    if policy.start_grace_s > 0 or policy.start_from != HERE:
        yield LimitInForce(LimitName.START.value, policy.start_grace_s, policy.start_from)


def exceeded(record: Record | None, clean: Callable[[str], str]) -> LimitInForce | None:
    """The limit by which the run was TIMED_OUT; None where the record does not tell. ``clean`` makes text of a record
    fit to be shown."""
    limit = record.exceeded if record is not None else None
    if limit is None:
        return None
    return LimitInForce(limit.name.value, limit.limit_s, clean(limit.source) or "whose is not recorded")


def worry_s(shown: Iterable[LimitInForce]) -> float | None:
    """The shortest limit for silence among those ``shown``."""
    spans = (each.limit_s for each in shown if each.name in {LimitName.STALE.value, LEARNED})
    return min((span for span in spans if span is not None), default=None)
