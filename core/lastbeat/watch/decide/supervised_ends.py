"""When the end of a supervised run is recorded, and who decides about its restart. Pure.

Only a supervisor decides about a restart, for only it can ask the launcher. It waits a moment for the job's exit
status, which may decide. Another watcher leaves the end to a supervisor that holds its lease, so that one alert covers
the end and the decision. Otherwise that watcher records the end, and its alert names who decides.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from lastbeat.model.job import JobState
from lastbeat.model.restart import RESTART_KIND, Supervision
from lastbeat.model.status import UNWELL, Status
from lastbeat.watch.decide.jobs import STANDSTILL_S
from lastbeat.watch.decide.transition import Decision


def defer_until(decision: Decision, now: datetime, *, supervises: bool) -> datetime | None:
    """When the end that ``decision`` found will be recorded, or None if it is recorded now. ``supervises``: this watch
    supervises the run."""
    if decision.transition is None or decision.record.supervision is None:
        return None
    until = job_ends_by(decision) if supervises else _supervisor_decides_by(decision)
    return until if until is not None and now < until else None


def job_ends_by(decision: Decision) -> datetime | None:
    """When a job should have ended after its training wrote that it failed or was preempted, or None if there is no end
    to wait for."""
    sight, said, status = decision.seen.job, decision.seen.end, decision.verdict.status
    if sight is None or said is None or not _has_policy(decision.record.supervision):
        return None
    if status not in {Status.FAILED, Status.PREEMPTED} or sight.report.state is not JobState.RUNNING:
        return None
    return said.modified + timedelta(seconds=STANDSTILL_S)


def _supervisor_decides_by(decision: Decision) -> datetime | None:
    """When the lease of the run's supervisor expires, or None if no supervisor holds one."""
    lease, transition = decision.record.seat, decision.transition
    return lease.until if lease is not None and transition is not None and transition.after.finished else None


def undecided_restart(decision: Decision) -> Supervision | None:
    """The supervision of a run that ``decision`` finds failed, if its supervisor has yet to decide about a restart."""
    record, transition = decision.record, decision.transition
    supervision, job, ruling = record.supervision, record.job, record.ruling
    if transition is None or transition.after not in UNWELL or not _has_policy(supervision):
        return None
    if any(each.kind == RESTART_KIND and not each.settled for each in record.actions):
        return None
    decided = ruling is not None and (job is None or ruling.number >= job.number)
    return None if decided else supervision


def with_decider(decision: Decision, supervision: Supervision, agent: str | None) -> Decision:
    """``decision``, whose alert names who decides about the restart. ``agent`` is the ``user@host`` of an agent that
    runs for the run's launcher, or None if none was seen."""
    if agent is not None:
        return replace(decision, restart_note=f"the agent{_on_host(agent)} decides")
    lease = decision.record.seat
    by = _on_host(lease.by if lease is not None else supervision.by)
    resume = f"lastbeat restart {decision.record.run_id}"
    return replace(decision, restart_note=f"its supervisor{by} decides; if none runs: {resume}")


def _has_policy(supervision: Supervision | None) -> bool:
    return supervision is not None and bool(supervision.policy or supervision.compiled is not None)


def _on_host(by: str) -> str:
    host = by.rpartition("@")[2] if "@" in by else ""
    return f" on {host}" if host else ""
