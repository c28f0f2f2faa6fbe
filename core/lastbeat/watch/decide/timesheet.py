"""Records in a run's timesheet what one look shows of its current attempt. Pure.

A note alone causes no write: it stays with the process, and enters the record with the next thing that has to be kept.
So a long-running watcher knows each moment to the length of a pass. A watcher that is a new process each minute knows
only moments in the record or in training's own files: the last step, the end, and the first step if the SDK records
points of its curve.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from lastbeat import watch
from lastbeat.model.action import Action
from lastbeat.model.job import JobState
from lastbeat.model.observation import Seen
from lastbeat.model.record import HeartbeatMemory, LimitName, Record
from lastbeat.model.restart import RESTART_KIND, RESUME_FROM, RESUME_STEP
from lastbeat.model.status import Status
from lastbeat.model.timesheet import KEPT_ATTEMPTS, AttemptTimes, Timesheet

_STOOD_STILL: Final = frozenset({LimitName.STALL, LimitName.INACTIVITY})
_STAMPS: Final = timedelta(seconds=1)
"""Tolerance for stores that stamp whole seconds: a file written right after a start looks older than it."""


def noted(before: Record, after: Record, seen: Seen, now: datetime, *, is_new: bool) -> Timesheet | None:
    """The timesheet after a look, or None if nothing of the run was ever seen. ``after`` is the record after the look,
    ``seen`` the part of it that counts for the attempt. ``is_new``: the attempt has just begun."""
    sheet = before.timesheet or Timesheet()
    attempts, last = list(sheet.attempts), sheet.last
    if last is not None:
        last = attempts[-1] = _with_decision(last, before)
    if last is None or last.number != after.attempt.number:
        if after.job is None and not any((after.metadata, after.progress, after.log, after.sentinels)):
            return before.timesheet
        last = AttemptTimes(after.attempt.number)
        attempts.append(last)
    last = _with_start(last, after, seen, now)
    beat = seen.metadata
    if beat is not None and beat.in_place is not None:
        last = replace(last, in_place=beat.in_place.restarts)
    last = _with_steps(last, after, seen, now, is_new=is_new)
    attempts[-1] = _with_end(last, before, after, seen, now)
    noted_now = replace(sheet, attempts=tuple(attempts))
    if len(attempts) <= KEPT_ATTEMPTS:
        return noted_now
    return watch.decide.goodput.summed(noted_now, KEPT_ATTEMPTS, watched_from(after))


def with_step(sheet: Timesheet, step: int, at: datetime) -> Timesheet:
    """``sheet`` with a step added: its current attempt is alive and was at ``step`` at ``at``."""
    last = sheet.last
    if last is None or last.seen_at is not None or (last.last_step_at is not None and at <= last.last_step_at):
        return sheet
    return replace(sheet, attempts=(*sheet.attempts[:-1], _stepped(last, step, at)))


def restart_waits(record: Record) -> bool:
    """Whether the run's next job is decided, and has not been seen yet."""
    starts = [each for each in record.actions if each.kind == RESTART_KIND and each.failed is None]
    return bool(starts) and (record.job is None or starts[-1].name != record.job.name)


def watched_from(record: Record) -> datetime | None:
    """When a watcher first looked at the run, or None if its fleet was watched before, or if that is unknown."""
    return None if record.fleet_watched else record.first_looked_at


def _with_decision(last: AttemptTimes, before: Record) -> AttemptTimes:
    """``last`` with the time of its restart decision: that is recorded after the look that saw it dead."""
    ruling = before.ruling
    if ruling is None or not ruling.restart or last.decided_at is not None or last.seen_at is None:
        return last
    return replace(last, decided_at=ruling.at) if ruling.at >= last.seen_at else last


def _with_start(last: AttemptTimes, after: Record, seen: Seen, now: datetime) -> AttemptTimes:
    job, report = after.job, seen.job.report if seen.job is not None else None
    if job is None or after.attempt.job != job.key:
        if last.submitted_at is not None or last.started_at is not None:
            return last
        memories = (after.metadata, after.progress, after.log)
        beats = (memory.alive_at for memory in memories if memory is not None)
        first = min((at for at in beats if at is not None), default=None)
        return replace(last, started_at=after.attempt.began_at or first)
    if last.submitted_at is None and last.first_step is None:
        # A job that its launcher restarted by itself has waited since that was seen.
        submitted_at = job.submitted_at if job.restarts == 0 else job.seen_at or now
        resumed = _resumed_from(after.actions, job.name, job.restarts, kept=_keeps_checkpoints(after))
        last = replace(last, submitted_at=submitted_at, started_at=None, resumed_from=resumed)
    if last.started_at is not None or job.state is JobState.PENDING:
        return last
    told = report.started_at if report is not None else None
    return replace(last, started_at=told or (job.seen_at if job.state is JobState.RUNNING else None))


def _keeps_checkpoints(record: Record) -> bool:
    return record.supervision is not None and bool(record.supervision.checkpoints and record.supervision.policy)


def _resumed_from(actions: Sequence[Action], name: str, restarts: int, *, kept: bool) -> int | None:
    """The step of the checkpoint that a job was given, or None if unknown."""
    start = next((each for each in actions if each.kind == RESTART_KIND and each.name == name), None)
    if start is None or restarts > 0:
        return None
    step = start.details.get(RESUME_STEP, "")
    if step.isascii() and step.isdigit():
        return int(step[:18])
    return 0 if kept and RESUME_FROM not in start.details else None


def _with_steps(last: AttemptTimes, after: Record, seen: Seen, now: datetime, *, is_new: bool) -> AttemptTimes:
    source = _step_source(after)
    if source is None or source.step is None or source.step_at is None:
        # The first look at an attempt reads no log of it.
        unread = seen.log is not None if seen.logs is None else bool(seen.logs.unread or seen.logs.hidden)
        return last if is_new or unread or last.first_step is not None else replace(last, no_step_at=now)
    if last.first_step is None:
        told = _told_first(seen, source)
        began_at = last.started_at or last.submitted_at
        if told is not None and (began_at is None or told[1] >= began_at - _STAMPS):
            last = replace(last, first_step=told[0], first_step_at=told[1], first_is_told=True)
            last = replace(last, last_step=told[0], last_step_at=told[1])
    return _stepped(last, source.step, source.step_at)


def _stepped(last: AttemptTimes, step: int, at: datetime) -> AttemptTimes:
    if last.first_step is None:
        return replace(last, first_step=step, first_step_at=at, last_step=step, last_step_at=at)
    if step == last.last_step:
        return last
    redone = last.redone + max(0, (last.last_step or 0) - step)
    return replace(last, last_step=step, last_step_at=at, redone=redone)


def _step_source(record: Record) -> HeartbeatMemory | None:
    memories = (record.progress, record.metadata, record.log)
    return next((each for each in memories if each is not None and each.step is not None), None)


def _told_first(seen: Seen, source: HeartbeatMemory) -> tuple[int, datetime] | None:
    """The first step of the attempt and its time, from the points in its progress.json; or None."""
    beat = seen.progress
    if beat is None or beat.first_point is None or source.step is None or source.step_at is None or source.suspect:
        return None
    at, step = beat.first_point
    at += timedelta(seconds=source.skew_s)
    return (step, at) if step <= source.step and at <= source.step_at else None


def _with_end(last: AttemptTimes, before: Record, after: Record, seen: Seen, now: datetime) -> AttemptTimes:
    status = after.status
    if status is None or status.is_foreign:
        return last
    if not status.finished:
        return last if last.seen_at is None else _alive_again(last, before, now)
    if last.seen_at is not None and (last.end is status or status is not Status.SUCCEEDED):
        return replace(last, end=status)
    never = after.exceeded is not None and after.exceeded.name is LimitName.START
    report = seen.job.report if seen.job is not None and seen.job.report.state.ended else None
    died_at = None if never else after.came_to_be_at
    if report is not None and report.ended_at is not None and died_at is not None:
        # The launcher may have been asked long after the end.
        died_at = min(died_at, report.ended_at)
    return replace(last, died_at=died_at, seen_at=after.since or now, end=status)


def _alive_again(last: AttemptTimes, before: Record, now: datetime) -> AttemptTimes:
    """The attempt was given up, and goes on. If it was merely silent it may have made steps all the time."""
    still_s, given_up_s = last.still_s, last.given_up_s
    exceeded = before.exceeded
    if exceeded is not None and exceeded.name in _STOOD_STILL and last.died_at is not None and last.seen_at is not None:
        still_s += max(0.0, (last.seen_at - last.died_at).total_seconds())
        given_up_s += max(0.0, (now - last.seen_at).total_seconds())
    return replace(last, still_s=still_s, given_up_s=given_up_s, died_at=None, seen_at=None, end=None, decided_at=None)
