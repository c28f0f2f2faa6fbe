"""Restarts that a person asks for: of a job that waits for its delay, is over, hangs or runs. Pure.

Only the request is made here, by one conditional write of the record. The run's supervisor chooses the checkpoint,
makes sure that the old job is dead, and starts the next one once, as after a failure.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from lastbeat.jobs.stopping import waiting_start
from lastbeat.jobs.supervision.restart_decisions import present_job
from lastbeat.jobs.supervision.restarting import job_name
from lastbeat.model.record import Record
from lastbeat.model.restart import RestartRequest
from lastbeat.model.status import Status
from lastbeat.model.times import format_duration
from lastbeat.stores.port import StoreError

REQUEST_S: Final = 3600.0
"""A request lapses after this many seconds: a supervisor that begins days later must not restart the run."""
NOT_RESTARTED: Final = frozenset({Status.SUCCEEDED, Status.CANCELLED})
"""A run that ended as it should, or that a person ended, is begun again in a terminal only."""


class NotRestartedError(StoreError):
    """The run cannot be restarted, or is no longer what the person saw."""


@dataclass(frozen=True, slots=True)
class AskedRestart:
    """A restart that can be asked for, or that is under way already."""

    record: Record
    """The record with the request; the same one if nothing is left to ask for."""
    job: str
    """Name of the job that starts."""
    outlook: str
    """What happens, in a sentence or two for the person who asks."""


def ask_restart(record: Record | None, run_id: str, by: str, now: datetime, agent: str | None) -> AskedRestart:
    """The restart of the run's job. ``agent`` is the agent at work for the run's launcher, if there is one.

    Raises :class:`NotRestartedError`.
    """
    if record is None or record.supervision is None:
        what = f"{run_id} is not supervised, so lastbeat cannot start its job"
        raise NotRestartedError(what, "see: lastbeat restart supervise --help")
    lease = record.seat
    at_work = agent is not None or (lease is not None and lease.until is not None and lease.until > now)
    late = "" if at_work else f" No supervisor is at work: start it by 'lastbeat restart {run_id}'."
    waiting = waiting_start(record)
    if waiting is not None:
        if not waiting.untouched or waiting.not_before is None or waiting.not_before <= now:
            return AskedRestart(record, waiting.name, f"Job {waiting.name} is about to start.{late}")
        left = format_duration(waiting.not_before - now)
        begun = replace(waiting, not_before=None)
        actions = tuple(begun if each is waiting else each for each in record.actions)
        after = replace(record, actions=actions).with_intervention(now, by, f"started job {begun.name} {left} early")
        return AskedRestart(after, begun.name, f"Job {begun.name} starts now, instead of in {left}.{late}")
    job = present_job(record, record.supervision.launcher)
    if job is None or record.status is None or record.status in NOT_RESTARTED:
        how = f"is {record.status}" if record.status is not None else "has not begun"
        advice = "begin it again: lastbeat restart supervise --help"
        raise NotRestartedError(f"{run_id} {how}, and is not restarted from here", advice)
    name = job_name(run_id, job.number + 1)
    ends = f"Job {job.id} is ended first. " if not job.state.ended else ""
    resumes = " from the last complete checkpoint" if record.supervision.checkpoints else ""
    if not at_work:
        within = format_duration(REQUEST_S)
        late = f" No supervisor is at work: within {within}, 'lastbeat restart {run_id}' does it."
    outlook = f"{ends}Job {name} starts{resumes}, whatever the policy says; it counts as one of its restarts.{late}"
    known = record.restart_request
    if known is not None and known.number == job.number and (now - known.at).total_seconds() <= REQUEST_S:
        return AskedRestart(record, name, f"{known.by} has asked for that already. {outlook}")
    asked = replace(record, restart_request=RestartRequest(job.number, by, now))
    return AskedRestart(asked.with_intervention(now, by, f"asked for job {name}"), name, outlook)
