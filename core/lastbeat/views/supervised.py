"""The job of a supervised run, by its record. Pure."""

from collections.abc import Callable
from datetime import datetime

from lastbeat.jobs.restarts.compiling import policy_of
from lastbeat.model.action import Action
from lastbeat.model.record import Record
from lastbeat.model.restart import RESTART_KIND, Budget, LeaseHolder
from lastbeat.model.view import JobGist
from lastbeat.views.heartbeats import NAME_LIMIT
from lastbeat.views.safe import shown
from lastbeat.watch.decide.restart import budgets_used


def waiting(record: Record) -> Action | None:
    """The start of a job that is still to be made."""
    starts = [each for each in record.actions if each.kind == RESTART_KIND and not each.settled]
    return starts[-1] if starts else None


def gist(record: Record, mask: Callable[[str], str] = str) -> JobGist | None:
    """The supervision as a row shows it; None without one."""
    supervision, job, ruling = record.supervision, record.job, record.ruling
    if supervision is None:
        return None
    next_start = waiting(record)
    told = ruling.attempt if ruling is not None and ruling.restart and record.restarts else ""
    return JobGist(
        launcher=shown(supervision.launcher, mask, NAME_LIMIT),
        id=None if job is None else shown(job.id, mask, NAME_LIMIT),
        state=None if job is None else job.state,
        restarts=len(record.restarts),
        attempt=shown(told, mask, NAME_LIMIT),
        waits=next_start is not None,
        starts_at=None if next_start is None else next_start.not_before,
    )


def supervisor(record: Record, at: datetime) -> LeaseHolder | None:
    """The supervisor that looks after the run as of ``at``, or None if there is none any more."""
    lease = record.seat
    return None if lease is None or lease.until is None or lease.until <= at else lease


def is_over(record: Record) -> bool:
    """Whether no supervisor has anything left to do: its job has ended, and no other one is to be started."""
    job = record.job
    return waiting(record) is None and (job is None or job.state.ended) and record.status is not None


def budgets(record: Record, at: datetime) -> tuple[Budget, ...] | None:
    """How much of each budget is used as of ``at``. None: its policy is not known here, or it has none."""
    kept = record.supervision.compiled if record.supervision is not None else None
    policy = policy_of(kept) if kept is not None else None
    if policy is None:
        return None
    last = record.restarts[-1].checkpoint_step if record.restarts else None
    found = record.checkpoint.step if record.checkpoint is not None else last
    return budgets_used(policy, record.restarts, found, at)
