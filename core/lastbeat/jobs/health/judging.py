"""Judges the health of a training run by its GPUs, its network, Ray's resources and its checkpoints. Pure."""

from collections.abc import Sequence
from typing import Final

from lastbeat.model.text import counted, one_line
from lastbeat.model.training_health import (
    CheckpointHealth,
    EfaUtilization,
    GpuUtilization,
    Level,
    RayResources,
    TrainingHealth,
)

FIX_EFA: Final = (
    "set NCCL_NET=ofi, and put /opt/amazon/ofi-nccl/lib/x86_64-linux-gnu into LD_LIBRARY_PATH, for every worker"
)
UNUSED_GPUS: Final = (
    "look whether the training has begun; where `ray job submit` leaves GPUs unused, start it in the head pod: "
    "lastbeat restart supervise --launcher ray-pod"
)
IN_USE_PERCENT: Final = 5.0
"""GPUs with an average below this are unused: training keeps them busier, and a driver's own work is less."""
_ORDER: Final[tuple[Level, ...]] = ("CRITICAL", "UNKNOWN", "WARNING", "OK")


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
    """The report on these parts. ``faults`` are parts that did not answer, and other problems; ``job`` describes the
    run, if the report is on one; ``momentary``: the GPUs' load is from one beat, which may fall between two steps."""
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
        issues.append(("WARNING", f"{what} in {one_line(place)}: a restart would begin from the start; {shown}"))
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
