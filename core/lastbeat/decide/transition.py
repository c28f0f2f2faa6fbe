"""One step of the state machine: (record, observation, policy, now) → what to record, and what follows from it."""

import math
from dataclasses import dataclass, replace
from datetime import datetime

from lastbeat.decide import logs
from lastbeat.decide.attempt import AttemptMatch, match_attempt, reopened, sentinel_tokens, skew_range
from lastbeat.decide.flapping import FLIPS, MUTED, FlappingPhase, flapping_note, phase_after
from lastbeat.decide.freshness import remember
from lastbeat.decide.logs import also_seen
from lastbeat.decide.recovery import exceeded_limit, standing_conditions, time_out_stands
from lastbeat.decide.verdict import AttemptEvidence, Verdict, happened_at, judge, unobservable
from lastbeat.model import status as names
from lastbeat.model.cause import Explanation
from lastbeat.model.effect import Effect, Notify
from lastbeat.model.observation import Heartbeat, NeverSeen, Seen
from lastbeat.model.policy import Policy
from lastbeat.model.record import (
    ExceededLimit,
    Finding,
    HeartbeatMemory,
    LimitName,
    Record,
    RecordedCause,
    Transition,
)
from lastbeat.model.status import Event, Status

HISTORY_LIMIT = 50
UNWELL = frozenset({Status.FAILED, Status.TIMED_OUT})


@dataclass(frozen=True, slots=True)
class Decision:
    """``record`` is the next record, without its alerts; ``must_write``: something in it has to be kept."""

    record: Record
    verdict: Verdict
    seen: Seen
    """The part of the observation that counts for the current attempt."""
    effects: tuple[Effect, ...] = ()
    """What follows: alerts and actions."""
    transition: Transition | None = None
    must_write: bool = False
    flapping_note: str | None = None
    """What its alerts say about flapping, ahead of the verdict's reason."""
    needs_explanation: bool = False
    """The cause is worth a deep read of the logs."""
    unobservable: str | None = None
    """Why nothing follows from this look: evidence that could show life was out of reach. Nothing else here counts
    then."""

    @property
    def events(self) -> tuple[Event, ...]:
        """The alerts among its effects."""
        return tuple(effect.event for effect in self.effects if isinstance(effect, Notify))


def decide(record: Record | None, run_id: str, observed: Seen | NeverSeen, policy: Policy, now: datetime) -> Decision:
    """What follows from one observation. Pure. ``now`` is the store's time. ``Unreadable`` never gets here.

    1. Match the observation to an attempt; drop evidence of earlier ones. A finished run may have begun again.
    2. Take the limits that the run states of its own. Combine the observation with what the record knows: heartbeats,
       clock offsets, log findings.
    3. Judge the evidence: status, reason, conditions.
    4. Leave a status that a newer version gave, and a finished run whose sentinel is gone, as they were.
    5. Keep the cause that people were told.
    6. Derive the transition, the events and the next record.
    7. A run that only seems silent because evidence could not be looked at is not observable.
    """
    before = record or Record(run_id=run_id, first_looked_at=now)
    seen = observed if isinstance(observed, Seen) else Seen()
    match = match_attempt(record, seen, _known_skew(record, seen, policy, now))
    match = _reopen(record, match, policy, now)
    if match.seen.metadata is not None:
        policy = policy.of_run(match.seen.metadata.stale_s, match.seen.metadata.stall_s)
    evidence = _evidence(before, match, policy, now)
    verdict = judge(evidence, policy, now)
    if (
        before.status is not None
        and before.status.is_foreign
        and _is_left_alone(before.since, match, evidence, verdict)
    ):
        verdict = _as_recorded(before, before.status)
    elif _stays_finished(record, match, verdict):
        verdict = replace(_as_recorded(before, before.status or verdict.status), by_log=_by_log(before))
    elif verdict.status is Status.RUNNING and not match.is_new:
        verdict = _without_new_evidence(before, evidence, verdict)
    decision = _conclude(before, match, evidence, _keep_known_cause(before, match, verdict), policy, now)
    silent = verdict.status is Status.TIMED_OUT and before.status is not Status.TIMED_OUT
    return replace(decision, unobservable=unobservable(evidence)) if silent else decision


def with_explanation(decision: Decision, explanation: Explanation) -> Decision:
    """``decision`` with the cause that a deep read of the logs found, if any. Pure."""
    cause, verdict = explanation.cause, decision.verdict
    if cause is None or (verdict.cause is not None and _says_nothing(cause.error_type)):
        return decision
    why = RecordedCause(logs.bounded(cause), also_seen(explanation))
    verdict = replace(verdict, cause=cause.error_type, action=cause.hint or verdict.action, explained=why)
    record = replace(decision.record, cause=verdict.cause, action=verdict.action, explained=why)
    transition = decision.transition
    if transition is not None:
        transition = replace(transition, cause=verdict.cause)
        record = replace(record, history=(*record.history[:-1], transition))
    return replace(decision, record=record, verdict=verdict, transition=transition)


def with_silence(decision: Decision, why: str) -> Decision:
    """``decision`` without its alerts; ``why`` is recorded with its transition. Pure."""
    record, transition = decision.record, decision.transition
    if transition is not None:
        transition = replace(transition, silenced=why)
        record = replace(record, history=(*record.history[:-1], transition))
    if Event.FLAPPING in decision.events:
        # Nobody got the FLAPPING alert, so further flips must not be muted: the next one raises it again.
        record = replace(record, flapping_since=None)
    effects = tuple(effect for effect in decision.effects if not isinstance(effect, Notify))
    return replace(decision, record=record, transition=transition, effects=effects)


def _known_skew(record: Record | None, seen: Seen, policy: Policy, now: datetime) -> tuple[float, float] | None:
    known = record.metadata if record else None
    if seen.metadata is not None:
        known = remember(known, seen.metadata, policy.stale_s, now)
    if known is None or known.own_time is None or known.suspect:
        return None
    return skew_range(known.skew_s, known.lag_s)


def _reopen(record: Record | None, match: AttemptMatch, policy: Policy, now: datetime) -> AttemptMatch:
    """A new attempt, if a finished run whose files name no attempt has lost its sentinel and beats again."""
    if record is None or match.is_new or (record.status is None or not record.status.ended):
        return match
    if _by_log(record):
        # Only a later step takes that back, and then the run never ended.
        return match
    seen = match.seen
    if seen.error is not None or seen.complete is not None or record.since is None:
        return match
    beats = (
        remember(memory, heartbeat, policy.stale_s, now).alive_at
        for memory, heartbeat in ((record.metadata, seen.metadata), (record.progress, seen.progress))
        if heartbeat is not None
    )
    if any(alive_at is not None and alive_at > record.since for alive_at in beats):
        spent = () if record.finding is None else (record.finding.line,)
        return replace(match, attempt=replace(reopened(match.attempt), spent=spent), is_new=True)
    return match


def _by_log(record: Record) -> bool:
    """Whether the run is FAILED on the strength of a log alone."""
    return record.status is Status.FAILED and record.finding is not None and record.finding.alone


def _keep_known_cause(before: Record, match: AttemptMatch, verdict: Verdict) -> Verdict:
    """The cause of a failure or a silence is found once and then stays what people were told."""
    if match.is_new or before.status is not verdict.status or verdict.status not in UNWELL:
        return verdict
    if verdict.by_log:
        verdict = replace(verdict, reason=before.reason)
    if before.cause is None:
        return verdict
    return replace(verdict, cause=before.cause, action=before.action, explained=before.explained)


def _evidence(before: Record, match: AttemptMatch, policy: Policy, now: datetime) -> AttemptEvidence:
    seen = match.seen
    metadata, progress, log = before.metadata, before.progress, before.log
    finding, lines, kept = before.finding, before.log_lines, before.conditions
    if match.is_new:
        # At this look nobody can tell which log text belongs to which attempt.
        seen, log, finding, lines, kept = replace(seen, logs=None), None, None, {}, {}
        # The last attempt's progress says nothing about this one. What is known of the clock may.
        progress = None
        metadata = replace(metadata, missing_since=None) if metadata is not None and seen.metadata else None
    # Files that disappear after a TIMED_OUT were cleaned up: no sign of life.
    out = before.status is Status.TIMED_OUT
    if not match.leftover:
        metadata = _remember_heartbeat(metadata, seen.metadata, policy, now, out=out)
    # One instance writes both, so its clock offset learned from one holds for the other.
    progress = _remember_heartbeat(progress, seen.progress, policy, now, out=out, offset_s=_known_offset_s(metadata))
    unread = seen.logs is None or seen.logs.unread
    # Where training writes both heartbeats, not every look asks for logs.
    stands_in = metadata is None or progress is None
    gone_since = None
    if stands_in and log is not None:
        gone_since = log.modified if out else now
    log = logs.remember(log, seen, now, late=names.PROGRESS_STALE in before.conditions, gone_since=gone_since)
    return AttemptEvidence(
        seen=seen,
        metadata=metadata,
        progress=progress,
        first_looked_at=before.first_looked_at or now,
        log=log,
        finding=logs.weigh(finding, seen.logs, (progress, log), match.attempt.spent, now),
        log_lines=logs.last_lines(lines, seen.logs, policy.absences),
        started=None if unread else _waited_since(before, match, now),
        known_nan=None if match.is_new else before.conditions.get(names.LOSS_NAN),
        kept=logs.kept(kept, seen.logs, policy, steps_elsewhere=progress is not None) if unread else {},
    )


def _waited_since(before: Record, match: AttemptMatch, now: datetime) -> datetime:
    """When waiting for this attempt's lines began. Not before the first look at it: they may have been printed by
    then."""
    if match.is_new:
        return now
    number = match.attempt.number
    entries = (transition.at for transition in before.history if transition.attempt == number)
    return next(entries, before.first_looked_at or now)


def _remember_heartbeat(
    memory: HeartbeatMemory | None,
    seen: Heartbeat | None,
    policy: Policy,
    now: datetime,
    *,
    out: bool,
    offset_s: float | None = None,
) -> HeartbeatMemory | None:
    if seen is not None:
        return remember(memory, seen, policy.stale_s, now, offset_s)
    if memory is not None and memory.missing_since is None:
        return replace(memory, missing_since=memory.alive_at or memory.modified if out else now)
    return memory


def _known_offset_s(memory: HeartbeatMemory | None) -> float | None:
    return None if memory is None or memory.own_time is None or memory.suspect else memory.skew_s


def _stays_finished(record: Record | None, match: AttemptMatch, verdict: Verdict) -> bool:
    """Whether a finished run stays finished although no sentinel says so (any more)."""
    if record is None or match.is_new or verdict.by_sentinel:
        return False
    if _by_log(record):
        # Only life takes it back. Silence fits what the log said.
        return verdict.status is Status.TIMED_OUT
    return record.status is not None and record.status.ended


def _is_left_alone(since: datetime | None, match: AttemptMatch, evidence: AttemptEvidence, verdict: Verdict) -> bool:
    """Whether a status that a newer lastbeat gave at ``since`` still stands. While the run lives, the newer version
    judges it. A sentinel, a new attempt, or silence after later signs of life came after its judgement."""
    if match.is_new or verdict.by_sentinel:
        return False
    beats = (memory for memory in (evidence.metadata, evidence.progress) if memory is not None)
    lived_on = since is None or any(memory.alive_at is not None and memory.alive_at > since for memory in beats)
    return not (verdict.status is Status.TIMED_OUT and lived_on)


def _without_new_evidence(before: Record, evidence: AttemptEvidence, verdict: Verdict) -> Verdict:
    """What another watcher's stricter limits decided stands until something happens."""
    if before.status is Status.TIMED_OUT and time_out_stands(before, evidence):
        return _as_recorded(before, Status.TIMED_OUT)
    if before.status is not Status.RUNNING:
        return verdict
    return replace(verdict, conditions={**standing_conditions(before, evidence), **verdict.conditions})


def _as_recorded(record: Record, status: Status) -> Verdict:
    return Verdict(
        status,
        record.reason,
        record.cause,
        record.action,
        record.conditions,
        record.explained,
        exceeded=record.exceeded,
    )


def _conclude(
    before: Record,
    match: AttemptMatch,
    evidence: AttemptEvidence,
    verdict: Verdict,
    policy: Policy,
    now: datetime,
) -> Decision:
    changed = before.status != verdict.status
    transition = None
    after = replace(
        before,
        status=verdict.status,
        reason=verdict.reason,
        cause=verdict.cause,
        action=verdict.action,
        explained=verdict.explained,
        exceeded=_exceeded(before, match, evidence, verdict),
        attempt=match.attempt,
        conditions=verdict.conditions,
        metadata=evidence.metadata,
        progress=evidence.progress,
        log=evidence.log,
        log_lines=evidence.log_lines,
        finding=_finding_to_keep(evidence.finding, verdict, before),
        sentinels=sentinel_tokens(match.seen) or (() if match.is_new else before.sentinels),
    )
    if changed or match.is_new:
        reason = f"Attempt {match.attempt.number} started" if match.is_new else verdict.reason
        transition = Transition(
            number=before.transitions + 1,
            at=now,
            before=before.status,
            after=verdict.status,
            reason=reason if verdict.status is Status.RUNNING else verdict.reason,
            attempt=match.attempt.number,
            cause=verdict.cause,
        )
        after = replace(
            after,
            since=now,
            happened_at=happened_at(evidence, verdict, now),
            transitions=transition.number,
            history=(*before.history, transition)[-HISTORY_LIMIT:],
        )
    phase = FlappingPhase.NONE
    if policy.alert_on & FLIPS:
        phase = phase_after(before, after.history, transition, now)
    after = replace(after, flapping_since=(before.flapping_since or now) if phase.flapping else None)
    cold = evidence.liveness_log is not None and evidence.seen.logs is not None and evidence.seen.logs.cold
    must_write = before.status is None or transition is not None or must_persist(before, after, policy, now, cold=cold)
    event = _status_event(before, match, verdict, changed=changed)
    events = _alerts_for(event, _new_conditions(before, match, verdict), verdict, phase, policy)
    effects = tuple(map(Notify, events))
    note = flapping_note(phase, before, after, now)
    decision = Decision(after, verdict, evidence.seen, effects, transition, must_write, note)
    return replace(decision, needs_explanation=_needs_explanation(before, match, decision))


def _exceeded(before: Record, match: AttemptMatch, evidence: AttemptEvidence, verdict: Verdict) -> ExceededLimit | None:
    """A run that stood still and then fell silent still has to show progress."""
    if verdict.status is not Status.TIMED_OUT or before.exceeded is None or match.is_new:
        return verdict.exceeded
    stands = before.status is Status.TIMED_OUT and time_out_stands(before, evidence)
    return before.exceeded if stands else verdict.exceeded


def _needs_explanation(before: Record, match: AttemptMatch, decision: Decision) -> bool:
    if decision.verdict.status not in UNWELL:
        newly = _new_conditions(before, match, decision.verdict)
        return Event.WARNING in decision.events and not newly.isdisjoint(logs.LOG_CONDITIONS)
    if decision.transition is not None:
        return True
    # An _error written later, or in two steps, may name a cause that nothing named before.
    fresh = set(decision.record.sentinels) - set(before.sentinels)
    return bool(fresh) and (before.cause is None or _says_nothing(before.cause))


def _says_nothing(error_type: str) -> bool:
    from lastbeat.signals.error_types import traits_of  # noqa: PLC0415 - only where there is a cause

    return traits_of(error_type).says_nothing


def _finding_to_keep(finding: Finding | None, verdict: Verdict, before: Record) -> Finding | None:
    """``finding``, which makes a run FAILED only while no better evidence says what became of it."""
    if verdict.by_log and finding is not None and not finding.alone:
        # Training seemed to go on and then fell silent: the failure stands.
        return before.finding
    return finding if finding is None or verdict.by_log else replace(finding, alone=False)


def _status_event(before: Record, match: AttemptMatch, verdict: Verdict, *, changed: bool) -> Event | None:
    """The event of a look that changed the status or the attempt."""
    if verdict.status is not Status.RUNNING:
        return Event(verdict.status.value) if changed or match.is_new else None
    if before.status is Status.TIMED_OUT and exceeded_limit(before) is LimitName.START:
        return Event.STARTED
    if before.status is Status.TIMED_OUT or (changed and _by_log(before) and not match.is_new):
        return Event.RECOVERED
    return Event.RESTARTED if match.is_new else None


def _new_conditions(before: Record, match: AttemptMatch, verdict: Verdict) -> set[str]:
    """The conditions that this look raised."""
    return set(verdict.conditions) - (set() if match.is_new else set(before.conditions))


def _alerts_for(
    event: Event | None, raised: set[str], verdict: Verdict, phase: FlappingPhase, policy: Policy
) -> tuple[Event, ...]:
    """The alerts of this look, as far as ALERT_ON wants them.

    1. The flip that makes the run flap: FLAPPING alone. While it flaps: no alerts of flips.
    2. When flapping ends: an alert with the status it settled in.
    3. Otherwise the event of the look itself.
    4. No such alert? Then one for newly raised conditions. Those that flip along are muted while it flaps, and told
       when that ends.
    """
    if phase is FlappingPhase.BEGINS:
        return (Event.FLAPPING,)
    if phase is FlappingPhase.CONTINUES:
        event = None
    elif phase is FlappingPhase.SETTLED and event is None:
        event = Event.RECOVERED if verdict.status is Status.RUNNING else Event.TIMED_OUT
    elif phase is FlappingPhase.INTERRUPTED and event is Event.RESTARTED and event not in policy.alert_on:
        # The last alert said that it flaps, perhaps that it was TIMED_OUT.
        event = Event.RECOVERED
    if event in policy.alert_on or (event is Event.STARTED and Event.RECOVERED in policy.alert_on):
        return (event,)
    # Any alert lists the conditions, so they need one of their own only if there is no other.
    if phase.flapping:
        raised = raised - MUTED
    elif phase is not FlappingPhase.NONE:
        raised = raised | (set(verdict.conditions) & MUTED)
    return (Event.WARNING,) if raised and Event.WARNING in policy.alert_on else ()


def must_persist(before: Record, after: Record, policy: Policy, now: datetime, *, cold: bool = False) -> bool:
    """Whether something changed that the next pass could not see for itself. A healthy run writes nothing.

    ``cold``: logs alone show that the run lives, and only the record tells the next pass which of their text this one
    has seen.

    1. Always write what decides later looks: conditions, the attempt, flapping, a new sentinel, what is known of the
       clocks, a heartbeat that went away or came back.
    2. How long something has stood still is known only from looks that were written down: a new step, a new line and
       new text are written four times per limit.
    """
    if set(before.conditions) != set(after.conditions) or before.attempt != after.attempt:
        return True
    if before.flapping_since != after.flapping_since:
        return True
    if set(after.sentinels) - set(before.sentinels):
        # A new one, or one written again: the next attempt must know it as spent.
        return True
    if _persistent_facts(before.metadata) != _persistent_facts(after.metadata):
        return True
    if _persistent_facts(before.progress) != _persistent_facts(after.progress) or before.finding != after.finding:
        return True
    if _is_gone(before.log) is not _is_gone(after.log):
        return True
    limits = [rule.every_s for rule in policy.absences] if before.log_lines != after.log_lines else []
    limit_s = policy.inactivity_s if policy.stall_s is None else policy.stall_s
    if limit_s is not None and _progress_marker(before, policy) != _progress_marker(after, policy):
        limits.append(limit_s)
    if cold and after.log is not None and (before.log is None or before.log.mark != after.log.mark):
        limits.append(policy.stale_s)
    written_s = (now - before.written_at).total_seconds() if before.written_at else math.inf
    return bool(limits) and written_s >= min(limits) / 4


def _progress_marker(record: Record, policy: Policy) -> tuple[object, ...]:
    """What changes with every sign that a run gets on."""
    steps = record.progress or record.log
    line_at = record.log.modified if record.log is not None and policy.stall_s is None else None
    return (steps.step if steps is not None else None), line_at


def _is_gone(memory: HeartbeatMemory | None) -> bool:
    return memory is not None and memory.missing_since is not None


def _persistent_facts(memory: HeartbeatMemory | None) -> tuple[object, ...] | None:
    if memory is None:
        return None
    # A last proof of life that is older than the file (a rewritten or a future one) cannot be seen from the file.
    remembered = memory.alive_at if memory.alive_at != memory.modified else None
    return memory.skew_s, memory.suspect, memory.missing_since is not None, remembered
