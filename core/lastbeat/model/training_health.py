"""The health of a training run and of its cluster at one moment: frozen data that are mappings, too."""

from dataclasses import dataclass, field
from typing import Literal

from lastbeat.model.as_mapping import AsMapping

Level = Literal["OK", "WARNING", "CRITICAL", "UNKNOWN"]


@dataclass(frozen=True, eq=False)
class GpuProcess(AsMapping):
    """A process that computes on a GPU, as the driver tells."""

    pid: int
    name: str
    memory: float | None
    """MB. None: the driver does not tell."""
    place: str
    """Its pod, or its node."""


@dataclass(frozen=True, eq=False)
class GpuUtilization(AsMapping):
    """The GPUs of some pods, or of all nodes, at one moment. Lists have an entry a GPU, in one order."""

    gpu_count: int | None
    """None: no place could be asked, and ``faults`` says why."""
    gpu_utilizations: list[float]
    """Percent. A GPU that does not tell is left out of the average, and counts as 0 here."""
    memory_used: list[float]
    """MB."""
    memory_total: list[float]
    """MB."""
    processes: list[GpuProcess]
    """In a container the driver may show none."""
    avg_utilization: float | None
    """Percent, over all GPUs of all places. None: there is no GPU, or none tells."""
    healthy: bool
    """The check succeeded: every place could be asked, and its GPUs report their load, even if they are idle."""
    faults: list[str] = field(default_factory=list)
    """The places that could not be asked, and why, a line each."""


@dataclass(frozen=True, eq=False)
class RayResources(AsMapping):
    """The resources that Ray has given out. Ray does not know what GPUs compute."""

    gpus_available: float
    """All that the cluster has, given out or not."""
    gpus_used: float
    """Given out to jobs, tasks and actors."""
    cpus_available: float
    cpus_used: float
    healthy: bool
    """The cluster has GPUs, and no node of it has failed."""
    failed_nodes: int = 0
    """Nodes that Ray counts among its recent failures."""
    pending: list[str] = field(default_factory=list)
    """What waits for resources, in words, a few."""


@dataclass(frozen=True, eq=False)
class EfaUtilization(AsMapping):
    """Whether NCCL's traffic goes over EFA, by its own lines in the logs of Ray's workers."""

    efa_active: bool | None
    """None: no line tells, as where NCCL_DEBUG is not INFO."""
    transport: str
    """``efa``, ``socket``, ``ib`` or ``unknown``."""
    fallback: bool = False
    """It goes over sockets, though EFA is there or was asked for."""


@dataclass(frozen=True, eq=False)
class CheckpointHealth(AsMapping):
    """What lies in a place of checkpoints."""

    latest_step: int | None
    """Step of the newest complete checkpoint; None without one, or if its name has no step."""
    latest: str | None = None
    """That checkpoint: a path or an address. None: there is none."""
    count: int | None = 0
    """How many there are, complete or not. None: the place could not be listed."""
    saved_at: str | None = None
    """When the newest complete one was saved, as 2026-01-31T12:00:00Z."""
    fault: str = ""
    """Why the place could not be listed. Empty: it was."""


@dataclass(frozen=True, eq=False)
class TrainingHealth(AsMapping):
    """The health of a training run at one moment. If a part could not be asked, an issue says why."""

    healthy: bool
    """Nothing critical was found, and whatever was asked could answer. Warnings may be among the issues."""
    gpu: GpuUtilization | None
    """None: it was not asked, as of a run that is over."""
    efa: EfaUtilization | None
    ray: RayResources | None
    checkpoints: CheckpointHealth | None
    """None: no place was named."""
    issues: list[str]
    """A sentence each, with what to do; the worst first."""
    level: Level = "OK"
    """The worst of them."""
    job: str = ""
    """What is known of the run, where a run was asked about."""
