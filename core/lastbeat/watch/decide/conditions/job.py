"""Conditions of a job that has not ended: it waits too long, its log does not appear, or its GPUs are idle."""

from collections.abc import Callable
from typing import Final

from lastbeat.model import status as names
from lastbeat.model.job import JobSight, JobState
from lastbeat.model.text import one_line
from lastbeat.model.times import format_duration
from lastbeat.watch.decide.conditions import log_text, stall
from lastbeat.watch.decide.conditions.condition import Check, Condition, Source
from lastbeat.watch.decide.jobs import HOPELESS_S, IDLE_S, launcher_traits, remedy


def _is_asked(check: Check) -> bool:
    """Whether the launcher has answered."""
    sight = check.evidence.seen.job
    return sight is not None and sight.report.state is not JobState.UNKNOWN


def _unasked_in(state: JobState) -> Callable[[Check], bool]:
    """Whether the launcher did not answer about a job that was last seen in ``state``."""
    return lambda check: not _is_asked(check) and check.evidence.job is not None and check.evidence.job.state is state


def _gpus_unread(check: Check) -> bool:
    if _steps_use_gpus(check):
        return False
    job = _running(check)
    if job is None:
        return _unasked_in(JobState.RUNNING)(check)
    return job.report.gpus is None and job.memory.idle_since is not None


WAITING_JOB: Final = Source("the job in its queue", _unasked_in(JobState.PENDING))
RUNNING_JOB: Final = Source("the running job", _unasked_in(JobState.RUNNING))
JOB_GPUS: Final = Source("the GPUs of the running job", _gpus_unread)


def _running(check: Check) -> JobSight | None:
    """The job, if its launcher reports it as running, else None."""
    sight = check.evidence.seen.job
    return sight if sight is not None and sight.report.state is JobState.RUNNING else None


def _in_state_s(sight: JobSight, check: Check) -> float:
    return 0.0 if sight.memory.seen_at is None else check.age_s(sight.memory.seen_at)


def _pending(check: Check) -> str | None:
    sight, limit_s = check.evidence.seen.job, check.policy.pending_s
    if sight is None or sight.report.state is not JobState.PENDING or limit_s is None:
        return None
    why, waited_s = launcher_traits(sight.memory).wait_reason(sight.report.reason), _in_state_s(sight, check)
    if waited_s < (min(limit_s, HOPELESS_S) if why.hopeless else limit_s):
        return None
    said = one_line(sight.report.reason) or "no reason given"
    meaning = f": {why.means}" if why.means else ""
    return f"job {sight.memory.id} has waited for its turn for {format_duration(waited_s)} ({said}{meaning})"


def _log_missing(check: Check) -> str | None:
    sight = _running(check)
    if sight is None or not sight.log_fault:
        return None
    ran_s = _in_state_s(sight, check)
    if ran_s < check.policy.stale_s:
        return None
    return f"job {sight.memory.id} has run for {format_duration(ran_s)}, and {sight.log_fault}"


def _gpus_idle(check: Check) -> str | None:
    sight = _running(check)
    if sight is None or sight.memory.idle_since is None or sight.report.gpus is None or _steps_use_gpus(check):
        return None
    idle_s = check.age_s(sight.memory.idle_since)
    if idle_s < IDLE_S:
        return None
    total = sight.report.gpus.total
    which = "the only GPU has not" if total == 1 else f"none of {total:g} GPUs has"
    return f"job {sight.memory.id} runs, and {which} been seen in use for {format_duration(idle_s)}"


def _steps_use_gpus(check: Check) -> bool:
    """Whether steps show that GPUs are in use, if the launcher counts only reserved GPUs.

    A driver that reserved none may use those of its node."""
    job, steps = check.evidence.job, check.evidence.step_source
    if job is None or steps is None or steps.step_at is None or not launcher_traits(job).counts_reserved_gpus:
        return False
    stalled = (*stall.CONDITIONS, *(each for each in log_text.CONDITIONS if each.name == names.STALLED))
    if any(each.raised(check) for each in stalled):
        return False
    return check.age_s(steps.step_at) <= max(IDLE_S, check.policy.stall_s or 0.0)


def _remedy(name: str) -> Callable[[Check], str | None]:
    return lambda check: remedy((name,), check.evidence.job)


CONDITIONS: Final = (
    Condition(
        names.JOB_PENDING,
        "a supervised job has waited for its turn for `LASTBEAT_PENDING_MINUTES`, or cannot start as it is",
        _pending,
        needs=(WAITING_JOB,),
        hint=_remedy(names.JOB_PENDING),
    ),
    Condition(
        names.JOB_LOG_MISSING,
        "a supervised job has run for `STALE_MINUTES` and its log is not there",
        _log_missing,
        needs=(RUNNING_JOB,),
        hint=_remedy(names.JOB_LOG_MISSING),
    ),
    Condition(
        names.GPU_IDLE,
        "a supervised job has run for ten minutes with GPUs, as its launcher counts them, and none was seen in use",
        _gpus_idle,
        needs=(JOB_GPUS,),
        hint=_remedy(names.GPU_IDLE),
    ),
)
