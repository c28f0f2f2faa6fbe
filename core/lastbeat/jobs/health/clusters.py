"""The health of a Ray cluster: asks for its GPUs, its resources and its network, each by itself, and all together."""

from collections.abc import Callable
from typing import Final, TypeVar

from lastbeat.explain.causes.efa import efa_use
from lastbeat.jobs.health.checkpoints import checkpoints_of
from lastbeat.jobs.health.judging import judged
from lastbeat.jobs.launchers.kubectl import AbsentError
from lastbeat.jobs.launchers.port import JobRefusedError, LauncherError
from lastbeat.jobs.launchers.ray.gpus import utilization
from lastbeat.jobs.launchers.ray_exec.cluster import RayCluster
from lastbeat.model.training_health import EfaUtilization, GpuUtilization, Level, RayResources, TrainingHealth

T = TypeVar("T")

_GPUS: Final = "GPUs"


def health_of(cluster: RayCluster, checkpoint_dir: str | None) -> TrainingHealth:
    """The health of ``cluster``, and of the checkpoints in ``checkpoint_dir``. A part that does not answer is an issue.

    Raises :class:`JobRefusedError` or :class:`AbsentError` if the cluster can never answer as things are.
    """
    gpu, efa, resources, issues = parts_of(cluster)
    if gpu.gpu_count is None and resources is not None:
        issues.append(("UNKNOWN", "nothing is known of the GPUs"))
    place = checkpoint_dir or ""
    checkpoints = checkpoints_of(place, cluster, issues) if place else None
    return judged(gpu, efa, resources, checkpoints, issues, place=place)


def parts_of(
    cluster: RayCluster,
) -> tuple[GpuUtilization, EfaUtilization | None, RayResources | None, list[tuple[Level, str]]]:
    """The parts of the report on ``cluster``, and an issue for each without an answer. Raises as :func:`health_of`."""
    faults: dict[str, list[str]] = {}
    gpu = _part(_GPUS, lambda: gpus_of(cluster), faults)
    resources = _part("Ray's resources", lambda: resources_of(cluster), faults)
    efa = _part("NCCL's lines", lambda: efa_of(cluster), faults)
    # Several parts may have one reason.
    told = [f"{', '.join(parts)} could not be looked at: {why}" for why, parts in faults.items()]
    if gpu is None:
        why = [why for why, parts in faults.items() if parts[0] == _GPUS]
        gpu = GpuUtilization(None, [], [], [], [], None, healthy=False, faults=why)
    return gpu, efa, resources, [("WARNING", each) for each in told]


def _part(what: str, ask: Callable[[], T], faults: dict[str, list[str]]) -> T | None:
    """The answer, or None if there is none; then ``faults`` gets the reason."""
    try:
        return ask()
    except (JobRefusedError, AbsentError):
        raise
    except LauncherError as error:
        faults.setdefault(error.told, []).append(what)
        return None


def gpus_of(cluster: RayCluster) -> GpuUtilization:
    """How busy the GPUs of the cluster are. Raises :class:`LauncherError` where no place could be asked."""
    places, faults = cluster.gpus()
    if not places and faults:
        raise LauncherError(f"no place with GPUs could be asked: {faults[0]}")
    return utilization(places, faults)


def resources_of(cluster: RayCluster) -> RayResources:
    """What the cluster has and has given out. Raises :class:`LauncherError` where it does not tell."""
    found = cluster.jobs.resources()
    if found is None:
        raise LauncherError(f"{cluster.jobs.address} does not tell what it has", "`ray status` on the head tells")
    return found


def efa_of(cluster: RayCluster) -> EfaUtilization:
    """Whether NCCL's traffic goes over EFA, by the logs of Ray's workers and drivers. Raises :class:`LauncherError`."""
    use = efa_use(cluster.network_lines())
    return EfaUtilization(use.active, use.transport, use.fallback)
