"""One step of the state machine: (record, observation, policy, now) → what to record, and what follows from it."""

import math
from dataclasses import replace
from datetime import datetime

from lastbeat.explain.signals.error_types import traits_of
from lastbeat.model import status as names
from lastbeat.model.action import Effect, Notify
from lastbeat.model.cause import Cause, Explanation
from lastbeat.model.data import dataclass
from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.job import JobState
from lastbeat.model.learned_limits import IDLE_FLOOR_S
from lastbeat.model.observation import NeverSeen, Seen
from lastbeat.model.policy import Policy
from lastbeat.model.raised_alert import RaisedAlert
from lastbeat.model.record import (
    ExceededLimit,
    Finding,
    HeartbeatMemory,
    LimitName,
    Record,
    StepWaits,
    Transition,
)
from lastbeat.model.restart import RESTART_KIND
from lastbeat.model.similar import SimilarFailure
from lastbeat.model.state import RecordedCause, State
from lastbeat.model.status import UNWELL, Event, Status
from lastbeat.model.text import fit, one_line
from lastbeat.watch.decide import jobs, logs, numbers, step_waits
from lastbeat.watch.decide.attempt import AttemptMatch, match_attempt, reopened, sentinel_tokens, skew_range
from lastbeat.watch.decide.conditions.table import EXPLAINED, MUTED_BY_FLAPPING, OUTLASTING_AN_ATTEMPT
from lastbeat.watch.decide.evidence import AttemptEvidence
from lastbeat.watch.decide.flapping import FLIPS, FlappingPhase, flapping_note, phase_after
from lastbeat.watch.decide.freshness import remember
from lastbeat.watch.decide.in_place import restart_news
from lastbeat.watch.decide.logs import also_seen
from lastbeat.watch.decide.raised import raised_known, raised_news
from lastbeat.watch.decide.recovery import exceeded_limit, time_out_stands, undecidable
from lastbeat.watch.decide.timesheet import noted
from lastbeat.watch.decide.verdict import Verdict, happened_at, judge, unobservable, with_headline

HISTORY_LIMIT = 50
_NODE_LIMIT = 100
_NUMBERS_S = 86400.0
"""A quarter of this many seconds after the last write of the record, new usual numbers are written."""


@dataclass(frozen=True, slots=True)
class Decision:
    """``record`` is the next record, without its alerts. ``must_write``: it has a change that has to be kept."""

    record: Record
    verdict: Verdict
    seen: Seen
    """The part of the observation that belongs to the current attempt."""
    effects: tuple[Effect, ...] = ()
    """Alerts and actions to carry out."""
    transition: Transition | None = None
    must_write: bool = False
    flapping_note: str | None = None
    """What its alerts say about flapping, before the verdict's reason."""
    needs_explanation: bool = False
    """The cause needs a deep read of the logs."""
    raised: tuple[RaisedAlert, ...] = ()
    """Alerts raised by training that were not reported yet."""
    notes: tuple[str, ...] = ()
    """What the run's restart policy says about this look."""
    restart_note: str | None = None
    """What its alerts say about a restart: ``restarting, attempt 2/3, from step 1500``."""
    left_until: datetime | None = None
    """Until then another watcher may record it."""
    unobservable: str | None = None
    """Why nothing follows from this look: evidence that could show life was unavailable. If set, the other fields do
    not apply."""

    @property
    def events(self) -> tuple[Event, ...]:
        """The alerts among its effects."""
        return tuple(effect.event for effect in self.effects if isinstance(effect, Notify))


def decide(record: Record | None, run_id: str, observed: Seen | NeverSeen, policy: Policy, now: datetime) -> Decision:
    """The decision about one observation. Pure. ``now`` is the store's time. ``Unreadable`` never gets here.

    1. Match the observation to an attempt; drop evidence of earlier ones. A finished run may have begun again.
    2. Take the limits that the run itself states, which outrank those of ``policy``. Combine the observation with the
       record: heartbeats, clock offsets, log findings.
    3. Judge the evidence: status, reason, conditions.
    4. Keep a status that a newer version gave, and that of a finished run whose sentinel is gone.
    5. Keep the cause that was already reported.
    6. Derive the transition, the events and the next record.
    7. If a run seems silent only because evidence, or the fleet's limits, could not be read, it is unobservable.
    """
    before = record or Record(run_id=run_id, first_looked_at=now)
    seen = observed if isinstance(observed, Seen) else Seen()
    match = match_attempt(record, seen, _known_skew(record, seen, policy, now))
    match = _reopen(record, match, policy, now)
    policy = policy.of_run(*_own_limits(before, match))
    evidence = _evidence(before, match, policy, now)
    verdict = judge(evidence, policy, now)
    if (
        before.status is not None
        and before.status.is_foreign
        and _is_left_alone(before.since, match, evidence, verdict)
    ):
        verdict = _as_recorded(before, verdict)
    elif (
        _was_told_otherwise(record, match, verdict)
        or _stays_finished(record, match, verdict)
        or _is_being_ended(before, match, verdict)
    ):
        verdict = replace(_as_recorded(before, verdict), by_log=_by_log(before))
    elif verdict.status is Status.RUNNING and not match.is_new and _stays_timed_out(before, evidence):
        verdict = _as_recorded(before, verdict)
    decision = _conclude(before, match, evidence, _keep_known_cause(before, match, verdict), policy, now)
    silent = verdict.status is Status.TIMED_OUT and before.status is not Status.TIMED_OUT
    hidden = unobservable(evidence) or undecidable(verdict.exceeded, policy)
    return replace(decision, unobservable=hidden) if silent else decision


def with_explanation(decision: Decision, explanation: Explanation) -> Decision:
    """``decision`` with the cause that a deep read of the logs found, if any. Pure."""
    explanation = logs.with_idle(explanation, decision.record, decision.seen.logs)
    cause, verdict = explanation.cause, decision.verdict
    if cause is None or (verdict.cause is not None and _says_nothing(cause.error_type)):
        return decision
    verdict = with_headline(replace(verdict, state=explained(verdict.state, explanation, cause)), decision.seen)
    record = replace(decision.record, state=verdict.state)
    transition = decision.transition
    if transition is not None:
        said = transition.reason if verdict.reason == decision.verdict.reason else verdict.reason
        transition = _because(replace(transition, reason=said, cause=verdict.cause), verdict.explained)
        record = replace(record, history=(*record.history[:-1], transition))
    return replace(decision, record=record, verdict=verdict, transition=transition)


def explained(state: State, explanation: Explanation, cause: Cause) -> State:
    """``state`` with ``cause``, that of ``explanation``."""
    why = replace(
        logs.recorded(cause, explanation.second),
        also_seen=also_seen(explanation),
        missing=logs.bounded_missing(explanation.missing),
        stuck=logs.bounded_stuck(explanation.stuck),
    )
    action = logs.advice(explanation) or state.action
    return replace(state, cause=cause.error_type, action=action, explained=why)


def _because(transition: Transition, why: RecordedCause | None) -> Transition:
    """``transition`` with the evidence of its cause."""
    if why is None or why.cause.error_type != transition.cause:
        return transition
    cause = why.cause
    return replace(
        transition,
        confidence=round(cause.confidence, 3),
        subsystem=cause.subsystem,
        signal=cause.signal or None,
        fingerprint=cause.fingerprint or None,
        node=cause.evidence.host or transition.node,
    )


def with_similar(decision: Decision, similar: SimilarFailure) -> Decision:
    """``decision`` with the earlier failure of the same cause. Pure."""
    why = decision.verdict.explained
    if why is None:
        return decision
    state = replace(decision.verdict.state, explained=replace(why, similar=similar))
    verdict = replace(decision.verdict, state=state)
    return replace(decision, verdict=verdict, record=replace(decision.record, state=state))


def with_silence(decision: Decision, why: str) -> Decision:
    """``decision`` without its alerts; ``why`` is recorded with its transition. Pure."""
    record, transition = decision.record, decision.transition
    if transition is not None:
        transition = replace(transition, silenced=why)
        record = replace(record, history=(*record.history[:-1], transition))
    if Event.FLAPPING in decision.events:
        # No FLAPPING alert was sent, so further flips must not be muted: the next one raises it again.
        record = replace(record, flapping_since=None)
    effects = tuple(effect for effect in decision.effects if not isinstance(effect, Notify))
    return replace(decision, record=record, transition=transition, effects=effects)


def _node(seen: Seen) -> str | None:
    """The node in the heartbeat: the host name that cluster tools use, else the instance; or None."""
    if seen.metadata is None:
        return None
    name = seen.metadata.host or seen.metadata.instance_id
    return None if name is None else fit(one_line(name), _NODE_LIMIT)


def _known_skew(record: Record | None, seen: Seen, policy: Policy, now: datetime) -> tuple[float, float] | None:
    known = record.metadata if record else None
    if seen.metadata is not None:
        known = remember(known, seen.metadata, policy.stale_s, now)
    if known is None or known.own_time is None or known.suspect:
        return None
    return skew_range(known.skew_s, known.lag_s)


def _reopen(record: Record | None, match: AttemptMatch, policy: Policy, now: datetime) -> AttemptMatch:
    """A new attempt, if a finished run has lost its sentinel and beats again, and its files name no attempt."""
    if record is None or match.is_new or (record.status is None or not record.status.ended):
        return match
    if _by_log(record):
        # Only a later step withdraws that, and then the run never ended.
        return match
    seen = match.seen
    if seen.end is not None or record.since is None:
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
    """Whether the run is FAILED or CANCELLED because of a log alone."""
    return record.status in {Status.FAILED, Status.CANCELLED} and record.finding is not None and record.finding.alone


def _keep_known_cause(before: Record, match: AttemptMatch, verdict: Verdict) -> Verdict:
    """``verdict`` with the known cause: that of a failure or a silence is found once, and stays as it was reported."""
    if match.is_new or before.status is not verdict.status or verdict.status not in UNWELL:
        return verdict
    state = replace(verdict.state, reason=before.reason) if verdict.by_log else verdict.state
    if before.cause is None:
        return replace(verdict, state=state)
    state = replace(state, cause=before.cause, action=before.action, explained=before.explained)
    return with_headline(replace(verdict, state=state), match.seen)


def _evidence(before: Record, match: AttemptMatch, policy: Policy, now: datetime) -> AttemptEvidence:
    seen = match.seen
    metadata, progress, log = before.metadata, before.progress, before.log
    earlier_s = before.earlier_step_limit_s
    finding, lines, warned = before.finding, before.log_lines, before.warned
    if match.is_new:
        # At this look it is unknown which log text belongs to which attempt.
        seen, log, finding, lines = replace(seen, logs=None), None, None, {}
        warned = logs.no_news(warned, now)
        # The last attempt's progress does not apply to this one. What is known of the clock may.
        progress = None
        metadata = replace(metadata, missing_since=None) if metadata is not None and seen.metadata else None
    # Files that disappear after a TIMED_OUT were cleaned up: no sign of life.
    out = before.status is Status.TIMED_OUT
    if not match.leftover:
        metadata = _remember_heartbeat(metadata, seen.metadata, policy, now, out=out)
    if metadata is not None:
        stale_s, stall_s = _own_limits(before, match)
        owner, team = _said_owner(before, match)
        metadata = replace(metadata, stale_s=stale_s, stall_s=stall_s, owner=owner, team=team)
    # One instance writes both, so its clock offset learned from one holds for the other.
    progress = _remember_heartbeat(progress, seen.progress, policy, now, out=out, offset_s=_known_offset_s(metadata))
    if progress is not None:
        progress = _within_attempt(progress, match)
        waits = None if match.is_new else _waits(before)
        shown = seen.progress is not None and seen.progress.step is not None
        if shown and not (before.status is not None and before.status.ended):
            if policy.learns_steps:
                waits = step_waits.noted(waits, progress, now)
            elif before.supervision is not None:
                waits = step_waits.noted_for_end(waits, progress, now)
        progress = replace(progress, waits=waits)
    unread = seen.logs is None or seen.logs.unread
    warned = logs.noted(warned, seen.explanation.warned, now)
    # If training writes both heartbeats, not every look asks for logs.
    stands_in = metadata is None or progress is None
    gone_since = None
    if stands_in and log is not None:
        gone_since = log.modified if out else now
    log = logs.remember(log, seen, now, late=names.PROGRESS_STALE in before.conditions, gone_since=gone_since)
    if log is not None and before.supervision is not None:
        known = None if match.is_new or before.log is None else before.log.waits
        log = replace(log, waits=step_waits.noted_for_end(known, log, now))
    return AttemptEvidence(
        seen=seen,
        before=before,
        is_new=match.is_new,
        metadata=metadata,
        progress=progress,
        earlier_step_limit_s=step_waits.handed_on_s(_waits(before), earlier_s) if match.is_new else earlier_s,
        first_looked_at=before.first_looked_at or now,
        log=log,
        finding=logs.weigh(finding, seen.logs, (progress, log), match.attempt.spent, now),
        log_lines=logs.last_lines(lines, seen.logs, policy.absences),
        warned=warned,
        started=None if unread else _waited_since(before, match, now),
        job=before.job if seen.job is None else seen.job.memory,
        starting=jobs.starting(before.actions, before.job, now),
        never_started=jobs.never_started(before.actions, before.job),
        attempt=match.attempt,
        numbers=numbers.judged(before, match.attempt, seen, is_new=match.is_new),
    )


def _within_attempt(progress: HeartbeatMemory, match: AttemptMatch) -> HeartbeatMemory:
    """``progress`` with a step that is no older than the attempt: points of an earlier one may be carried along."""
    began, step_at, alive_at = match.attempt.began_at, progress.step_at, progress.alive_at
    if began is None or step_at is None or alive_at is None or step_at >= began:
        return progress
    return replace(progress, step_at=max(step_at, min(began, alive_at)))


def _own_limits(before: Record, match: AttemptMatch) -> tuple[float | None, float | None]:
    """The stale and stall limits that the run itself states, or last stated if its metadata.json is unreadable now."""
    stated = match.seen.metadata
    if stated is not None and stated.fault is None:
        return stated.stale_s, stated.stall_s
    known = None if match.is_new else before.metadata
    return (None, None) if known is None else (known.stale_s, known.stall_s)


def _said_owner(before: Record, match: AttemptMatch) -> tuple[str | None, str | None]:
    """The run's owner and team, or those last stated if its metadata.json is unreadable now."""
    said = match.seen.metadata
    if said is not None and said.fault is None:
        return said.owner, said.team
    return before.owner, before.team


def _waited_since(before: Record, match: AttemptMatch, now: datetime) -> datetime:
    """When waiting for this attempt's lines began: not before the first look at it, for earlier lines may have been
    printed unseen."""
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
    """Whether a finished run stays finished although no sentinel says so now."""
    if record is None or match.is_new or verdict.by_sentinel:
        return False
    if _by_log(record):
        # Only a sign of life withdraws it. Silence fits what the log said.
        return verdict.status is Status.TIMED_OUT
    return record.status is not None and record.status.ended


def _is_being_ended(before: Record, match: AttemptMatch, verdict: Verdict) -> bool:
    """Whether the supervisor is ending this job, for the next one or for good: then its end is no news."""
    ruling, sight = before.ruling, match.seen.job
    if ruling is None or sight is None or before.status is None or match.is_new:
        return False
    known = ruling.number == sight.memory.number
    if not ruling.restart:
        ending = jobs.ending_name(sight.memory)
        known = known and any(each.name == ending and each.claims > 0 for each in before.actions)
    if verdict.status in {Status.SUCCEEDED, Status.RUNNING, Status.CANCELLED} or not known:
        # An end that a person causes meanwhile is news.
        return False
    if ruling.on and before.status is Status.RUNNING:
        # It was well, and is restarted for a signal. A restart that was refused is news.
        return any(each.kind == RESTART_KIND and not each.settled for each in before.actions)
    return before.status.finished and verdict.by_job


def _last_step(evidence: AttemptEvidence) -> int | None:
    """The last known step of this attempt: as this look shows it, else as the record has it; or None."""
    shown = evidence.seen.knows_step
    memories = (evidence.progress, evidence.metadata, evidence.log)
    steps = (shown.step if shown is not None else None, *(each.step for each in memories if each is not None))
    return next((step for step in steps if step is not None), None)


def _was_told_otherwise(record: Record | None, match: AttemptMatch, verdict: Verdict) -> bool:
    """Whether the same ``_error`` was recorded as FAILED and now reads as CANCELLED, or the reverse. The request for
    the end may have been unreadable then, or may be gone now."""
    return (
        record is not None
        and not match.is_new
        and {record.status, verdict.status} == {Status.FAILED, Status.CANCELLED}
        and verdict.by_sentinel
        and set(sentinel_tokens(match.seen)) <= set(record.sentinels)
    )


def _is_left_alone(since: datetime | None, match: AttemptMatch, evidence: AttemptEvidence, verdict: Verdict) -> bool:
    """Whether a status that a newer lastbeat gave at ``since`` still stands. While the run lives, the newer version
    judges it. A sentinel, a new attempt, or silence after later signs of life overrides it."""
    if match.is_new or verdict.by_sentinel:
        return False
    beats = (memory for memory in (evidence.metadata, evidence.progress) if memory is not None)
    lived_on = since is None or any(memory.alive_at is not None and memory.alive_at > since for memory in beats)
    return not (verdict.status is Status.TIMED_OUT and lived_on)


def _stays_timed_out(before: Record, evidence: AttemptEvidence) -> bool:
    """Whether the TIMED_OUT that another watcher's stricter limits decided stands: nothing has changed since."""
    if before.status is not Status.TIMED_OUT or not time_out_stands(before, evidence):
        return False
    sight = evidence.seen.job
    lives = sight is not None and sight.report.state in {JobState.PENDING, JobState.RUNNING}
    # The watcher that found that it never began had no launcher to ask.
    return not (lives and exceeded_limit(before) is LimitName.START)


def _as_recorded(record: Record, verdict: Verdict) -> Verdict:
    """What ``record`` says in place of ``verdict``."""
    return Verdict(record.state or verdict.state, exceeded=record.exceeded, stopped_by=record.stopped_by)


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
    resumed = None
    if verdict.status is Status.RUNNING and not changed:
        resumed = restart_news(before, match.attempt.number, match.seen, _last_step(evidence), now)
    if resumed is not None:
        verdict = replace(verdict, state=replace(verdict.state, reason=resumed))
    after = replace(
        before,
        in_place_told=match.attempt.number if resumed is not None else before.in_place_told,
        state=verdict.state,
        acknowledgement=before.acknowledgement and before.acknowledgement.without_ended(verdict.conditions),
        stopped_by=verdict.stopped_by,
        exceeded=_exceeded(before, match, evidence, verdict),
        attempt=match.attempt,
        metadata=evidence.metadata,
        progress=evidence.progress,
        earlier_step_limit_s=evidence.earlier_step_limit_s,
        numbers=evidence.numbers.usual,
        earlier_numbers=evidence.numbers.earlier,
        log=evidence.log,
        log_lines=evidence.log_lines,
        warned=evidence.warned,
        finding=_finding_to_keep(evidence.finding, verdict, before),
        raised=raised_known(before, match.seen.raised),
        sentinels=sentinel_tokens(match.seen) or (() if match.is_new else before.sentinels),
        job=evidence.job,
        old_outputs=jobs.old_outputs(before, match.seen.job),
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
            step=_last_step(evidence),
            node=_node(match.seen) if verdict.status in UNWELL else None,
        )
        transition = _because(transition, verdict.explained)
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
    after = replace(
        after,
        timesheet=noted(before, after, match.seen, now, is_new=match.is_new),
        flapping_since=(before.flapping_since or now) if phase.flapping else None,
    )
    cold = evidence.liveness_log is not None and evidence.seen.logs is not None and evidence.seen.logs.cold
    must_write = before.status is None or transition is not None or must_persist(before, after, policy, now, cold=cold)
    event = Event.RESTARTED if resumed is not None else _status_event(before, match, verdict, changed=changed)
    raised = _new_conditions(before, match, verdict)
    in_place = resumed is not None and not phase.flapping
    events = _alerts_for(event, raised, verdict, phase, policy, in_place=in_place)
    news = raised_news(before, match.seen.raised, now)
    if news and Event.WARNING in policy.alert_on:
        events = (Event.ALERT, *events)
    effects = tuple(map(Notify, events))
    note = flapping_note(phase, before, after, now)
    decision = Decision(after, verdict, evidence.seen, effects, transition, must_write, note, raised=news)
    return replace(decision, needs_explanation=_needs_explanation(before, match, decision))


def _exceeded(before: Record, match: AttemptMatch, evidence: AttemptEvidence, verdict: Verdict) -> ExceededLimit | None:
    """The exceeded limit to record. A run that stalled and then fell silent still has to show progress."""
    if verdict.status is not Status.TIMED_OUT or before.exceeded is None or match.is_new:
        return verdict.exceeded
    stands = before.status is Status.TIMED_OUT and time_out_stands(before, evidence)
    return before.exceeded if stands else verdict.exceeded


def _needs_explanation(before: Record, match: AttemptMatch, decision: Decision) -> bool:
    if decision.verdict.status not in UNWELL:
        newly = _new_conditions(before, match, decision.verdict)
        return Event.WARNING in decision.events and not newly.isdisjoint(EXPLAINED)
    if decision.transition is not None:
        return True
    # An _error written later, or in two steps, may give the first cause.
    fresh = set(decision.record.sentinels) - set(before.sentinels)
    return bool(fresh) and (before.cause is None or _says_nothing(before.cause))


def _says_nothing(error_type: str) -> bool:

    return traits_of(error_type).says_nothing


def _finding_to_keep(finding: Finding | None, verdict: Verdict, before: Record) -> Finding | None:
    """``finding``, which makes a run FAILED only while no better evidence shows its status."""
    if verdict.by_log and finding is not None and not finding.alone:
        # Training seemed to go on and then fell silent: the failure stands.
        return before.finding
    return finding if finding is None or verdict.by_log else replace(finding, alone=False)


def _status_event(before: Record, match: AttemptMatch, verdict: Verdict, *, changed: bool) -> Event | None:
    """The event of a look that changed the status or the attempt, or None."""
    if verdict.status is Status.NO_HEARTBEAT:
        return None
    if verdict.status is not Status.RUNNING:
        return Event(verdict.status.value) if changed or match.is_new else None
    if before.status is Status.TIMED_OUT and exceeded_limit(before) is LimitName.START:
        return Event.STARTED
    if before.status is Status.TIMED_OUT or (changed and _by_log(before) and not match.is_new):
        return Event.RECOVERED
    if not changed and _was_started_in_place(match):
        # It is reported when it goes on.
        return None
    return Event.RESTARTED if match.is_new else None


def _was_started_in_place(match: AttemptMatch) -> bool:
    beat = match.seen.metadata
    return beat is not None and beat.in_place is not None and beat.in_place.restarts > 0


def _new_conditions(before: Record, match: AttemptMatch, verdict: Verdict) -> set[str]:
    """The conditions that this look raised. After a success no others are raised."""
    if match.is_new:
        # The next attempt runs on the same node.
        stands = OUTLASTING_AN_ATTEMPT & set(before.conditions) if before.status is Status.RUNNING else set()
        return set(verdict.conditions) - stands
    if before.status is verdict.status is Status.SUCCEEDED:
        return set()
    return set(verdict.conditions) - set(before.conditions)


def _alerts_for(
    event: Event | None, raised: set[str], verdict: Verdict, phase: FlappingPhase, policy: Policy, *, in_place: bool
) -> tuple[Event, ...]:
    """The alerts of this look, limited to ALERT_ON.

    1. The flip that makes the run flap: FLAPPING alone. While it flaps: no alerts of flips.
    2. When flapping ends: an alert with the final status.
    3. Otherwise the event of the look itself.
    4. Without such an alert: one for newly raised conditions. Those that come with flips are muted while the run flaps,
       and reported when that ends.
    """
    if phase is FlappingPhase.BEGINS:
        return (Event.FLAPPING,)
    if phase is FlappingPhase.CONTINUES:
        event = None
    elif phase is FlappingPhase.SETTLED and event is None:
        event = Event.RECOVERED if verdict.status is Status.RUNNING else Event.TIMED_OUT
    elif phase is FlappingPhase.INTERRUPTED and event is Event.RESTARTED and event not in policy.alert_on:
        # The last alert said that the run flaps, or that it was TIMED_OUT.
        event = Event.RECOVERED
    if event in policy.alert_on:
        return (event,)
    if Event.RECOVERED in policy.alert_on and (event is Event.STARTED or in_place):
        return (Event.STARTED if event is Event.STARTED else Event.RESTARTED,)
    # Any alert lists the conditions, so they need one of their own only if there is no other alert.
    if phase.flapping:
        raised = raised - MUTED_BY_FLAPPING
    elif phase is not FlappingPhase.NONE:
        raised = raised | (set(verdict.conditions) & MUTED_BY_FLAPPING)
    return (Event.WARNING,) if raised and Event.WARNING in policy.alert_on else ()


def must_persist(before: Record, after: Record, policy: Policy, now: datetime, *, cold: bool = False) -> bool:
    """Whether something changed that the next pass could not see for itself. A healthy run causes no writes.

    ``cold``: only logs show that the run is alive, and only the record tells the next pass which of their text this one
    has seen.

    1. Always write what decides later looks: conditions, the attempt, flapping, a new sentinel, known clock offsets, a
       heartbeat that disappeared or came back.
    2. The length of a stall is known only from recorded looks: a new step, a new line and new text are written four
       times per limit.
    3. The numbers that are usual for an attempt are written once they are known, and then each quarter of a day.
    """
    if set(before.conditions) != set(after.conditions) or before.attempt != after.attempt:
        return True
    if before.in_place_told != after.in_place_told or before.job != after.job:
        return True
    if before.flapping_since != after.flapping_since or before.raised != after.raised:
        return True
    if after.status is Status.TIMED_OUT and exceeded_limit(before) is not exceeded_limit(after):
        # It beats again without progress: from now on only progress ends that.
        return True
    if set(after.sentinels) - set(before.sentinels):
        # A sentinel is new or was rewritten: the next attempt must know it as spent.
        return True
    if _persistent_facts(before.metadata) != _persistent_facts(after.metadata):
        return True
    if _persistent_facts(before.progress) != _persistent_facts(after.progress) or before.finding != after.finding:
        return True
    if _is_gone(before.log) is not _is_gone(after.log):
        return True
    limits = [rule.every_s for rule in policy.absences] if before.log_lines != after.log_lines else []
    limits += _numbers_limit_s(before, after)
    if before.warned != after.warned:
        limits.append(logs.WARNED_S)
    if (policy.learns_steps or after.supervision is not None) and _has_news_of_waits(before, after):
        return True
    limit_s = policy.inactivity_s if policy.stall_s is None else policy.stall_s
    limit_s = IDLE_FLOOR_S if policy.learns_steps else limit_s
    if limit_s is not None and _progress_marker(before, policy) != _progress_marker(after, policy):
        limits.append(limit_s)
    if cold and after.log is not None and (before.log is None or before.log.mark != after.log.mark):
        limits.append(policy.stale_s)
    written_s = (now - before.written_at).total_seconds() if before.written_at else math.inf
    return bool(limits) and written_s >= min(limits) / 4


def _numbers_limit_s(before: Record, after: Record) -> list[float]:
    """How often new usual numbers are written: the first ones at once."""
    if before.numbers == after.numbers:
        return []
    return [_NUMBERS_S if before.numbers is not None else 0.0]


def _progress_marker(record: Record, policy: Policy) -> tuple[object, ...]:
    """A value that changes whenever the run makes progress."""
    steps = record.progress or record.log
    line_at = record.log.modified if record.log is not None and policy.stall_s is None else None
    return (steps.step if steps is not None else None), line_at


def _waits(record: Record) -> StepWaits | None:
    return record.progress.waits if record.progress is not None else None


def _has_news_of_waits(before: Record, after: Record) -> bool:
    logs_before, logs_after = (each.log.waits if each.log is not None else None for each in (before, after))
    return step_waits.news(_waits(before), _waits(after)) or step_waits.news(logs_before, logs_after)


def _is_gone(memory: HeartbeatMemory | None) -> bool:
    return memory is not None and memory.missing_since is not None


def _persistent_facts(memory: HeartbeatMemory | None) -> tuple[object, ...] | None:
    if memory is None:
        return None
    # A last proof of life that is older than the file (rewritten, or from the future) cannot be seen from the file.
    remembered = memory.alive_at if memory.alive_at != memory.modified else None
    said = memory.stale_s, memory.stall_s, memory.owner, memory.team
    return memory.skew_s, memory.suspect, memory.missing_since is not None, remembered, said
