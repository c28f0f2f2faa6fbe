"""Checks whether a node is fit for training before a job starts there, with one line for each check."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lastbeat.model import status as names
from lastbeat.model.check_result import CheckResult
from lastbeat.model.health import REMEDIES
from lastbeat.model.text import counted
from lastbeat.stores.timed_calls import call_with_timeout
from lastbeat.training.node.asking import GpusAsked, ask_gpus
from lastbeat.training.node.gpus import (
    KERNEL_LOG,
    XIDS,
    Gpu,
    KernelLog,
    XidLine,
    gpu_label,
    listed,
    memory_faults,
    short_bus,
    throttle_text,
)
from lastbeat.training.node.node import (
    Disk,
    NodeReading,
    Places,
    disk_is_low,
    disk_text,
    memory_text,
    ram_is_low,
    read_disk,
    read_node,
)

DISK_LIMIT_S: Final = 10.0
RECENT_S: Final = 3600.0
"""Oldest Xid in the kernel's log that is reported, in s."""
_HOT_C: Final = 80
"""Temperature in °C that an unused GPU should not reach."""
_USED_BYTES: Final = 1 << 30
"""Bytes of a GPU's memory in use before a job begins that indicate another process."""
_FULL_BYTES: Final = 256 << 20
"""Least free bytes for saving a file."""
_DEVICES: Final = "nvidia[0-9]*"


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of all checks."""

    places: Places = field(default_factory=Places)
    devices: Path = Path("/dev")
    kernel_log: Path = KERNEL_LOG
    ask: Callable[[float], GpusAsked] = ask_gpus


def check_node(
    gpus: int | None, paths: Iterable[str], limit_s: float, sources: Sources | None = None
) -> Iterator[CheckResult]:
    """Every check, made lazily one after the other, for a job that needs so many ``gpus`` (None: any number), and
    writes to file systems with ``paths``. ``limit_s`` is the time limit of NVIDIA's driver."""
    sources = sources or Sources()
    asked = sources.ask(limit_s)
    has_devices = any(sources.devices.glob(_DEVICES))
    yield from check_gpus(asked, gpus, has_devices=has_devices)
    yield from _kernel_log(sources.kernel_log, asked.gpus or ())
    node = read_node(sources.places)
    yield _memory(node)
    for path in paths:
        yield check_disk(path)
    yield _network(node)


def check_gpus(asked: GpusAsked, wanted: int | None, *, has_devices: bool) -> Iterator[CheckResult]:
    """Checks of the driver's answer. ``has_devices`` says that /dev has NVIDIA GPUs."""
    if asked.gpus is None:
        yield _unknown_gpus(asked, wanted, has_devices=has_devices)
        return
    lost = [gpu_label(gpu) for gpu in asked.gpus if gpu.get("lost")]
    if lost:
        what = f"{listed(lost)} {'is' if len(lost) == 1 else 'are'} lost to the driver"
        yield CheckResult("gpus", "fail", what, REMEDIES[names.GPU_LOST])
    alive = [gpu for gpu in asked.gpus if not gpu.get("lost")]
    if wanted is not None and len(alive) < wanted:
        yield CheckResult("gpus", "fail", f"{len(alive)} of {wanted} are there", REMEDIES[names.GPU_LOST])
    troubles = [trouble for gpu in alive for trouble in _gpu_troubles(gpu)]
    yield from troubles
    if not troubles and not lost and (wanted is None or len(alive) >= wanted):
        kinds = ", ".join(dict.fromkeys(str(gpu.get("name", "GPU")) for gpu in alive))
        detail = f"{counted(len(alive), 'GPU')} well: {kinds}" if alive else "there are none"
        yield CheckResult("gpus", "ok", detail)


def _unknown_gpus(asked: GpusAsked, wanted: int | None, *, has_devices: bool) -> CheckResult:
    if asked.hangs:
        return CheckResult("gpus", "fail", f"NVIDIA's driver hangs: {asked.why}", REMEDIES[names.GPU_LOST])
    if not has_devices and not wanted:
        return CheckResult("gpus", "ok", f"there are none here ({asked.why})")
    told = f"their state is unknown: {asked.why}"
    remedy = "nvidia-smi has to work here; with it, pip install 'lastbeat[gpu]' is all that is needed"
    # A job that needs GPUs cannot use a node where none answers, unless only lastbeat cannot query them.
    broken = wanted is not None and wanted > 0 and not has_devices
    return CheckResult("gpus", "fail" if broken else "warn", told, remedy)


def _gpu_troubles(gpu: Gpu) -> Iterator[CheckResult]:
    label = gpu_label(gpu)
    errors = gpu.get("ecc_uncorrected")
    told = memory_faults(gpu)
    if errors:
        told.append(f"{errors:,} memory errors that could not be corrected since its driver was loaded")
    if told:
        yield CheckResult("gpus", "fail", f"{label}: {'; '.join(told)}", REMEDIES[names.GPU_ECC])
    if gpu.get("throttle"):
        yield CheckResult("gpus", "warn", throttle_text(gpu), REMEDIES[names.GPU_THROTTLED])
    elif gpu.get("temperature_c", 0) >= _HOT_C:
        yield CheckResult("gpus", "warn", f"{label}: {gpu['temperature_c']} °C", REMEDIES[names.GPU_THROTTLED])
    used = gpu.get("memory_used_bytes", 0)
    if used >= _USED_BYTES or gpu.get("processes"):
        who = f", by {counted(gpu['processes'], 'process', 'processes')}" if gpu.get("processes") else ""
        remedy = "nvidia-smi shows who uses it; what an earlier job left behind has to be ended (kill PID)"
        yield CheckResult("gpus", "warn", f"{label}: {used / (1 << 30):.1f} GB of its memory are in use{who}", remedy)


def _kernel_log(path: Path, gpus: Sequence[Gpu]) -> Iterator[CheckResult]:
    log = KernelLog(path, past=True)
    if not log.readable:
        yield CheckResult("kernel log", "ok", "not readable for this user, so Xids were not looked for")
        return
    found = recent_xids(log.news(), time.clock_gettime(time.CLOCK_BOOTTIME), gpus)
    log.close()
    for told, condition in found:
        yield CheckResult("kernel log", "warn", told, REMEDIES[condition])
    if not found:
        yield CheckResult("kernel log", "ok", "no Xid of a GPU's hardware in the last hour")


def recent_xids(lines: Iterable[XidLine], now_s: float, gpus: Sequence[Gpu]) -> list[tuple[str, str]]:
    """Xids of GPUs' hardware in the kernel's log, in the hour before ``now_s`` (seconds since boot): a line for each
    GPU and Xid, and the condition that it indicates."""
    labels = {short_bus(str(gpu["bus"])): gpu_label(gpu) for gpu in gpus if "bus" in gpu}
    counts: dict[tuple[str, int], int] = {}
    for line in lines:
        if line.number in XIDS and now_s - line.at_s < RECENT_S:
            key = labels.get(line.bus, f"the GPU at {line.bus}"), line.number
            counts[key] = counts.get(key, 0) + 1
    return [
        (
            f"{gpu}: Xid {number} ({XIDS[number].text})" + (f", {count} times" if count > 1 else ""),
            XIDS[number].condition,
        )
        for (gpu, number), count in counts.items()
    ]


def _memory(node: NodeReading) -> CheckResult:
    if node.memory.available is None:
        return CheckResult("memory", "ok", "not known on this system")
    told = memory_text(node.memory, node.swap_used_bytes, node.swap_total_bytes)
    if ram_is_low(node.memory):
        return CheckResult("memory", "warn", told, REMEDIES[names.RAM_LOW])
    return CheckResult("memory", "ok", told)


def check_disk(path: str, limit_s: float = DISK_LIMIT_S) -> CheckResult:
    """Check that files can be saved at ``path``. Waits at most ``limit_s`` for a file server."""

    def look() -> Disk | str:
        try:
            return read_disk(path)
        except OSError as fault:
            return os.strerror(fault.errno) if fault.errno else str(fault)

    found = call_with_timeout(look, limit_s, None)
    if found is None:
        return CheckResult("disk", "fail", f"{path}: its file system has not answered within {limit_s:g} s", _HUNG_DISK)
    if isinstance(found, str):
        return CheckResult("disk", "fail", f"{path}: {found}", f"mkdir -p {path}, or name a folder that is there")
    told = disk_text(found)
    if found.read_only:
        return CheckResult("disk", "fail", f"{path} can only be read", "mount shows it; dmesg -T why it was remounted")
    if found.total_bytes > 0 and (
        found.free_bytes < min(_FULL_BYTES, found.total_bytes // 10) or found.free_inodes == 0
    ):
        return CheckResult("disk", "fail", told, REMEDIES[names.DISK_LOW])
    if disk_is_low(found):
        return CheckResult("disk", "warn", told, REMEDIES[names.DISK_LOW])
    return CheckResult("disk", "ok", told)


_HUNG_DISK: Final = "mount shows which server it comes from; does it answer (ping, showmount -e SERVER)?"


def _network(node: NodeReading) -> CheckResult:
    if node.network.down:
        told = f"{', '.join(node.network.down)} has a link that does not come up"
        remedy = "ibstat shows the port; is the subnet manager running, the cable in?"
        return CheckResult("network", "warn", told, remedy)
    ports = len(node.network.errors)
    return CheckResult("network", "ok", f"{counted(ports, 'interface')} up" if ports else "no interface is known")
