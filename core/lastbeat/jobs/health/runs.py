"""The health of a run that lastbeat knows: by its record and heartbeats, and by its cluster where it runs on one."""

from typing import Final

from lastbeat.explain.launchers.traits import launcher_traits
from lastbeat.jobs.health.checkpoints import checkpoints_of
from lastbeat.jobs.health.clusters import parts_of
from lastbeat.jobs.health.judging import judged
from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.jobs.launchers.ray_exec.cluster import RayCluster, reach
from lastbeat.model.efa_use import SOCKET
from lastbeat.model.resources import Resources
from lastbeat.model.restart import Supervision
from lastbeat.model.status import EFA_FALLBACK, Status
from lastbeat.model.training_health import EfaUtilization, GpuUtilization, Level, RayResources, TrainingHealth
from lastbeat.model.view import RunView

_MB: Final = 1 << 20
_BAD: Final = frozenset({Status.FAILED, Status.TIMED_OUT, Status.CANCELLED})


def run_health(view: RunView, supervision: Supervision | None, checkpoint_dir: str | None = None) -> TrainingHealth:
    """The health of the run of ``view``. ``supervision``, from its record, says where its jobs run, and where its
    checkpoints are unless ``checkpoint_dir`` does. A cluster that does not answer is an issue, not an error."""
    status, row = view.row.status, view.row
    issues: list[tuple[Level, str]] = []
    if status in _BAD:
        issues.append(("CRITICAL", f"{row.run_id} is {status}: {row.reason}"))
    elif status is Status.UNKNOWN:
        issues.append(("UNKNOWN", f"{row.run_id} could not be looked at: {row.reason}"))
    issues += [("WARNING", f"{name}: {detail}" if detail else name) for name, detail in view.conditions.items()]
    if row.doubt is not None and status is Status.RUNNING:
        issues.append(("WARNING", row.doubt))
    cluster = _cluster(supervision, issues)
    gpu = efa = resources = None
    momentary = False
    if not status.finished:
        # A job that has ended uses no GPUs, which is no problem.
        gpu, efa, resources = _of_cluster(cluster, issues)
        told = _by_heartbeat(view.resources) if gpu is None or gpu.gpu_count is None else None
        gpu, momentary = told or gpu, told is not None
    if efa is None and EFA_FALLBACK in view.conditions:
        efa = EfaUtilization(efa_active=False, transport=SOCKET, fallback=True)
    place = checkpoint_dir or (supervision.checkpoints if supervision is not None else "")
    checkpoints = checkpoints_of(place, cluster, issues) if place else None
    job = f"{row.run_id}: {status}" + (f" at step {row.step}" if row.step is not None else "")
    return judged(gpu, efa, resources, checkpoints, issues, place=place, job=job, momentary=momentary)


def _cluster(supervision: Supervision | None, issues: list[tuple[Level, str]]) -> RayCluster | None:
    """The Ray cluster of the run's jobs. None: they run elsewhere, or it cannot be asked, which is an issue then."""
    if supervision is None:
        return None
    head = launcher_traits(supervision.launcher).ray_head(supervision.spec.options, supervision.place)
    if head is None:
        return None
    try:
        return reach(head)
    except LauncherError as error:
        issues.append(("WARNING", f"its cluster cannot be asked: {error.told}"))
        return None


def _of_cluster(
    cluster: RayCluster | None, issues: list[tuple[Level, str]]
) -> tuple[GpuUtilization | None, EfaUtilization | None, RayResources | None]:
    if cluster is None:
        return None, None, None
    try:
        gpu, efa, resources, more = parts_of(cluster)
    except LauncherError as error:
        issues.append(("WARNING", f"its cluster cannot be asked: {error.told}"))
        return None, None, None
    issues += more
    return gpu, efa, resources


def _by_heartbeat(resources: Resources | None) -> GpuUtilization | None:
    """The GPUs in the heartbeat of training. None: it has none."""
    if resources is None or not resources.gpus:
        return None
    used = [None if gpu.utilization is None else 100 * gpu.utilization for gpu in resources.gpus]
    known = [each for each in used if each is not None]
    return GpuUtilization(
        len(used),
        [each or 0.0 for each in used],
        [(gpu.memory_used_bytes or 0) / _MB for gpu in resources.gpus],
        [(gpu.memory_total_bytes or 0) / _MB for gpu in resources.gpus],
        [],
        round(sum(known) / len(known), 2) if known else None,
        healthy=True,
    )
