"""A run's recorded history → how its attempts ended, and whether starting it again helped. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from lastbeat.explain.launchers.traits import launcher_traits
from lastbeat.explain.signals.error_types import CANCELLED, HANG, TIMEOUT, UNKNOWN, traits_of
from lastbeat.model.record import Record, Transition
from lastbeat.model.restart import JobEnd, Mode, RestartEntry
from lastbeat.model.similar import FAILED_AGAIN, GOT_FURTHER, NOT_STARTED, WENT_ON
from lastbeat.model.status import STALLED, UNWELL, Status
from lastbeat.model.timesheet import AttemptTimes
from lastbeat.watch.decide.recovery import STOOD_STILL
from lastbeat.watch.decide.timesheet import restart_waits


@dataclass(frozen=True, slots=True)
class PastEnd:
    """How an attempt ended, as far as its run's record tells."""

    attempt: int
    at: datetime
    """When a watchdog saw it: when a policy would have been asked."""
    status: Status
    end: JobEnd
    died_at: datetime
    """When it happened, as far as is known."""
    began_at: datetime | None = None
    """When the attempt began."""
    first_step: int | None = None
    steps_per_s: float | None = None
    """How fast the attempt was, as far as its steps are known."""
    resumed_at: datetime | None = None
    """When the next attempt was submitted or began; None if that is unknown or there was none."""
    reached: int | None = None
    """How far the next attempt got, as far as is known."""
    came_back: bool = False
    """The same attempt came back, or ended well after all."""
    restarted: RestartEntry | None = None
    """What lastbeat itself decided then."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """The ends of a run, oldest first."""

    run_id: str
    ends: tuple[PastEnd, ...] = ()
    cut: bool = False
    """There were more transitions than the record keeps."""
    thin: bool = False
    """Its record keeps no transition: nothing can be said of it."""


_EXIT: Final = re.compile(r"\bexit (?:status|code) (\d{1,3})\b")


@dataclass
class _Attempt:
    """What history records of one attempt."""

    began_at: datetime | None = None
    steps: "list[tuple[datetime, int]] | None" = None


def past_run(record: Record) -> PastRun:
    """How the attempts of ``record``'s run ended, oldest first."""
    history = record.history
    attempts = _attempts(record)
    found: list[PastEnd] = []
    for each in history:
        last = found[-1] if found and found[-1].attempt == each.attempt else None
        if not each.after.finished:
            if last is not None:
                found[-1] = replace(last, came_back=True)
        elif last is None or last.came_back:
            found.append(_past_end(record, each, attempts))
        elif each.after is Status.SUCCEEDED and last.status is not Status.SUCCEEDED:
            # The run was given up, and then finished.
            found[-1] = replace(last, came_back=True)
    return PastRun(record.run_id, tuple(found), cut=record.transitions > len(history), thin=not history)


def _attempts(record: Record) -> dict[int, _Attempt]:
    """Attempt → when it began, and its known steps."""
    found: dict[int, _Attempt] = {}
    for each in record.history:
        known = found.setdefault(each.attempt, _Attempt(steps=[]))
        if each.after is Status.RUNNING and known.began_at is None and not known.steps:
            known.began_at = each.at
        if each.step is not None and known.steps is not None:
            known.steps.append((each.at, each.step))
    now = found.get(record.attempt.number)
    if now is not None and record.attempt.began_at is not None:
        now.began_at = min(record.attempt.began_at, now.began_at or record.attempt.began_at)
    return found


def _past_end(record: Record, each: Transition, attempts: dict[int, _Attempt]) -> PastEnd:
    times = {one.number: one for one in record.timesheet.attempts} if record.timesheet is not None else {}
    own, known = times.get(each.attempt), attempts[each.attempt]
    later = min((number for number in (*attempts, *times) if number > each.attempt), default=None)
    then = times.get(later) if later is not None else None
    resumed_at = _begins(then) if then is not None else None
    if resumed_at is None and later is not None and later in attempts:
        resumed_at = attempts[later].began_at
    restarted = _restarted(record.restarts, each.at, resumed_at)
    step = each.step if each.step is not None or own is None else own.last_step
    resumed_from = then.resumed_from if then is not None else None
    died_at = own.died_at if own is not None and own.died_at is not None else each.at
    first_step, steps_per_s = _pace(own, known)
    reached = [step for _, step in (attempts[later].steps or ())] if later in attempts else []
    reached += [then.last_step] if then is not None and then.last_step is not None else []
    if later == record.attempt.number:
        memories = (record.progress, record.metadata, record.log)
        reached += [memory.step for memory in memories if memory is not None and memory.step is not None]
    return PastEnd(
        each.attempt,
        each.at,
        each.after,
        _job_end(record, each, step, None if resumed_from is None else resumed_from or -1, restarted),
        min(died_at, each.at),
        (_begins(own) if own is not None else None) or known.began_at,
        first_step,
        steps_per_s,
        resumed_at,
        max(reached, default=None),
        restarted=restarted,
    )


def _begins(times: AttemptTimes) -> datetime | None:
    return times.submitted_at or times.started_at


def _pace(own: AttemptTimes | None, known: _Attempt) -> tuple[int | None, float | None]:
    """The first known step of an attempt, and its pace in steps a second."""
    points = list(known.steps or ())
    if own is not None:
        sheet = ((own.first_step_at, own.first_step), (own.last_step_at, own.last_step))
        told = [(at, step) for at, step in sheet if at is not None and step is not None]
        points = told if len(told) > 1 or not points else points
    if not points:
        return None, None
    (begun, first), (ended, last) = points[0], points[-1]
    took_s = (ended - begun).total_seconds()
    return first, (last - first) / took_s if took_s > 0 and last > first else None


def _restarted(restarts: Sequence[RestartEntry], at: datetime, until: datetime | None) -> RestartEntry | None:
    """The restart that lastbeat decided about the end seen at ``at``, or None if it decided none."""
    return next((each for each in restarts if each.at >= at and (until is None or each.at <= until)), None)


def _job_end(
    record: Record, each: Transition, step: int | None, checkpoint_step: int | None, restarted: RestartEntry | None
) -> JobEnd:
    """How the attempt ended, as a policy sees it: as the record of its restart says, else as its transition says."""
    exit_code = _EXIT.search(each.reason)
    mode = _mode(record, each)
    error_type = each.cause or {Mode.STALL: HANG, Mode.TIMEOUT: TIMEOUT, Mode.PREEMPTED: CANCELLED}.get(mode, UNKNOWN)
    found = JobEnd(
        mode,
        error_type,
        each.subsystem or (launcher_traits(record.supervision.launcher).subsystem if record.supervision else None),
        each.signal,
        1.0 if each.confidence is None else each.confidence,
        by_scheduler=False,
        cause_key=error_type if each.cause is None else f"{error_type} {re.sub(r'[0-9]+', '#', each.reason)}",
        step=step,
        checkpoint_step=checkpoint_step,
        exit_code=int(exit_code[1]) if exit_code is not None else None,
        asked_by=_person(each),
    )
    if restarted is None:
        return found
    return replace(
        found,
        mode=restarted.mode,
        error_type=restarted.error_type,
        cause_key=restarted.cause_key,
        step=restarted.step if restarted.step is not None else found.step,
        checkpoint_step=restarted.checkpoint_step,
        node=restarted.node,
    )


def _person(each: Transition) -> str | None:
    if each.after is Status.PREEMPTED:
        asked = re.search(r"; stopped by ([^:]{1,100})", each.reason)
        return asked[1] if asked is not None else None
    if each.after is not Status.CANCELLED:
        return None
    by = re.match(r"Stopped by ([^:]{1,100})", each.reason)
    return by[1] if by is not None else "a person"


def _mode(record: Record, each: Transition) -> Mode:
    """How the attempt ended. A run that is alive without progress is a stall, and one that fell silent is gone. If its
    job was known to be alive, silence is a stall, too."""
    if each.after is Status.SUCCEEDED:
        return Mode.SUCCESS
    if each.after is Status.PREEMPTED:
        return Mode.PREEMPTED
    if each.cause is not None and traits_of(each.cause).is_time_over:
        return Mode.TIMEOUT
    if each.after is not Status.TIMED_OUT:
        return Mode.CRASH
    hangs = each.cause is not None and traits_of(each.cause).condition == STALLED
    stood = STOOD_STILL in each.reason or hangs
    return Mode.STALL if stood or record.supervision is not None else Mode.TIMEOUT


def aftermath(record: Record, attempt: int, fingerprint: str) -> str:
    """What happened to the run after ``attempt`` failed with ``fingerprint``, as a word of ``model.similar``; empty if
    the record does not show it.

    1. The run was not started again, and has not come back by itself. A restart that waits in a queue counts as one.
    2. The next attempt failed with the same fingerprint: it failed again, however far it got.
    3. A later attempt ended well: it went on.
    4. The next attempt got further and has not failed since: it went on. A step more and another failure is no success.
    """
    ends = past_run(record).ends
    failed = next((each for each in reversed(ends) if each.attempt == attempt), None)
    if failed is None or failed.came_back:
        return ""
    later = [each for each in record.history if each.attempt > attempt]
    if not later:
        return NOT_STARTED if record.attempt.number == attempt and not restart_waits(record) else ""
    following = later[0].attempt
    if fingerprint in {each.fingerprint for each in later if each.attempt == following}:
        return FAILED_AGAIN
    if any(each.after is Status.SUCCEEDED for each in later):
        return WENT_ON
    if failed.reached is None or failed.reached <= (failed.end.step if failed.end.step is not None else -1):
        return ""
    died = any(each.attempt == following and not each.came_back and each.status in UNWELL for each in ends)
    return GOT_FURTHER if died else WENT_ON
