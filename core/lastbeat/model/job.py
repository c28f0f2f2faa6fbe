"""A job: what a launcher runs, and its report."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import Enum

from lastbeat.model.data import dataclass
from lastbeat.model.persisted import Persisted


class JobState(str, Enum):
    """The launcher's word on a job."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    """The scheduler ended it, because its time was over."""
    PREEMPTED = "PREEMPTED"
    NODE_LOST = "NODE_LOST"
    GONE = "GONE"
    """Asked and answered: there is no such job, and nothing says how it ended."""
    UNKNOWN = "UNKNOWN"
    """It could not be asked. Nothing follows from that."""

    def __str__(self) -> str:
        return self.value

    @property
    def ended(self) -> bool:
        """Whether none of its processes runs any more, as far as the launcher knows."""
        return self not in {JobState.PENDING, JobState.RUNNING, JobState.UNKNOWN}


@dataclass(frozen=True)
class JobSpec(Persisted):
    """What to run."""

    command: tuple[str, ...]
    """A program and its arguments; of Slurm, a batch script and its arguments, or a program; of Kubernetes, a
    manifest's file and arguments."""
    cwd: str
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables beside ``inherited``."""
    output: str = ""
    """File for its output, in the launcher's own notation (Slurm's ``%j``). Empty: the launcher's choice."""
    options: tuple[str, ...] = ()
    """The launcher's own, as ``--partition=gpu``."""
    excluded_nodes: tuple[str, ...] = ()
    inherited: Mapping[str, str] | None = None
    """Its environment; None for that of the launcher's own process. Never recorded, because it holds secrets."""
    grace_s: float = 30.0
    """Time in s from SIGTERM to SIGKILL on cancellation, if the launcher supports that."""
    manifest: str = ""
    """Of Kubernetes: what that file held when the run was begun, as JSON. What is started is made of this alone."""


@dataclass(frozen=True, slots=True)
class GpuUse:
    """How many GPUs a launcher has given out, as it counts them itself: what they compute is not known to it."""

    used: float
    """A job may have parts of one."""
    total: float
    """Number of those that the job could have."""

    @property
    def idle(self) -> bool:
        """Whether there are GPUs and no job has any part of one."""
        return self.total > 0 and self.used <= 0


@dataclass(frozen=True, slots=True)
class JobReport:
    """A launcher's report on a job."""

    state: JobState
    said: str = ""
    """The launcher's own word: ``CANCELLED by 1000``, ``NODE_FAIL``."""
    reason: str = ""
    """Why it waits, or why it ended; for UNKNOWN, why it could not be asked."""
    exit_code: int | None = None
    signal: int | None = None
    """Number of the signal that ended it."""
    nodes: tuple[str, ...] = ()
    failed_node: str | None = None
    """The one that the launcher blames."""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    outputs: tuple[str, ...] = ()
    """Files with its output, on this machine or a file system that it shares."""
    restarts: int = 0
    """How often the launcher itself has started it again under the same id."""
    gpus: GpuUse | None = None
    """Those of the job, or of the cluster that is there for it. None: unknown."""


@dataclass(frozen=True, slots=True)
class AdoptedJob:
    """A job that lastbeat did not start, as its launcher reports it."""

    id: str
    began_at: datetime | None
    """By the launcher's clock. None: it waits for its turn."""
    cwd: str = ""
    outputs: tuple[str, ...] = ()
    """Files with its output."""
    script: str = ""
    """The text of its batch script; empty if the command that starts it is unknown."""
    options: tuple[str, ...] = ()
    """The launcher's own, as far as they are known, with which it would have to be submitted again."""
    command: tuple[str, ...] = ()
    """What starts it again, where that is a command and no script."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that were given to it beside those of the place where it runs; secrets among them."""


@dataclass(frozen=True)
class JobMemory(Persisted):
    """What the record knows of a run's present job."""

    launcher: str
    id: str
    name: str
    """What it was submitted under: ``{run_id}-r{number}``."""
    number: int
    """From 0: how many jobs the run had before."""
    submitted_at: datetime
    """By the store's clock: no file that is older is the job's."""
    state: JobState = JobState.PENDING
    said: str = ""
    reason: str = ""
    nodes: tuple[str, ...] = ()
    restarts: int = 0
    """How often the launcher itself has started it again."""
    seen_at: datetime | None = None
    """When it was first seen in this state."""
    outputs: tuple[str, ...] = ()
    """Files with its output, as the launcher names them; a few."""
    idle_since: datetime | None = None
    """Since when it runs with GPUs of which none is in use, at each look that could see them. None if one is in use, or
    their use is unknown."""

    @property
    def key(self) -> str:
        """Identifies one life of it."""
        return f"{self.name}#{self.restarts}"


@dataclass(frozen=True, slots=True)
class JobSight:
    """The present job as a supervisor sees it."""

    memory: JobMemory
    report: JobReport
    log_fault: str = ""
    """Why the log of a running job is missing, for display; empty if it exists or its place is unknown."""
    logs: tuple[str, ...] = ()
    """Files of this machine with its output, if no logs are configured."""
