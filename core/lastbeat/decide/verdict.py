"""What the evidence of one attempt says: status, reason, conditions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from lastbeat.decide.freshness import SKEW_TOLERANCE_S
from lastbeat.model import status as names
from lastbeat.model.observation import Seen
from lastbeat.model.policy import Policy
from lastbeat.model.record import HeartbeatMemory
from lastbeat.model.status import Status
from lastbeat.model.times import format_duration, format_minutes
from lastbeat.signals import causes

REASON_LIMIT = 300


@dataclass(frozen=True, slots=True)
class Verdict:
    """Status and why."""

    status: Status
    reason: str
    cause: str | None = None
    action: str | None = None
    conditions: Mapping[str, str] = field(default_factory=dict)
    by_sentinel: bool = False
    """Whether training itself said so."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What counts for the current attempt: the observation, and what is known of each heartbeat."""

    seen: Seen
    metadata: HeartbeatMemory | None
    progress: HeartbeatMemory | None
    first_looked_at: datetime


def judge(evidence: Evidence, policy: Policy, now: datetime) -> Verdict:
    """Sentinels first, then life, then progress, then what is merely worth a warning."""
    seen = evidence.seen
    if seen.error is not None:
        cause = causes.of_failure(seen.error.text)
        return Verdict(
            Status.FAILED,
            _failure_reason(seen.error.text, seen.error.fault),
            cause.error_type if cause else None,
            cause.hint if cause else causes.UNEXPLAINED_FAILURE,
            by_sentinel=True,
        )
    if seen.complete is not None:
        return Verdict(
            Status.SUCCEEDED,
            "Training completed (_complete found)",
            by_sentinel=True,
        )
    if evidence.metadata is None and evidence.progress is None:
        return _never_beaten(evidence, policy, now)
    return _beating(evidence, policy, now)


def _failure_reason(text: str, fault: str | None) -> str:
    if fault is not None:
        return f"Training reported a failure; its _error could not be read: {fault}"[:REASON_LIMIT]
    lines = [line.strip() for line in text.splitlines() if line.strip(" \t\ufffd")]
    first = lines[0] if lines else ""
    if first.startswith("Traceback (most recent call last)"):
        # Written by ``2> _error``: a trace has its message at the end.
        first = lines[-1]
    return first[:REASON_LIMIT] or "Training reported a failure (empty _error)"


def _never_beaten(evidence: Evidence, policy: Policy, now: datetime) -> Verdict:
    waited_s = (now - evidence.first_looked_at).total_seconds()
    if waited_s < policy.start_grace_s:
        detail = f"no heartbeat yet, {format_duration(waited_s)} of {format_minutes(policy.start_grace_s)} waited"
        return Verdict(
            Status.RUNNING,
            "Waiting for the first heartbeat",
            conditions={names.NO_HEARTBEAT: detail},
        )
    return Verdict(Status.TIMED_OUT, "No heartbeat files found", action=causes.NEVER_STARTED)


def _beating(evidence: Evidence, policy: Policy, now: datetime) -> Verdict:
    ages = {
        name: (now - last_alive(memory)).total_seconds()
        for name, memory in (("metadata.json", evidence.metadata), ("progress.json", evidence.progress))
        if memory is not None
    }
    stale = [name for name, age in ages.items() if age > policy.stale_s]
    limit = format_minutes(policy.stale_s)
    if len(stale) == len(ages):
        gone = all(m is None or m.missing_since for m in (evidence.metadata, evidence.progress))
        reason = f"Both heartbeats disappeared (>{limit} ago)" if gone else f"Both heartbeats stale (>{limit})"
        if len(stale) == 1:
            never = "progress.json" if stale == ["metadata.json"] else "metadata.json"
            reason += f"; no {never} was ever written"
        return Verdict(Status.TIMED_OUT, reason, action=causes.STALE)
    conditions = {
        "metadata.json": names.METADATA_STALE,
        "progress.json": names.PROGRESS_STALE,
    }
    raised = {
        conditions[name]: f"{name} is {format_duration(ages[name])} old (>{limit}) while the other is fresh"
        for name in stale
    }
    stalled_s = _stalled_s(evidence.progress, now)
    if policy.stall_s is not None and stalled_s >= policy.stall_s:
        step = evidence.progress.step if evidence.progress else None
        detail = f"No progress: still at step {step} after {format_duration(stalled_s)}"
        if stalled_s >= 2 * policy.stall_s:
            reason = f"{detail} (limit {format_minutes(policy.stall_s)}, twice exceeded)"
            return Verdict(Status.TIMED_OUT, reason, action=causes.STALLED)
        raised[names.STALLED] = f"{detail} (limit {format_minutes(policy.stall_s)})"
    raised.update(_oddities(evidence))
    beats = ", ".join(f"{name} {format_duration(age)} ago" for name, age in ages.items())
    action = next((causes.CONDITION_HINTS[name] for name in raised if name in causes.CONDITION_HINTS), None)
    return Verdict(Status.RUNNING, f"Heartbeats: {beats}", action=action, conditions=raised)


def last_alive(memory: HeartbeatMemory) -> datetime:
    """The last proof of life; a file that is gone counts from when it was missed, not from its last beat."""
    alive_at = memory.alive_at or memory.modified
    return max(alive_at, memory.missing_since) if memory.missing_since else alive_at


def _stalled_s(progress: HeartbeatMemory | None, now: datetime) -> float:
    if progress is None or progress.step is None or progress.step_at is None:
        return 0.0
    return (now - progress.step_at).total_seconds()


def _oddities(evidence: Evidence) -> dict[str, str]:
    seen, raised = evidence.seen, dict[str, str]()
    documents = (("metadata.json", seen.metadata, evidence.metadata),
                 ("progress.json", seen.progress, evidence.progress))  # fmt: skip
    faults = [f"{name}: {seen.fault}" for name, seen, _ in documents if seen is not None and seen.fault]
    if faults:
        raised[names.HEARTBEAT_UNREADABLE] = "; ".join(faults)
    for name, _, memory in documents:
        detail = _skew(name, memory)
        if detail:
            raised[names.CLOCK_SKEW] = detail
            break
    told = seen.knows_step
    loss = told.loss if told else None
    if loss is not None and not math.isfinite(loss):
        step = told.step if told else None
        at = f" at step {step}" if step is not None else ""
        raised[names.LOSS_NAN] = f"loss is {'NaN' if math.isnan(loss) else 'infinite'}{at}"
    return raised


def _skew(name: str, memory: HeartbeatMemory | None) -> str | None:
    if memory is None or memory.own_time is None or memory.missing_since is not None:
        return None
    if memory.suspect:
        lag = format_duration(memory.lag_s - memory.skew_s)
        return f"the timestamp in {name} is {lag} older than the file: a slow clock, or an old file written again"
    if abs(memory.skew_s) > SKEW_TOLERANCE_S:
        direction = "behind" if memory.skew_s > 0 else "ahead of"
        return f"the clock of the instance is {format_duration(abs(memory.skew_s))} {direction} the store's"
    return None
