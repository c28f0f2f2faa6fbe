"""Limits for warnings about memory, disks and GPUs. Pure; used before training starts and while it runs."""

from collections.abc import Sequence
from typing import Final

from lastbeat.training.node.gpus import Gpu
from lastbeat.training.node.node import Disk
from lastbeat.training.node.resources import Memory

IDLE_SHARE: Final = 0.05
"""A GPU with a lower utilization (0 to 1) is idle."""
_RAM_LOW, _RAM_ENOUGH = (0.05, 8 << 30), (0.08, 12 << 30)
"""A share of all memory, and bytes. On a large machine, the share alone would be too much."""
_DISK_LOW, _DISK_ENOUGH = (0.05, 20 << 30), (0.08, 30 << 30)
_INODES_LOW, _INODES_ENOUGH = 0.02, 0.03
_FULL_SOON_S, _FULL_LATER_S = 3600.0, 7200.0
THROTTLE_WORDS: Final = {
    "hw_thermal": "too hot, slowed down by its hardware",
    "sw_thermal": "too hot, slowed down by its driver",
    "hw_power_brake": "slowed down by its power supply",
    "hw_slowdown": "slowed down by its hardware",
}


def is_low(left: int, total: int, limit: tuple[float, int]) -> bool:
    """Whether less is left than the limit, which is a share of ``total``, or bytes if those are less."""
    return left < min(limit[0] * total, limit[1])


def ram_is_low(memory: Memory) -> bool | None:
    """Whether memory runs out; None if unknown, or between the two limits."""
    if memory.available is None or not memory.total:
        return None
    if is_low(memory.available, memory.total, _RAM_LOW):
        return True
    return None if is_low(memory.available, memory.total, _RAM_ENOUGH) else False


def disk_is_low(disk: Disk, full_in_s: float | None = None) -> bool | None:
    """Whether a file system runs full, in space or in inodes; None between the limits. ``full_in_s`` is the time until
    it is full by its trend."""
    if disk.total_bytes <= 0:
        return None
    inodes = None if disk.free_inodes is None or not disk.total_inodes else disk.free_inodes / disk.total_inodes
    soon = full_in_s is not None and full_in_s < _FULL_SOON_S
    if is_low(disk.free_bytes, disk.total_bytes, _DISK_LOW) or soon or (inodes is not None and inodes < _INODES_LOW):
        return True
    later = full_in_s is not None and full_in_s < _FULL_LATER_S
    few = inodes is not None and inodes < _INODES_ENOUGH
    return None if is_low(disk.free_bytes, disk.total_bytes, _DISK_ENOUGH) or later or few else False


def gpu_label(gpu: Gpu) -> str:
    """Name of the GPU for display: ``GPU 3``."""
    index = gpu.get("index")
    return f"GPU {index}" if isinstance(index, int) else f"GPU {gpu['uuid']}" if gpu.get("uuid") else "a GPU"


def memory_text(memory: Memory, swap_used: int | None = None, swap_total: int | None = None) -> str:
    """``1.2 GB of 64.0 GB of memory left``."""
    swap = f", {size(swap_used)} of {size(swap_total)} of swap in use" if swap_used and swap_total else ""
    return f"{size(memory.available or 0)} of {size(memory.total or 0)} of memory left{swap}"


def disk_text(disk: Disk) -> str:
    """``/data: 12.0 GB of 1.8 TB free``, or its inodes if those are short."""
    inodes = disk.free_inodes, disk.total_inodes
    if inodes[0] is not None and inodes[1] and inodes[0] / inodes[1] < _INODES_ENOUGH:
        return f"{disk.path}: {inodes[0]:,} of {inodes[1]:,} inodes free"
    return f"{disk.path}: {size(disk.free_bytes)} of {size(disk.total_bytes)} free"


def memory_faults(gpu: Gpu) -> list[str]:
    """Faults of a GPU's memory, apart from its counted errors."""
    told = []
    if gpu.get("rows_failed"):
        told.append("its memory could not be remapped any more")
    if gpu.get("rows_pending"):
        told.append("a repair of its memory waits for a reset")
    return told


def throttle_text(gpu: Gpu) -> str:
    """The reason why a GPU is slowed down: ``GPU 3: too hot, slowed down by its hardware (91 °C)``."""
    reasons = "; ".join(THROTTLE_WORDS.get(word, word) for word in gpu.get("throttle") or ())
    hot = f" ({gpu['temperature_c']} °C)" if "temperature_c" in gpu else ""
    return f"{gpu_label(gpu)}: {reasons}{hot}"


def size(count: float) -> str:
    """Bytes for display: ``1.8 TB``."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TB"


def listed(labels: Sequence[str]) -> str:
    """``GPUs 0-3 and 7`` for labels of GPUs, in their order."""
    numbers = [int(label.removeprefix("GPU ")) for label in labels if label.removeprefix("GPU ").isdigit()]
    if len(labels) < 2 or len(numbers) < len(labels):
        return ", ".join(labels)
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] + 1 == number:
            runs[-1].append(number)
        else:
            runs.append([number])
    told = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return "GPUs " + (f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else told[0])
