"""One step of the state machine: (record, observation, policy, now) → what to record, and what to tell."""

from dataclasses import dataclass, replace
from datetime import datetime

from lastbeat.decide.attempt import Belonging, reopened, sentinel_tokens, skew_range, sort_out
from lastbeat.decide.flapping import FLIPS, MUTED, Turn, told, turn
from lastbeat.decide.freshness import remember
from lastbeat.decide.verdict import Evidence, Verdict, judge
from lastbeat.model.observation import Heartbeat, NeverSeen, Seen
from lastbeat.model.policy import Policy
from lastbeat.model.record import HeartbeatMemory, Record, Transition
from lastbeat.model.status import Event, Status

HISTORY_LIMIT = 50


@dataclass(frozen=True, slots=True)
class Decision:
    """``record`` is the next record, without alerts; ``must_write`` says whether anything in it has to last."""

    record: Record
    verdict: Verdict
    seen: Seen
    """What counted for the current attempt."""
    events: tuple[Event, ...] = ()
    transition: Transition | None = None
    must_write: bool = False
    told: str | None = None
    """What its alerts say of flapping, before the verdict's reason."""


def silenced(decision: Decision, why: str) -> Decision:
    """``decision`` with nothing to tell; ``why`` is recorded with its transition. Pure."""
    record, transition = decision.record, decision.transition
    if transition is not None:
        transition = replace(transition, silenced=why)
        record = replace(record, history=(*record.history[:-1], transition))
    if Event.FLAPPING in decision.events:
        # Nobody was told, so nothing may be kept from them on the ground that they were: the next flip says it again.
        record = replace(record, flapping_since=None)
    return replace(decision, record=record, transition=transition, events=())


def decide(record: Record | None, run_id: str, observed: Seen | NeverSeen, policy: Policy, now: datetime) -> Decision:
    """Pure. ``now`` is the store's time. "Could not observe" never gets here: nothing follows from it."""
    before = record or Record(run_id=run_id, first_looked_at=now)
    seen = observed if isinstance(observed, Seen) else Seen()
    belonging = sort_out(record, seen, _known_skew(record, seen, policy, now))
    belonging = _reopen(record, belonging, policy, now)
    evidence = _evidence(before, belonging, policy, now)
    verdict = judge(evidence, policy, now)
    if _holds(record, belonging, verdict):
        verdict = Verdict(before.status or verdict.status, before.reason, before.cause, before.action)
    return _step(before, belonging, evidence, verdict, policy, now)


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
    seen = belonging.seen
    if seen.error is not None or seen.complete is not None or record.since is None:
        return belonging
    beats = (
        remember(memory, heartbeat, policy.stale_s, now).alive_at
        for memory, heartbeat in ((record.metadata, seen.metadata), (record.progress, seen.progress))
        if heartbeat is not None
    )
    if any(alive_at is not None and alive_at > record.since for alive_at in beats):
        return replace(belonging, attempt=reopened(belonging.attempt), is_new=True)
    return belonging


def _evidence(before: Record, belonging: Belonging, policy: Policy, now: datetime) -> Evidence:
    seen = belonging.seen
    metadata, progress = before.metadata, before.progress
    if belonging.is_new:
        # How far the last attempt got says nothing about this one; what is known of the clock may.
        progress = None
        metadata = replace(metadata, missing_since=None) if metadata is not None and seen.metadata else None
    # Files that go away after the run was given up were tidied up; that is no sign of life.
    out = before.status is Status.TIMED_OUT
    return Evidence(
        seen=seen,
        metadata=metadata if belonging.leftover else _updated(metadata, seen.metadata, policy, now, out=out),
        progress=_updated(progress, seen.progress, policy, now, out=out),
        first_looked_at=before.first_looked_at or now,
    )


def _updated(
    memory: HeartbeatMemory | None, seen: Heartbeat | None, policy: Policy, now: datetime, *, out: bool
) -> HeartbeatMemory | None:
    if seen is not None:
        return remember(memory, seen, policy.stale_s, now)
    if memory is not None and memory.missing_since is None:
        return replace(memory, missing_since=memory.alive_at or memory.modified if out else now)
    return memory


def _holds(record: Record | None, belonging: Belonging, verdict: Verdict) -> bool:
    """Whether a run that finished stays finished although its sentinel is not (or no longer) there to say so."""
    return (
        record is not None
        and record.status in {Status.FAILED, Status.SUCCEEDED}
        and not belonging.is_new
        and not verdict.by_sentinel
    )


def _step(
    before: Record,
    belonging: Belonging,
    evidence: Evidence,
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
        attempt=belonging.attempt,
        conditions=verdict.conditions,
        metadata=evidence.metadata,
        progress=evidence.progress,
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
    must_write = before.status is None or transition is not None or _matters(before, after, policy, now)
    news = _news(before, belonging, verdict, changed=changed)
    events = _events(news, _warnings(before, belonging, verdict), verdict, phase, policy)
    return Decision(after, verdict, belonging.seen, events, transition, must_write, told(phase, before, after, now))


def _news(before: Record, belonging: Belonging, verdict: Verdict, *, changed: bool) -> Event | None:
    """What a look is about that changed status or attempt."""
    if verdict.status is not Status.RUNNING:
        return Event(verdict.status.value) if changed or belonging.is_new else None
    if before.status is Status.TIMED_OUT:
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
    if news in policy.alert_on:
        return (news,)
    # An alert that goes out anyway lists the conditions; otherwise they are worth one of their own.
    if phase.flapping:
        raised = raised - MUTED
    elif phase is not Turn.NONE:
        raised = raised | (set(verdict.conditions) & MUTED)
    return (Event.WARNING,) if raised and Event.WARNING in policy.alert_on else ()


def _matters(before: Record, after: Record, policy: Policy, now: datetime) -> bool:
    """Whether something changed that the next pass cannot see for itself. A healthy run writes nothing."""
    if set(before.conditions) != set(after.conditions) or before.attempt != after.attempt:
        return True
    if before.flapping_since != after.flapping_since:
        return True
    if set(after.sentinels) - set(before.sentinels):
        # A new one, or one written again: the next attempt must know it as spent.
        return True
    if _lasting(before.metadata) != _lasting(after.metadata):
        return True
    if _lasting(before.progress) != _lasting(after.progress):
        return True
    if policy.stall_s is None or after.progress is None or after.progress.step is None:
        return False
    # How long a step has stood still is known only from looks that were written down; four a limit will do.
    moved = before.progress is None or before.progress.step != after.progress.step
    written_s = (now - before.written_at).total_seconds() if before.written_at else policy.stall_s
    return moved and written_s >= policy.stall_s / 4


def _lasting(memory: HeartbeatMemory | None) -> tuple[object, ...] | None:
    if memory is None:
        return None
    # A last proof of life that is older than the file (a rewritten or a future one) cannot be seen from the file.
    remembered = memory.alive_at if memory.alive_at != memory.modified else None
    return memory.skew_s, memory.suspect, memory.missing_since is not None, remembered
