"""What the functions of ``lastbeat.launch.ray`` return about jobs: frozen dataclasses that are mappings, too."""

from dataclasses import dataclass
from typing import Literal

from lastbeat.model.as_mapping import AsMapping

JobStatus = Literal["RUNNING", "FAILED", "SUCCEEDED", "PENDING", "UNKNOWN"]
"""UNKNOWN: the cluster could not be asked, or knows no such job. A job that a user stopped is FAILED."""


@dataclass(frozen=True, eq=False)
class RestartResult(AsMapping):
    """The end of a job that was restarted as long as that helped."""

    success: bool
    final_step: int | None
    """The last step in its log, or else that of its last checkpoint. None: neither is known."""
    total_retries: int
    """Restarts that happened."""
    reason: str
    """Why it ended, in a sentence."""


@dataclass(frozen=True, eq=False)
class MonitorResult(AsMapping):
    """How a job was when watching it ended."""

    status: JobStatus
    """RUNNING or PENDING where the time was over."""
    duration: float
    """Time for which it was watched, in s."""
    final_step: int | None
    """The last step in its log. None: it shows none, or could not be read."""


@dataclass(frozen=True, eq=False)
class JobProgress(AsMapping):
    """How far a job is, by its log. None: the log does not show it."""

    step: int | None
    total_steps: int | None
    loss: float | None
    throughput: float | None
    throughput_unit: str
    """``it/s``, ``samples/s``, ``tokens/s``, …; empty if the log shows no throughput."""
