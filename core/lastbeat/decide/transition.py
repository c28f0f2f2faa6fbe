"""One step of the state machine: (record, observation, policy, now) → what to record, and what to tell."""

from dataclasses import dataclass, replace
from datetime import datetime

from lastbeat.decide import logs
from lastbeat.decide.attempt import Belonging, reopened, sentinel_tokens, skew_range, sort_out
from lastbeat.decide.flapping import FLIPS, MUTED, Turn, told, turn
from lastbeat.decide.freshness import remember
from lastbeat.decide.lasting import matters
from lastbeat.decide.logs import also_seen
from lastbeat.decide.recovery import exceeded_limit, standing_conditions, time_out_stands
from lastbeat.decide.verdict import AttemptEvidence, Verdict, judge, unseen
from lastbeat.model import status as names
from lastbeat.model.cause import Explanation
from lastbeat.model.effect import Effect, Notify
from lastbeat.model.observation import Heartbeat, NeverSeen, Seen
from lastbeat.model.policy import Policy
from lastbeat.model.record import ExceededLimit, Explained, Finding, HeartbeatMemory, LimitName, Record, Transition
from lastbeat.model.status import Event, Status

HISTORY_LIMIT = 50
UNWELL = frozenset({Status.FAILED, Status.TIMED_OUT})
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Decision:
    """``record`` is the next record, without alerts; ``must_write`` says whether anything in it has to last."""

    record: Record
    verdict: Verdict
    seen: Seen
    """What counted for the current attempt."""
    effects: tuple[Effect, ...] = ()
    """What follows: whom to tell, what to do."""
    transition: Transition | None = None
    must_write: bool = False
    told: str | None = None
    """What its alerts say of flapping, before the verdict's reason."""
    unexplained: bool = False
    """It is worth a closer reading of the logs to find out why."""
    unseen: str | None = None
    """Why nothing follows from this look: what may show life could not be looked at. Then nothing else here counts."""

    @property
    def events(self) -> tuple[Event, ...]:
        """What people are told of."""
        return tuple(effect.event for effect in self.effects if isinstance(effect, Notify))


def silenced(decision: Decision, why: str) -> Decision:
    """``decision`` with nothing to tell; ``why`` is recorded with its transition. Pure."""
    record, transition = decision.record, decision.transition
    if transition is not None:
        transition = replace(transition, silenced=why)
        record = replace(record, history=(*record.history[:-1], transition))
    if Event.FLAPPING in decision.events:
        # Nobody was told, so nothing may be kept from them on the ground that they were: the next flip says it again.
        record = replace(record, flapping_since=None)
    effects = tuple(effect for effect in decision.effects if not isinstance(effect, Notify))
    return replace(decision, record=record, transition=transition, effects=effects)


def decide(record: Record | None, run_id: str, observed: Seen | NeverSeen, policy: Policy, now: datetime) -> Decision:
    """Pure. ``now`` is the store's time. "Could not observe" never gets here: nothing follows from it."""
    before = record or Record(run_id=run_id, first_looked_at=now)
    seen = observed if isinstance(observed, Seen) else Seen()
    belonging = sort_out(record, seen, _known_skew(record, seen, policy, now))
    belonging = _reopen(record, belonging, policy, now)
    evidence = _evidence(before, belonging, policy, now)
    verdict = judge(evidence, policy, now)
    if (
        before.status is not None
        and before.status.is_foreign
        and _is_left_alone(before.since, belonging, evidence, verdict)
    ):
        verdict = _as_recorded(before, before.status)
    elif _holds(record, belonging, verdict):
        verdict = Verdict(before.status or verdict.status, before.reason, by_log=_by_log(before))
    elif verdict.status is Status.RUNNING and not belonging.is_new:
        verdict = _without_new_evidence(before, evidence, verdict)
    decision = _step(before, belonging, evidence, _as_told(before, belonging, verdict), policy, now)
    silent = verdict.status is Status.TIMED_OUT and before.status is not Status.TIMED_OUT
    return replace(decision, unseen=unseen(evidence)) if silent else decision


def explained(decision: Decision, explanation: Explanation) -> Decision:
    """``decision`` with the cause that a closer reading of the logs has found, if any. Pure."""
    cause, verdict = explanation.cause, decision.verdict
    if cause is None or (cause.error_type == UNKNOWN and verdict.cause is not None):
        return decision
    why = Explained(logs.bounded(cause), also_seen(explanation))
    verdict = replace(verdict, cause=cause.error_type, action=cause.hint or verdict.action, explained=why)
    record = replace(decision.record, cause=verdict.cause, action=verdict.action, explained=why)
    transition = decision.transition
    if transition is not None:
        transition = replace(transition, cause=verdict.cause)
        record = replace(record, history=(*record.history[:-1], transition))
    return replace(decision, record=record, verdict=verdict, transition=transition)


def _known_skew(record: Record | None, seen: Seen, policy: Policy, now: datetime) -> tuple[float, float] | None:
    known = record.metadata if record else None
    if seen.metadata is not None:
        known = remember(known, seen.metadata, policy.stale_s, now)
    if known is None or known.own_time is None or known.suspect:
        return None
    return skew_range(known.skew_s, known.lag_s)


def _reopen(record: Record | None, belonging: Belonging, policy: Policy, now: datetime) -> Belonging:
    """A finished run without attempts in its files, whose sentinel is gone and which beats again."""
    if record is None or belonging.is_new or record.status not in {Status.FAILED, Status.SUCCEEDED}:
        return belonging
    if _by_log(record):
        # What takes that back is a later step, and then it never ended.
        return belonging
    seen = belonging.seen
    if seen.error is not None or seen.complete is not None or record.since is None:
        return belonging
    beats = (
        remember(memory, heartbeat, policy.stale_s, now).alive_at
        for memory, heartbeat in ((record.metadata, seen.metadata), (record.progress, seen.progress))
        if heartbeat is not None
    )
    if any(alive_at is not None and alive_at > record.since for alive_at in beats):
        spent = () if record.finding is None else (record.finding.line,)
        return replace(belonging, attempt=replace(reopened(belonging.attempt), spent=spent), is_new=True)
    return belonging


def _by_log(record: Record) -> bool:
    """Whether it is FAILED on the strength of a log alone."""
    return record.status is Status.FAILED and record.finding is not None and record.finding.alone


def _as_told(before: Record, belonging: Belonging, verdict: Verdict) -> Verdict:
    """Why a run failed or fell silent is found out once, and stays what people were told."""
    if belonging.is_new or before.status is not verdict.status or verdict.status not in UNWELL:
        return verdict
    if verdict.by_log:
        verdict = replace(verdict, reason=before.reason)
    if before.cause is None:
        return verdict
    return replace(verdict, cause=before.cause, action=before.action, explained=before.explained)


def _evidence(before: Record, belonging: Belonging, policy: Policy, now: datetime) -> AttemptEvidence:
    seen = belonging.seen
    metadata, progress, log = before.metadata, before.progress, before.log
    finding, lines, kept = before.finding, before.log_lines, before.conditions
    if belonging.is_new:
        # Which of the text is of which attempt nobody knows at this look.
        seen, log, finding, lines, kept = replace(seen, logs=None), None, None, {}, {}
        # How far the last attempt got says nothing about this one; what is known of the clock may.
        progress = None
        metadata = replace(metadata, missing_since=None) if metadata is not None and seen.metadata else None
    # Files that go away after the run was given up were tidied up; that is no sign of life.
    out = before.status is Status.TIMED_OUT
    if not belonging.leftover:
        metadata = _updated(metadata, seen.metadata, policy, now, out=out)
    # The same instance writes both, so what is known of its clock from one holds for the other.
    progress = _updated(progress, seen.progress, policy, now, out=out, offset_s=_known_offset_s(metadata))
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
        finding=logs.weigh(finding, seen.logs, (progress, log), belonging.attempt.spent, now),
        log_lines=logs.last_lines(lines, seen.logs, policy.absences),
        started=None if unread else _waited_since(before, belonging, now),
        kept=logs.kept(kept, seen.logs, policy, steps_elsewhere=progress is not None) if unread else {},
    )


def _waited_since(before: Record, belonging: Belonging, now: datetime) -> datetime:
    """Since when this attempt's lines are waited for: not from before it was looked at, when they may have come."""
    if belonging.is_new:
        return now
    number = belonging.attempt.number
    entries = (transition.at for transition in before.history if transition.attempt == number)
    return next(entries, before.first_looked_at or now)


def _updated(
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


def _holds(record: Record | None, belonging: Belonging, verdict: Verdict) -> bool:
    """Whether a run that finished stays finished although its sentinel is not (or no longer) there to say so."""
    if record is None or belonging.is_new or verdict.by_sentinel:
        return False
    if _by_log(record):
        # Only life takes it back: that it is silent fits what the log said.
        return verdict.status is Status.TIMED_OUT
    return record.status in {Status.FAILED, Status.SUCCEEDED}


def _is_left_alone(since: datetime | None, belonging: Belonging, evidence: AttemptEvidence, verdict: Verdict) -> bool:
    """Whether a status that a newer lastbeat gave at ``since`` still stands. While the run lives it is the newer one's
    to judge. A sentinel, a new attempt, or silence after later life is more than it could know."""
    if belonging.is_new or verdict.by_sentinel:
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


def _step(
    before: Record,
    belonging: Belonging,
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
        exceeded=_exceeded(before, belonging, evidence, verdict),
        attempt=belonging.attempt,
        conditions=verdict.conditions,
        metadata=evidence.metadata,
        progress=evidence.progress,
        log=evidence.log,
        log_lines=evidence.log_lines,
        finding=_settled(evidence.finding, verdict, before),
        sentinels=sentinel_tokens(belonging.seen) or (() if belonging.is_new else before.sentinels),
    )
    if changed or belonging.is_new:
        reason = f"Attempt {belonging.attempt.number} started" if belonging.is_new else verdict.reason
        transition = Transition(
            number=before.transitions + 1,
            at=now,
            before=before.status,
            after=verdict.status,
            reason=reason if verdict.status is Status.RUNNING else verdict.reason,
            attempt=belonging.attempt.number,
            cause=verdict.cause,
        )
        after = replace(
            after,
            since=now,
            transitions=transition.number,
            history=(*before.history, transition)[-HISTORY_LIMIT:],
        )
    phase = turn(before, after.history, transition, now) if policy.alert_on & FLIPS else Turn.NONE
    after = replace(after, flapping_since=(before.flapping_since or now) if phase.flapping else None)
    cold = evidence.life is not None and evidence.seen.logs is not None and evidence.seen.logs.cold
    must_write = before.status is None or transition is not None or matters(before, after, policy, now, cold=cold)
    news = _news(before, belonging, verdict, changed=changed)
    events = _events(news, _warnings(before, belonging, verdict), verdict, phase, policy)
    effects = tuple(map(Notify, events))
    decision = Decision(after, verdict, evidence.seen, effects, transition, must_write, told(phase, before, after, now))
    return replace(decision, unexplained=_unexplained(before, belonging, decision))


def _exceeded(
    before: Record, belonging: Belonging, evidence: AttemptEvidence, verdict: Verdict
) -> ExceededLimit | None:
    """A run that stood still and then fell silent still has to show progress."""
    if verdict.status is not Status.TIMED_OUT or before.exceeded is None or belonging.is_new:
        return verdict.exceeded
    stands = before.status is Status.TIMED_OUT and time_out_stands(before, evidence)
    return before.exceeded if stands else verdict.exceeded


def _unexplained(before: Record, belonging: Belonging, decision: Decision) -> bool:
    if decision.verdict.status not in UNWELL:
        newly = _warnings(before, belonging, decision.verdict)
        return Event.WARNING in decision.events and not newly.isdisjoint(logs.LOG_CONDITIONS)
    if decision.transition is not None:
        return True
    # An _error that was written later, or in two steps, may say what nothing said before.
    fresh = set(decision.record.sentinels) - set(before.sentinels)
    return bool(fresh) and before.cause in {None, UNKNOWN}


def _settled(finding: Finding | None, verdict: Verdict, before: Record) -> Finding | None:
    """``finding``, which makes a run FAILED only where nothing better says what became of it."""
    if verdict.by_log and finding is not None and not finding.alone:
        # Silence after it, though training seemed to go on: it stands.
        return before.finding
    return finding if finding is None or verdict.by_log else replace(finding, alone=False)


def _news(before: Record, belonging: Belonging, verdict: Verdict, *, changed: bool) -> Event | None:
    """What a look is about that changed status or attempt."""
    if verdict.status is not Status.RUNNING:
        return Event(verdict.status.value) if changed or belonging.is_new else None
    if before.status is Status.TIMED_OUT and exceeded_limit(before) is LimitName.START:
        return Event.STARTED
    if before.status is Status.TIMED_OUT or (changed and _by_log(before) and not belonging.is_new):
        return Event.RECOVERED
    return Event.RESTARTED if belonging.is_new else None


def _warnings(before: Record, belonging: Belonging, verdict: Verdict) -> set[str]:
    """The conditions that were newly raised."""
    return set(verdict.conditions) - (set() if belonging.is_new else set(before.conditions))


def _events(news: Event | None, raised: set[str], verdict: Verdict, phase: Turn, policy: Policy) -> tuple[Event, ...]:
    """What people are told, as far as they want to be told."""
    if phase is Turn.BEGINS:
        return (Event.FLAPPING,)
    if phase is Turn.GOES_ON:
        news = None
    elif phase is Turn.STEADY and news is None:
        news = Event.RECOVERED if verdict.status is Status.RUNNING else Event.TIMED_OUT
    elif phase is Turn.CUT and news is Event.RESTARTED and news not in policy.alert_on:
        # The last that people know is that it flaps, perhaps that it was TIMED_OUT.
        news = Event.RECOVERED
    if news in policy.alert_on or (news is Event.STARTED and Event.RECOVERED in policy.alert_on):
        return (news,)
    # An alert that goes out anyway lists the conditions; otherwise they are worth one of their own.
    if phase.flapping:
        raised = raised - MUTED
    elif phase is not Turn.NONE:
        raised = raised | (set(verdict.conditions) & MUTED)
    return (Event.WARNING,) if raised and Event.WARNING in policy.alert_on else ()
