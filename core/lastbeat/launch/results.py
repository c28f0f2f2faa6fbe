"""What the functions of ``lastbeat.launch.ray`` return: frozen dataclasses that are mappings, too.

``result.success`` is ``result["success"]``, and ``dict(result)`` is plain data that ``json.dumps`` takes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

JobStatus = Literal["RUNNING", "FAILED", "SUCCEEDED", "PENDING", "UNKNOWN"]
"""UNKNOWN: the cluster could not be asked. A job that somebody stopped is FAILED."""

Level = Literal["OK", "WARNING", "CRITICAL", "UNKNOWN"]


class LaunchResult(Mapping[str, Any]):
    """A dataclass as a mapping of its fields. What it holds comes out of it as plain data."""

    def __getitem__(self, name: str) -> Any:
        if name not in self._names():
            raise KeyError(name)
        return _plain(getattr(self, name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def _names(self) -> tuple[str, ...]:
        return tuple(each.name for each in fields(self))  # type: ignore[arg-type] # all that inherit are dataclasses


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(value[name]) for name in value}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, eq=False)
class RestartResult(LaunchResult):
    """What became of a job that was restarted as long as that helped."""

    success: bool
    final_step: int | None
    """The last step that its logs told of, or its last checkpoint. None: neither is known."""
    total_retries: int
    """Restarts that happened."""
    reason: str
    """Why it ended, in a sentence."""


@dataclass(frozen=True, eq=False)
class MonitorResult(LaunchResult):
    """How a job was when watching it ended."""

    status: JobStatus
    """RUNNING or PENDING where the time was over."""
    duration: float
    """Seconds that it was watched."""
    final_step: int | None
    """The last step in its log. None: it shows none, or could not be read."""


@dataclass(frozen=True, eq=False)
class JobProgress(LaunchResult):
    """How far a job is, by its log. None: the log does not show it."""

    step: int | None
    total_steps: int | None
    loss: float | None
    throughput: float | None
    throughput_unit: str
    """``it/s``, ``samples/s``, ``tokens/s``, …; empty: none is told."""


@dataclass(frozen=True, eq=False)
class GpuProcess(LaunchResult):
    """A process that computes on a GPU, as the driver tells."""

    pid: int
    name: str
    memory: float | None
    """MB. None: the driver does not tell."""
    place: str
    """Its pod, or its node."""


@dataclass(frozen=True, eq=False)
class GpuUtilization(LaunchResult):
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
    """The check succeeded: every place could be asked, and GPUs there say how busy they are. Idle ones do, too."""
    faults: list[str] = field(default_factory=list)
    """The places that could not be asked, and why, a line each."""


@dataclass(frozen=True, eq=False)
class RayResources(LaunchResult):
    """What Ray has given out. What GPUs compute is not known to it."""

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
class EfaUtilization(LaunchResult):
    """Whether NCCL's traffic goes over EFA, by its own lines in the logs of Ray's workers."""

    efa_active: bool | None
    """None: no line tells, as where NCCL_DEBUG is not INFO."""
    transport: str
    """``efa``, ``socket``, ``ib`` or ``unknown``."""
    fallback: bool = False
    """It goes over sockets, though EFA is there or was asked for."""


@dataclass(frozen=True, eq=False)
class CheckpointHealth(LaunchResult):
    """What lies in a place of checkpoints."""

    latest_step: int | None
    """Of the newest complete one. None: there is none, or its name tells no step."""
    latest: str | None = None
    """That checkpoint: a path or an address. None: there is none."""
    count: int | None = 0
    """How many there are, complete or not. None: the place could not be listed."""
    saved_at: str | None = None
    """When the newest complete one was saved, as 2026-01-31T12:00:00Z."""
    fault: str = ""
    """Why the place could not be listed. Empty: it was."""


@dataclass(frozen=True, eq=False)
class TrainingHealth(LaunchResult):
    """A training at one moment. Where something could not be asked, an issue says why."""

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
