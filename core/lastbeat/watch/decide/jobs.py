"""What the launcher's report on a run's job means for the run."""

import signal
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Final

from lastbeat import explain
from lastbeat.explain.causes import exit_codes
from lastbeat.explain.signals import hints
from lastbeat.explain.signals.error_types import TIMEOUT, TYPES
from lastbeat.model import status as names
from lastbeat.model.action import Action
from lastbeat.model.job import JobMemory, JobReport, JobSight, JobState
from lastbeat.model.record import Finding, Record
from lastbeat.model.restart import RESTART_KIND
from lastbeat.model.state import State
from lastbeat.model.status import Status
from lastbeat.model.text import counted, one_line
from lastbeat.model.times import format_duration

QUEUED_S: Final = 86400.0
"""How long, in seconds, a job last seen pending excuses a run without output while its launcher cannot be asked."""
_OLD_OUTPUTS: Final = 32
STANDSTILL_S: Final = 60.0
"""Seconds that a job may stay alive after a failure in its log."""
_CAUSES: Final = {
    JobState.CANCELLED: "cancelled",
    JobState.PREEMPTED: "cancelled",
    JobState.TIMEOUT: "time_limit",
    JobState.NODE_LOST: "hardware",
}
_TERMINATED: Final = 128 + signal.SIGTERM
"""Exit status of a shell whose command was ended by SIGTERM."""


def judge(sight: JobSight, *, beats: bool, says_done: str | None, lives: bool) -> State | None:
    """The run's state by its job, or None if heartbeats and logs decide.

    ``beats``: a heartbeat or a log of this attempt exists. ``says_done``: the log line that says training is done.
    ``lives``: a heartbeat is fresh.
    """
    memory, report = sight.memory, sight.report
    traits = launcher_traits(memory)
    name = f"job {memory.id}" + ("" if report.restarts == 0 else f" (started again {counted(report.restarts, 'time')})")
    if report.state is JobState.PENDING:
        why = one_line(report.reason) or "no reason given"
        return State(Status.RUNNING, f"{name} waits for its turn ({why})")
    if report.state is JobState.RUNNING:
        return None if beats else State(Status.RUNNING, f"{name} runs; it has written nothing yet")
    if report.state is JobState.UNKNOWN:
        if beats:
            return None
        return State(Status.RUNNING, f"{name} was {memory.state} when it could last be asked about")
    if report.state is JobState.SUCCEEDED:
        return State(Status.SUCCEEDED, f"{name} ended well ({one_line(report.said)})")
    if report.state is JobState.GONE:
        if lives and not traits.gone_is_dead:
            # A scheduler may have lost track of it.
            return None
        if says_done is not None:
            return State(Status.SUCCEEDED, f"{name} is over, and its log reports the end of training: {says_done}")

        told = f"{name} is gone: {one_line(report.reason)}"
        return State(Status.TIMED_OUT, told, TIMEOUT, TYPES[TIMEOUT].hint)
    cause = traits.causes.get(report.state) or _CAUSES.get(report.state)
    if cause is None and (report.signal == signal.SIGTERM or report.exit_code == _TERMINATED):
        # No scheduler names the sender: it may be a person, or a machine about to be preempted. A Ctrl-C is SIGINT.
        cause = _CAUSES[JobState.CANCELLED]
    ended = report.exit_code if report.signal is None else -report.signal
    what_to_do = hints.UNEXPLAINED_FAILURE if not ended else exit_codes.hint_of(ended)
    if report.signal is not None:
        what_to_do = traits.signal_remedies.get(report.signal, what_to_do)
    cause, what_to_do = traits.ends.get(report.said, (cause, what_to_do))
    return State(Status.FAILED, f"{name}: {_how(sight)}", cause, what_to_do)


def old_outputs(before: Record, sight: JobSight | None) -> tuple[str, ...]:
    """Files with the output of earlier jobs; the latest ones."""
    if before.job is None or sight is None or sight.memory.name == before.job.name:
        return before.old_outputs
    return tuple(dict.fromkeys((*before.old_outputs, *before.job.outputs)))[-_OLD_OUTPUTS:]


def spent_outputs(record: Record | None) -> frozenset[str]:
    """The earlier jobs' output files, which do not apply to the current job: a scheduler may write to them late."""
    if record is None or record.job is None:
        return frozenset()
    if not record.job.outputs and record.job.state is not JobState.PENDING:
        # It may write into the same files; while it waits in the queue it writes nothing.
        return frozenset()
    return frozenset(record.old_outputs) - {*record.job.outputs}


def queued(job: JobMemory | None, sight: JobSight | None, now: datetime) -> str | None:
    """Why a run that has shown nothing is excused although its launcher was not asked now, or None if it is not."""
    if job is None or sight is not None or job.state.ended or job.seen_at is None:
        return None
    waited_s = (now - job.seen_at).total_seconds()
    if waited_s > QUEUED_S:
        return None
    ago = format_duration(max(0.0, waited_s))
    if job.state is JobState.RUNNING:
        return f"job {job.id} began {ago} ago, and has written nothing yet"
    return f"job {job.id} waited for its turn {ago} ago"


def may_get_over(sight: JobSight | None, finding: Finding | None, now: datetime) -> bool:
    """Whether a live job may still get over the failure in its log, or end. One alert then covers its end and what
    follows from it."""
    if sight is None or finding is None:
        return False
    job = sight.memory
    if sight.report.state is JobState.PENDING:
        # It has written nothing yet. Slurm still records the requeue when the job is in the queue again.
        return job.restarts > 0
    if sight.report.state is not JobState.RUNNING:
        return False
    if job.restarts > 0 and job.seen_at is not None and finding.seen_at <= job.seen_at:
        return True
    return (now - finding.seen_at).total_seconds() < STANDSTILL_S


def ending_name(job: JobMemory) -> str:
    """The name of the action that ends ``job`` because it failed, is not restarted, and still runs."""
    return f"end-{job.name}" + (f"-{job.restarts}" if job.restarts else "")


def starting(actions: Iterable[Action], job: JobMemory | None, now: datetime) -> str | None:
    """The job that is about to start, or was started and not seen since, in words; or None if there is none."""
    begun = [each for each in actions if each.kind == RESTART_KIND and each.failed is None]
    newest = begun[-1] if begun else None
    if newest is None or (job is not None and job.name == newest.name):
        return None
    since = newest.done_at or newest.asked_at
    if (now - since).total_seconds() > QUEUED_S:
        return None
    if newest.done_at is not None:
        return f"job {newest.name} was started"
    return f"job {newest.name} is about to start" + (f": {one_line(newest.last_error)}" if newest.last_error else "")


def never_started(actions: Iterable[Action], job: JobMemory | None) -> str | None:
    """Why the run has no job: its first one was refused. None if it has a job, or may still get one."""
    newest = next((each for each in reversed(tuple(actions)) if each.kind == RESTART_KIND), None)
    if job is not None or newest is None or newest.failed is None:
        return None
    return f"job {newest.name} could not be started: {one_line(newest.failed)}"


def _how(sight: JobSight) -> str:
    report = sight.report
    said = one_line(report.said) or report.state.value
    told = [said] if report.signal is None or said != f"signal {report.signal}" else []
    if report.signal is not None:
        told.append(exit_codes.as_evidence(-report.signal))
    elif report.exit_code is not None and f"{report.exit_code}" not in said:
        told.append(f"exit status {report.exit_code}")
    if report.reason and report.reason not in said:
        told.append(one_line(report.reason))
    if report.failed_node:
        told.append(f"node {one_line(report.failed_node)}")
    return ", ".join(told)


if TYPE_CHECKING:
    from lastbeat.explain.launchers.traits import LauncherTraits

HOPELESS_S: Final = 300.0
"""A job that cannot start as it is raises an alert after this many seconds: waiting longer changes nothing."""
IDLE_S: Final = 600.0
"""Idle GPUs raise an alert after this many seconds: loading data and a model may take minutes."""


_NO_LOG: Final = "Without its log the cause of a failure stays unknown."


def launcher_traits(job: JobMemory) -> "LauncherTraits":
    """The traits of the launcher that runs the job."""
    return explain.launchers.traits.launcher_traits(job.launcher)


def idle_since(known: datetime | None, report: JobReport, now: datetime) -> datetime | None:
    """Since when the job has run without using any of its GPUs, or None if it uses them. ``known`` is the last look's
    answer for the same state. It stands while GPU use is unknown: unknown is neither use nor idleness."""
    if report.state is not JobState.RUNNING:
        return None
    if report.gpus is None:
        return known
    return (known or now) if report.gpus.idle else None


def remedy(raised: Collection[str], job: JobMemory | None) -> str | None:
    """What to do about the conditions ``raised`` of the job, or None."""
    if job is None:
        return None
    traits = launcher_traits(job)
    if names.JOB_PENDING in raised:
        parts = (traits.wait_reason(job.reason).remedy, traits.pending_remedy)
        return "; ".join(part.replace("ID", job.id) for part in parts if part)
    if names.JOB_LOG_MISSING in raised:
        look = traits.log_remedy(job.id)
        if traits.remote:
            # lastbeat fetches the log itself, so another path for it does not help.
            return f"{look} by hand says the same. {_NO_LOG}"
        return (
            f"{look}; make that folder, writable for the job on its nodes, or give --output (and --log) a path that "
            f"this machine sees, too. {_NO_LOG}"
        )
    return traits.idle_gpus_remedy if names.GPU_IDLE in raised else None
