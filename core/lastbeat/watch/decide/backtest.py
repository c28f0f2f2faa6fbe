"""A run's recorded history → how its attempts ended, and what a restart policy would have decided about each. Pure.

The decisions are those of ``restart.decide_restart``. Budgets and windows count the restarts that the policy itself
would have made. Where the policy stops a run that a person then started again, the budgets start afresh, as they do
when a person begins a supervision.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from lastbeat.explain.signals.error_types import CANCELLED, HANG, TIMEOUT, UNKNOWN, traits_of
from lastbeat.launchers import registry as launchers
from lastbeat.model.backtest import Hindsight, PastDecision, PastEnd, PastRun
from lastbeat.model.record import Record, Transition
from lastbeat.model.restart import JobEnd, Mode, RestartDecision, RestartEntry, RestartPolicy
from lastbeat.model.status import STALLED, Status
from lastbeat.model.timesheet import AttemptTimes
from lastbeat.watch.decide.recovery import STOOD_STILL
from lastbeat.watch.decide.restart import decide_restart, entry

MEAN_CHANCE: Final = 0.5
"""Average of the random draw that sets the delay before a restart, as a share of the delay's limit."""
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


def backtest(policy: RestartPolicy, past: PastRun, delay_s: float) -> Iterator[PastDecision]:
    """What ``policy`` would have decided about each end, and what each decision would have been worth. ``delay_s`` is
    the limit of the first delay."""
    history: list[RestartEntry] = []
    for index, each in enumerate(past.ends):
        decision = decide_restart(policy, each.end, history, each.at, delay_s=delay_s, chance=MEAN_CHANCE)
        following = next((then for then in past.ends[index + 1 :] if then.attempt > each.attempt), None)
        yield _judged(past.run_id, each, following, decision)
        if each.came_back:
            # The run came back by itself, so such a restart is withdrawn.
            continue
        history = [*history, entry(each.end, each.at)] if decision.restart else []


def _judged(run_id: str, each: PastEnd, following: PastEnd | None, decision: RestartDecision) -> PastDecision:
    """What the decision would have been worth, judged by what happened to the run later.

    1. A requested end, a success, and an end that the run came back from are worth nothing.
    2. The run was not started again: unknown.
    3. The next attempt died of the same cause without getting further: a restart is wasted, a stop saves that attempt.
    4. The same, but how far it got is not known: unknown.
    5. Otherwise the next attempt got further: a restart would have saved the downtime, less the delay.
    """
    told = PastDecision(run_id, each, decision, Hindsight.UNKNOWN)
    if each.end.asked_by is not None:
        return replace(told, hindsight=Hindsight.ASKED)
    if each.came_back:
        return replace(told, hindsight=Hindsight.BACK)
    if each.end.mode is Mode.SUCCESS and not decision.restart:
        return replace(told, hindsight=Hindsight.DONE)
    if each.resumed_at is None:
        return told
    behind = each.reached is not None and each.end.step is not None and each.reached <= each.end.step
    if following is None and behind:
        # The next attempt is alive, and has not come as far yet.
        return told
    again = following is not None and _same_cause(each.end, following.end)
    further = None if following is None else _further(each.end, following.end)
    if again and further is None:
        return told
    if following is not None and again and not further:
        hindsight = Hindsight.WASTED if decision.restart else Hindsight.SPARED
        took = None if following.began_at is None else (following.died_at - following.began_at).total_seconds()
        redone = _between(following.first_step, following.end.step)
        return replace(told, hindsight=hindsight, seconds=None if took is None else max(0.0, took), steps=redone)
    dead_s = max(0.0, (each.resumed_at - each.died_at).total_seconds())
    if not decision.restart:
        return replace(told, hindsight=Hindsight.MISSED, seconds=dead_s)
    # No decision is possible before the end was seen.
    until = each.at + timedelta(seconds=decision.delay_s)
    saved_s = max(0.0, (each.resumed_at - max(until, each.died_at)).total_seconds())
    steps = None if each.steps_per_s is None else round(saved_s * each.steps_per_s)
    return replace(told, hindsight=Hindsight.SAVED, seconds=saved_s, steps=steps)


def _same_cause(one: JobEnd, other: JobEnd) -> bool:
    return other.mode is not Mode.SUCCESS and other.asked_by is None and one.error_type == other.error_type


def _further(one: JobEnd, other: JobEnd) -> bool | None:
    """Whether the second attempt got further, or None if that is unknown."""
    return None if one.step is None or other.step is None else other.step > one.step


def _between(first: int | None, last: int | None) -> int | None:
    return None if first is None or last is None else max(0, last - first)


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
        each.subsystem or (launchers.traits(record.supervision.launcher).subsystem if record.supervision else None),
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
