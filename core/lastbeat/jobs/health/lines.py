"""The report on a run's health as text for people, harmless in a terminal."""

from collections.abc import Mapping
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
