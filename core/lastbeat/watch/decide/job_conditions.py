"""What launchers' words on a job that has not ended mean, and what to do about its conditions. Pure."""

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Final

from lastbeat.model import status as names
from lastbeat.model.job import JobMemory, JobReport, JobState

if TYPE_CHECKING:
    from lastbeat.launchers.traits import LauncherTraits

HOPELESS_S: Final = 300.0
"""A job that cannot start as it is, is told of after this: waiting longer mends nothing."""
IDLE_S: Final = 600.0
"""GPUs that nobody uses are told of after this: loading data and a model may take minutes."""


_NO_LOG: Final = "Without its log nobody can say why it fails."


def launcher_traits(job: JobMemory) -> "LauncherTraits":
    """The traits of the launcher that runs the job."""
    from lastbeat.launchers import registry  # noqa: PLC0415 - only where there is a job

    return registry.traits(job.launcher)


def idle_since(known: datetime | None, report: JobReport, now: datetime) -> datetime | None:
    """Since when the job has run without using any of its GPUs. ``known``: what the last look made of that, where the
    job was in the same state. While nobody can tell, that stands: unknown is neither use nor idleness."""
    if report.state is not JobState.RUNNING:
        return None
    if report.gpus is None:
        return known
    return (known or now) if report.gpus.idle else None


def remedy(raised: Collection[str], job: JobMemory | None) -> str | None:
    """What to do about a condition of the job."""
    if job is None:
        return None
    traits = launcher_traits(job)
    if names.JOB_PENDING in raised:
        parts = (traits.wait_reason(job.reason).remedy, traits.pending_remedy)
        return "; ".join(part.replace("ID", job.id) for part in parts if part)
    if names.JOB_LOG_MISSING in raised:
        look = traits.log_remedy(job.id)
        if traits.remote:
            # lastbeat brings the log by itself, so no other path for it is of use.
            return f"{look} by hand says the same. {_NO_LOG}"
        return (
            f"{look}; make that folder, writable for the job on its nodes, or give --output (and --log) a path that "
            f"this machine sees, too. {_NO_LOG}"
        )
    return traits.idle_gpus_remedy if names.GPU_IDLE in raised else None
