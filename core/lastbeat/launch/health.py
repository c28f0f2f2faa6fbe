"""Is a training healthy: its GPUs, its network, Ray's resources, its checkpoints; each by itself, and all together."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from lastbeat.explain.causes.efa import efa_use
from lastbeat.launch import ray_words
from lastbeat.launch.checkpoints import checkpoint_health
from lastbeat.launch.cluster import RayCluster
from lastbeat.launch.errors import LaunchError, NotReachedError, NotSetUpError
from lastbeat.launch.reaching import reach, translated
from lastbeat.launch.results import (
    CheckpointHealth,
    EfaUtilization,
    GpuUtilization,
    Level,
    RayResources,
    TrainingHealth,
)
from lastbeat.model.text import counted, one_line

T = TypeVar("T")

FIX_EFA: Final = (
    "set NCCL_NET=ofi, and put /opt/amazon/ofi-nccl/lib/x86_64-linux-gnu into LD_LIBRARY_PATH, for every worker"
)
UNUSED_GPUS: Final = (
    "look whether the training has begun; where `ray job submit` leaves GPUs unused, start it in the head pod: "
    "lastbeat supervise --launcher ray-pod"
)
IN_USE_PERCENT: Final = 5.0
"""GPUs whose average is below do nothing: a training keeps them busier, and a driver's own work is less."""
_DEFAULT_NAMESPACE: Final = "default"
_GPUS: Final = "GPUs"
_ORDER: Final[tuple[Level, ...]] = ("CRITICAL", "UNKNOWN", "WARNING", "OK")


def check_gpu_utilization(
    head_pod: str, all_pods: Sequence[str] | str | None = None, namespace: str = _DEFAULT_NAMESPACE
) -> GpuUtilization:
    """How busy the GPUs are now: those of ``all_pods``, else of the head pod, by ``nvidia-smi`` in them; of an address
    those of all nodes, as the dashboard tells. Averages are over all GPUs of all places. The namespace may be the
    second argument, too: ``check_gpu_utilization("ray-head", "ml")``.

    Raises :class:`NotSetUpError` where no try can succeed, and :class:`NotReachedError` where no place could be asked;
    why only some could not be is among the ``faults``.
    """
    if isinstance(all_pods, str) and namespace == _DEFAULT_NAMESPACE:
        return gpus_of(reach(head_pod, all_pods))
    return gpus_of(reach(head_pod, namespace, _pods(all_pods)))


def _pods(named: Sequence[str] | str | None) -> Sequence[str]:
    """The names of pods; text is one name."""
    return (named,) if isinstance(named, str) else named or ()


def verify_ray_resources(head_pod: str, namespace: str = "default") -> RayResources:
    """What the cluster has, and what of it is given out. Raises :class:`NotSetUpError` and :class:`NotReachedError`."""
    return resources_of(reach(head_pod, namespace))


def check_efa_utilization(head_pod: str, namespace: str = "default") -> EfaUtilization:
    """Whether NCCL's traffic goes over EFA, by what NCCL says (with NCCL_DEBUG=INFO) in the logs of Ray's workers and
    drivers. That an EFA device is there says nothing. Raises :class:`NotSetUpError` and :class:`NotReachedError`."""
    return efa_of(reach(head_pod, namespace))


def get_training_health(
    head_pod: str,
    checkpoint_dir: str | None = None,
    all_pods: Sequence[str] | str | None = None,
    namespace: str = _DEFAULT_NAMESPACE,
) -> TrainingHealth:
    """All of it, and what is wrong, with what to do. What could not be asked is an issue; ``gpu`` and ``checkpoints``
    have their usual keys then, and say why.

    Raises :class:`NotSetUpError` where nothing can ever be asked as things are: no kubectl, no such pod, an address
    that is none.
    """
    return health_of(reach(head_pod, namespace, _pods(all_pods)), checkpoint_dir)


def print_training_health(
    head_pod: str | TrainingHealth,
    checkpoint_dir: str | None = None,
    all_pods: Sequence[str] | str | None = None,
    namespace: str = _DEFAULT_NAMESPACE,
) -> TrainingHealth:
    """Print what :func:`get_training_health` returns, and return it. Raises the same. The first argument may be such a
    report itself."""
    if not isinstance(head_pod, str | TrainingHealth):
        what = f"print_training_health cannot print a {type(head_pod).__name__}"
        raise NotSetUpError(what, "hand it what get_training_health returned, or the arguments of that")
    report = head_pod if isinstance(head_pod, TrainingHealth) else None
    found = report or get_training_health(str(head_pod), checkpoint_dir, all_pods, namespace)
    print("\n".join(lines(found)))  # noqa: T201 - that is what it is for
    return found


def health_of(cluster: RayCluster, checkpoint_dir: str | None) -> TrainingHealth:
    """The health of ``cluster``. Raises :class:`NotSetUpError` where it can never be asked as things are."""
    gpu, efa, resources, issues = parts_of(cluster)
    if gpu.gpu_count is None and resources is not None:
        issues.append(("UNKNOWN", "nothing is known of the GPUs"))
    place = checkpoint_dir or ""
    checkpoints = checkpoints_of(place, cluster, issues) if place else None
    return judged(gpu, efa, resources, checkpoints, issues, place=place)


def checkpoints_of(place: str, cluster: RayCluster | None, issues: list[tuple[Level, str]]) -> CheckpointHealth:
    """What lies in ``place``; where it cannot be listed, that is added to ``issues``."""
    try:
        return checkpoint_health(place, cluster)
    except LaunchError as error:
        issues.append(("WARNING", str(error)))
        return CheckpointHealth(None, count=None, fault=str(error))


def parts_of(
    cluster: RayCluster,
) -> tuple[GpuUtilization, EfaUtilization | None, RayResources | None, list[tuple[Level, str]]]:
    """What ``cluster`` tells of itself, and an issue where it does not. Raises :class:`NotSetUpError` where it never
    will as things are."""
    faults: dict[str, list[str]] = {}
    gpu = _part(_GPUS, lambda: gpus_of(cluster), faults)
    resources = _part("Ray's resources", lambda: resources_of(cluster), faults)
    efa = _part("NCCL's lines", lambda: efa_of(cluster), faults)
    # One reason may be that of all of them.
    told = [f"{', '.join(parts)} could not be looked at: {why}" for why, parts in faults.items()]
    if gpu is None:
        why = [why for why, parts in faults.items() if parts[0] == _GPUS]
        gpu = GpuUtilization(None, [], [], [], [], None, healthy=False, faults=why)
    return gpu, efa, resources, [("WARNING", each) for each in told]


def _part(what: str, ask: Callable[[], T], faults: dict[str, list[str]]) -> T | None:
    """The answer; None, and why, where there is none."""
    try:
        return ask()
    except NotReachedError as error:
        faults.setdefault(str(error), []).append(what)
        return None


def judged(  # noqa: PLR0913 - the parts of a report
    gpu: GpuUtilization | None,
    efa: EfaUtilization | None,
    resources: RayResources | None,
    checkpoints: CheckpointHealth | None,
    faults: Sequence[tuple[Level, str]] = (),
    *,
    place: str = "",
    job: str = "",
    momentary: bool = False,
) -> TrainingHealth:
    """The report on these parts. ``faults``: what could not be asked, and what else is wrong; ``job``: what is known of
    a run, if it is one's; ``momentary``: the load of the GPUs is that of one beat, which may fall between two steps."""
    issues = list(faults)
    known = gpu is not None and gpu.gpu_count is not None
    if not known and resources is None and not job:
        issues.append(("UNKNOWN", "nothing is known of GPUs and of what is given out of them"))
    if gpu is not None and known:
        issues += _of_gpus(gpu, resources, momentary=momentary)
    if resources is not None:
        issues += _of_ray(resources)
    if efa is not None and efa.fallback:
        issues.append(("WARNING", f"NCCL goes over sockets, though EFA is there: {FIX_EFA}"))
    if checkpoints is not None and checkpoints.latest is None and not checkpoints.fault:
        what = "no checkpoint found" if checkpoints.count == 0 else "no complete checkpoint found"
        shown = "`lastbeat checkpoints` shows what is there, and why"
        issues.append(("WARNING", f"{what} in {one_line(place)}: a restart would begin anew; {shown}"))
    issues.sort(key=lambda each: _ORDER.index(each[0]))
    level = issues[0][0] if issues else "OK"
    healthy = level in {"OK", "WARNING"}
    return TrainingHealth(healthy, gpu, efa, resources, checkpoints, [text for _, text in issues], level, job)


def _of_gpus(gpu: GpuUtilization, resources: RayResources | None, *, momentary: bool) -> list[tuple[Level, str]]:
    found: list[tuple[Level, str]] = [("WARNING", f"GPUs of one place are not known: {each}") for each in gpu.faults]
    if gpu.gpu_count == 0:
        if gpu.faults:
            return [*found, ("UNKNOWN", "no GPU is seen, and not every place that may have some could be asked")]
        has = resources is not None and resources.gpus_available > 0
        but = f", though Ray counts {resources.gpus_available:g}" if resources is not None and has else ""
        return [*found, ("CRITICAL", f"no GPU is seen{but}: name the pods that have some, or look at their driver")]
    if gpu.avg_utilization is None:
        return [*found, ("WARNING", "the driver does not tell how busy the GPUs are")]
    if gpu.avg_utilization < IN_USE_PERCENT and not momentary:
        many = counted(gpu.gpu_count or 0, "GPU")
        return [*found, ("CRITICAL", f"{many} not in use (average {gpu.avg_utilization:g} %): {UNUSED_GPUS}")]
    idle = sum(each < IN_USE_PERCENT for each in gpu.gpu_utilizations)
    if idle:
        found.append(("WARNING", f"{idle} of {gpu.gpu_count} GPUs are idle while others work: a rank may be missing"))
    return found


def _of_ray(resources: RayResources) -> list[tuple[Level, str]]:
    found: list[tuple[Level, str]] = []
    if resources.gpus_available <= 0:
        found.append(("CRITICAL", "Ray has no GPUs: start its nodes with --num-gpus, or look at their device plugin"))
    elif resources.gpus_used <= 0:
        many = f"{resources.gpus_available:g}"
        found.append(("WARNING", f"Ray has given out none of its {many} GPUs: no job asks for them (num_gpus)"))
    if resources.failed_nodes:
        found.append(("WARNING", f"{counted(resources.failed_nodes, 'node')} failed: `ray status` tells which"))
    if resources.pending:
        found.append(("WARNING", f"something waits for resources: {resources.pending[0]}"))
    return found


def gpus_of(cluster: RayCluster) -> GpuUtilization:
    """As :func:`check_gpu_utilization`."""
    with translated():
        places, faults = cluster.gpus()
    if not places and faults:
        raise NotReachedError(f"no place with GPUs could be asked: {faults[0]}")
    return ray_words.utilization(places, faults)


def resources_of(cluster: RayCluster) -> RayResources:
    """As :func:`verify_ray_resources`."""
    with translated():
        found = cluster.resources()
    if found is None:
        raise NotReachedError(f"{cluster.jobs.address} does not tell what it has", "`ray status` on the head tells")
    return found


def efa_of(cluster: RayCluster) -> EfaUtilization:
    """As :func:`check_efa_utilization`."""
    with translated():
        text = cluster.network_lines()
    use = efa_use(text)
    return EfaUtilization(use.active, use.transport, use.fallback)


# For people


_IN_WORDS: Final[Mapping[Level, str]] = {
    "OK": "healthy",
    "WARNING": "healthy, but look at what follows",
    "CRITICAL": "not healthy",
    "UNKNOWN": "not known, for it could not be looked at",
}


def lines(health: TrainingHealth) -> list[str]:
    """The report as text, harmless in a terminal."""
    rows = {
        "Run": health.job,
        "GPUs": _gpus_said(health.gpu),
        "EFA": _efa_said(health.efa),
        "Ray": _ray_said(health.ray),
        "Checkpoints": _checkpoints_said(health.checkpoints),
    }
    said = [f"Training: {_IN_WORDS[health.level]} ({health.level})"]
    said += [f"{name + ':':<12} {one_line(text)}" for name, text in rows.items() if text]
    return [*said, *(f"- {one_line(each)}" for each in health.issues)]


def _gpus_said(gpu: GpuUtilization | None) -> str:
    if gpu is None or gpu.gpu_count is None:
        return "not known"
    if gpu.gpu_count == 0:
        return "none"
    used = "load not known" if gpu.avg_utilization is None else f"{gpu.avg_utilization:g} % on average"
    memory = f"{sum(gpu.memory_used):,.0f} of {sum(gpu.memory_total):,.0f} MB"
    return f"{gpu.gpu_count}, {used}, {memory}, {counted(len(gpu.processes), 'process', 'processes')}"


def _efa_said(efa: EfaUtilization | None) -> str:
    if efa is None or efa.efa_active is None:
        return "not known (NCCL tells it with NCCL_DEBUG=INFO)"
    return "in use" if efa.efa_active else f"not in use (NCCL goes over {efa.transport})"


def _ray_said(resources: RayResources | None) -> str:
    if resources is None:
        return "not known"
    gpus = f"{resources.gpus_used:g} of {resources.gpus_available:g} GPUs"
    return f"{gpus} and {resources.cpus_used:g} of {resources.cpus_available:g} CPUs given out"


def _checkpoints_said(found: CheckpointHealth | None) -> str:
    if found is None:
        return "not known (no place is named)"
    if found.fault:
        return f"not known: {found.fault}"
    if found.latest is None:
        return f"{found.count}, none complete"
    step = "" if found.latest_step is None else f"step {found.latest_step}, "
    return f"{found.count}, the newest complete one: {step}{found.latest} ({found.saved_at})"
