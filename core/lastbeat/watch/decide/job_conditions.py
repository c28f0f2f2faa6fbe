"""What a launcher's report on a job that has not ended means, and the remedies of its conditions. Pure."""

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Final

from lastbeat import explain
from lastbeat.model import status as names
from lastbeat.model.job import JobMemory, JobReport, JobState

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
