"""Turns a decision into a channel-neutral message."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from lastbeat.model.alert import Message
from lastbeat.model.data import dataclass
from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.restart import FoundCheckpoint
from lastbeat.model.status import BEATS_MISSED, STALLED, Event, Status
from lastbeat.model.times import format_duration
from lastbeat.watch.decide.flapping import HINT
from lastbeat.watch.decide.raised import raised_reason, worst
from lastbeat.watch.decide.transition import Decision

_OLD_STEP_S = 300.0  # Alerts show the age of a step that is older than this many seconds.
_LOG_LIMIT_CHARS = 4000
_STACK_LIMIT_CHARS = 2000
_OVER = frozenset({Status.FAILED, Status.TIMED_OUT, Status.CANCELLED, Status.PREEMPTED, Status.SUCCEEDED})


@dataclass(frozen=True, slots=True)
class RunLocation:
    """Where users can view a run's files."""

    where: str
    """Path or ``s3://`` URL."""
    link: str | None = None
    """A web address, or None if there is none."""


@dataclass(frozen=True, slots=True)
class Excerpts:
    """Parts of a run's files that were read only for its alerts; oldest line and outermost frame first."""

    log_tail: Sequence[str] = ()
    stack: Sequence[str] = ()
    notes: Sequence[str] = ()
    ranks: str | None = None
    log_name: str = ""
    """Name of the log that ``log_tail`` is from, unless it is the run's main log."""


def ranks_matter(decision: Decision) -> bool:
    """Whether the alert should name the affected ranks of distributed training."""
    verdict, metadata = decision.verdict, decision.seen.metadata
    troubled = verdict.status in {Status.TIMED_OUT, Status.FAILED} or bool(
        {STALLED, BEATS_MISSED} & {*verdict.conditions}
    )
    if not troubled or metadata is None:
        return False
    # The SDK reports the number of ranks if there is more than one. Handwritten documents need not.
    return (metadata.world_size or 0) > 1 or (metadata.world_size is None and metadata.beat_s is None)


def hangs(decision: Decision) -> bool:
    """Whether the alert is about a hang, and training has written its stacks."""
    verdict = decision.verdict
    stuck = verdict.status is Status.TIMED_OUT or STALLED in verdict.conditions
    return stuck and decision.seen.stacks is not None


def compose(decision: Decision, event: Event, place: RunLocation, read: Excerpts, now: datetime) -> Message:
    """The alert's content, from the observations of the current attempt. Pure."""
    record, verdict = decision.record, decision.verdict
    metadata = decision.seen.metadata or Heartbeat(now, "")
    progress = decision.seen.knows_step or Heartbeat(now, "")
    shows = verdict.explained
    reason = f"{decision.flapping_note}: {verdict.reason}" if decision.flapping_note else verdict.reason
    if event is Event.WARNING:
        conditions = (f"{name}: {detail}" for name, detail in verdict.conditions.items())
        reason = "; ".join((*conditions, *decision.notes))
    raised = event is Event.ALERT
    if raised:
        reason = raised_reason(decision.raised)
    return Message(
        run_id=record.run_id,
        event=event,
        restart=decision.restart_note,
        status=verdict.status,
        reason=reason,
        at=now,
        since=record.came_to_be_at if verdict.status in _OVER else None,
        attempt=record.attempt.number,
        cause=verdict.cause,
        confidence=shows.cause.confidence if shows else None,
        second_cause=shows.second.error_type if shows and shows.second else None,
        evidence=shows.cause.evidence if shows else None,
        frames=shows.cause.frames if shows else (),
        ranks=read.ranks,
        also_seen=shows.also_seen if shows else (),
        similar=shows.similar.told(now) if shows and shows.similar else None,
        action=HINT if event is Event.FLAPPING else None if raised else verdict.action,
        level=worst(decision.raised) if raised else None,
        conditions=dict(verdict.conditions),
        instance_id=metadata.instance_id,
        phase=metadata.phase,
        duration_s=_duration_s(decision, now),
        figures=progress.figures,
        step_age_s=_step_age_s(decision, progress.step, now),
        last_beat_at=_last_beat(decision),
        log_tail=_shown(read.log_tail, _LOG_LIMIT_CHARS),
        log_name=read.log_name,
        stack=_shown(read.stack, _STACK_LIMIT_CHARS),
        notes=(*(decision.notes if event is not Event.WARNING else ()), *read.notes),
        checkpoint=_checkpoint(record.checkpoint, now),
        where=place.where,
        link=place.link,
        owner=record.owner,
        team=record.team,
    )


def _checkpoint(found: FoundCheckpoint | None, now: datetime) -> str | None:
    if found is None:
        return None
    step = f"step {found.step}" if found.step is not None else found.url.rstrip("/").rpartition("/")[2]
    saved = f"saved {format_duration(max(now - found.saved_at, timedelta(0)))} before" if found.saved_at else ""
    return ", ".join(filter(None, (step, saved)))


def _last_beat(decision: Decision) -> datetime | None:
    record = decision.record
    # Logs replace a metadata.json that was never written.
    memories = (record.metadata or record.log, record.progress)
    return max((m.alive_at for m in memories if m is not None and m.alive_at is not None), default=None)


def _step_age_s(decision: Decision, step: int | None, now: datetime) -> float | None:
    """How long in s a run that has not ended had been at ``step``; None if not longer than some minutes."""
    seen = decision.record.step_seen
    if seen is None or seen[0] != step or decision.verdict.status not in {Status.RUNNING, Status.TIMED_OUT}:
        return None
    age_s = (now - seen[1]).total_seconds()
    return age_s if age_s > _OLD_STEP_S else None


def _duration_s(decision: Decision, now: datetime) -> float | None:
    """Seconds from the attempt's start to its end, or to its last sign of life, in the store's time."""
    record, seen = decision.record, decision.seen
    if record.attempt.start_time is None:
        return None
    least_s, _ = record.attempt.start_skew_s or (0.0, 0.0)
    started = record.attempt.start_time + timedelta(seconds=least_s)
    ended = seen.end.modified if seen.end is not None else None
    if ended is None:
        ended = _last_beat(decision) or now
    return max(0.0, (ended - started).total_seconds())


def _shown(lines: Sequence[str], room: int) -> tuple[str, ...]:
    """The newest lines that fit into ``room`` characters, because they are kept in the record too."""
    kept: list[str] = []
    for line in reversed(lines):
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return tuple(reversed(kept))
