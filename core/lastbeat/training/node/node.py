"""The state of this node from the kernel: processor, memory, swap, file systems, network; and whether little is left.

The sources are /proc, /sys and cgroups of both versions; an unreadable value is None, never 0.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

_KERNEL_FILE_BYTES: Final = 64 * 1024
_CGROUP_DEPTH: Final = 32
"""Most cgroups that are examined, from this process's own outwards."""


def read_file(path: Path) -> str:
    """The beginning of one of the kernel's files; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_KERNEL_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def whole_number(text: str) -> int | None:
    """``text`` as a number; None if it is not one, or has more digits than any counter."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def table(text: str) -> dict[str, int]:
    """Name → number, from a file with ``name number`` on each line."""
    rows = (line.split() for line in text.splitlines())
    found = ((row[0], whole_number(row[1])) for row in rows if len(row) > 1)
    return {name: number for name, number in found if number is not None}


def without_unknown(found: dict[str, Any]) -> dict[str, Any]:
    """``found`` without values that are None."""
    return {name: value for name, value in found.items() if value is not None}


def cgroup_folders(controller: str, cgroups: Path, processes: Path) -> Iterator[tuple[int, Path]]:
    """The version (1 or 2) and the folder of each cgroup that may limit this process by ``controller``: its own and the
    enclosing ones. ``cgroups`` is where cgroups are mounted, ``processes`` is /proc."""
    for line in read_file(processes / "self" / "cgroup").splitlines():
        controllers, _, path = line.partition(":")[2].partition(":")
        if controllers == "":
            for root in (cgroups, cgroups / "unified"):
                yield from ((2, folder) for folder in _outwards(root, path))
        elif controller in controllers.split(","):
            # In a container the path may be the host's, while the mount has the container's own cgroup as its root.
            yield from ((1, folder) for folder in _outwards(cgroups / controller, path))


def _outwards(root: Path, path: str) -> Iterator[Path]:
    parts = [part for part in path.removesuffix(" (deleted)").split("/") if part and part != ".."]
    for length in range(len(parts), max(-1, len(parts) - _CGROUP_DEPTH), -1):
        yield root.joinpath(*parts[:length])


# Memory.

_NO_LIMIT = 1 << 60


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes; None if unknown."""

    available: int | None = None
    """Memory that can still be used before the kernel has to kill a process. Droppable caches count as available."""
    total: int | None = None


def available_memory(cgroups: Path = Path("/sys/fs/cgroup"), processes: Path = Path("/proc")) -> Memory:
    """The memory that this process can use: the machine's, or its cgroup's if that is less. Never raises.

    ``cgroups`` is where cgroups are mounted, ``processes`` is /proc.
    """
    machine = _machine(processes)
    available = [] if machine.available is None else [machine.available]
    total = [] if machine.total is None else [machine.total]
    for limit, used in _groups(cgroups, processes):
        # A limit above the machine's memory does not apply; version 1 writes "no limit" as a very large number.
        if limit < (machine.total or _NO_LIMIT):
            total.append(limit)
            if used is not None:
                available.append(max(0, limit - used))
    return Memory(min(available, default=None), min(total, default=None))


def _machine(processes: Path) -> Memory:
    found = table(read_file(processes / "meminfo"))
    total = found.get("MemTotal:")
    if total is None:
        with suppress(AttributeError, OSError, ValueError):
            return Memory(None, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        return Memory()
    available = found.get("MemAvailable:")
    return Memory(None if available is None else available * 1024, total * 1024)


def _groups(cgroups: Path, processes: Path) -> Iterator[tuple[int, int | None]]:
    """Limit and use in bytes of each memory cgroup that this process is in, and of the enclosing ones."""
    for version, folder in cgroup_folders("memory", cgroups, processes):
        if version == 2:
            yield from _group(folder, "memory.max", "memory.current", ("inactive_file", "active_file"))
        else:
            cached = "total_inactive_file", "total_active_file"
            yield from _group(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", cached)


def _group(folder: Path, limited: str, used: str, cached: tuple[str, str]) -> Iterator[tuple[int, int | None]]:
    limit = whole_number(read_file(folder / limited))
    if limit is None:
        return
    inside = whole_number(read_file(folder / used))
    if inside is not None:
        stat = table(read_file(folder / "memory.stat"))
        inside = max(0, inside - sum(stat.get(name, 0) for name in cached))
    yield limit, inside


MOST_PORTS: Final = 64
"""Most network interfaces, and most InfiniBand ports, that are read."""
_VIRTUAL: Final = ("lo", "docker", "veth", "br-", "cali", "cni", "flannel", "virbr", "tun", "tap")
"""Prefixes of the names of virtual interfaces, which have no cable."""
_PORT_ERRORS: Final = (
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)
"""Error counters of an InfiniBand port, which do not grow while its cable is good."""


@dataclass(frozen=True, slots=True)
class Places:
    """Places of the kernel's files."""

    processes: Path = Path("/proc")
    cgroups: Path = Path("/sys/fs/cgroup")
    system: Path = Path("/sys")


@dataclass(frozen=True, slots=True)
class Cpu:
    """Counters since boot, for the whole machine unless stated otherwise."""

    busy_ticks: int | None = None
    all_ticks: int | None = None
    limit_cores: float | None = None
    """Limit of this process's cgroup in cores."""
    throttled_s: float | None = None
    """Time in s that this cgroup, or an enclosing one, was throttled for exceeding its limit."""


@dataclass(frozen=True, slots=True)
class Disk:
    """A file system, by a path on it. Free space is that for ordinary users."""

    path: str
    free_bytes: int
    total_bytes: int
    free_inodes: int | None = None
    """None if the file system has no fixed number of inodes."""
    total_inodes: int | None = None
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Network:
    """Counters since boot."""

    errors: Mapping[str, int] = field(default_factory=dict)
    """Interface (``eth0``) or InfiniBand port (``mlx5_0/1``) → its counted errors."""
    down: Sequence[str] = ()
    """InfiniBand ports with a link that does not come up."""
    sent: int | None = None
    """Number of TCP segments sent."""
    retransmitted: int | None = None


@dataclass(frozen=True, slots=True)
class NodeReading:
    """The kernel's state of a node at one moment. None or empty if unknown."""

    memory: Memory = field(default_factory=Memory)
    swap_used_bytes: int | None = None
    swap_total_bytes: int | None = None
    cpu: Cpu = field(default_factory=Cpu)
    network: Network = field(default_factory=Network)
    disks: tuple[Disk, ...] = ()


def read_node(places: Places | None = None) -> NodeReading:
    """The reading without disks, which may hang: see :func:`read_disk`. Never raises for a missing file."""
    places = places or Places()
    info = table(read_file(places.processes / "meminfo"))
    total, free = info.get("SwapTotal:"), info.get("SwapFree:")
    return NodeReading(
        memory=available_memory(places.cgroups, places.processes),
        swap_used_bytes=None if total is None or free is None else max(0, total - free) * 1024,
        swap_total_bytes=None if total is None else total * 1024,
        cpu=_cpu(places),
        network=_network(places),
    )


def read_disk(path: str) -> Disk:
    """The file system of ``path``, or of its nearest existing parent. Raises OSError; may hang on a server that does
    not answer."""
    there = Path(path).absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    found = os.statvfs(there)
    inodes = found.f_files > 0
    return Disk(
        path=path,
        free_bytes=found.f_bavail * found.f_frsize,
        total_bytes=found.f_blocks * found.f_frsize,
        free_inodes=found.f_favail if inodes else None,
        total_inodes=found.f_files if inodes else None,
        read_only=bool(found.f_flag & os.ST_RDONLY),
    )


def _cpu(places: Places) -> Cpu:
    first = read_file(places.processes / "stat").split("\n", 1)[0].split()
    ticks = [int(each) for each in first[1:9] if each.isascii() and each.isdigit()]
    known = first[:1] == ["cpu"] and len(ticks) >= 5
    limits = [cores for cores, _ in _cpu_groups(places) if cores is not None]
    waits = [waited for _, waited in _cpu_groups(places) if waited is not None]
    return Cpu(
        # Ticks 3 and 4 are idle and waiting for a disk.
        busy_ticks=sum(ticks) - ticks[3] - ticks[4] if known else None,
        all_ticks=sum(ticks) if known else None,
        limit_cores=min(limits, default=None),
        throttled_s=max(waits, default=None),
    )


def _cpu_groups(places: Places) -> Iterator[tuple[float | None, float | None]]:
    """The limit in cores and the throttled seconds of each cgroup around this process."""
    for version, folder in cgroup_folders("cpu", places.cgroups, places.processes):
        told = table(read_file(folder / "cpu.stat"))
        if version == 2:
            quota, _, period = read_file(folder / "cpu.max").partition(" ")
            waited = _scaled(told.get("throttled_usec"), 1e-6)
        else:
            quota, period = (read_file(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
            waited = _scaled(told.get("throttled_time"), 1e-9)
        allowed, each = whole_number(quota), whole_number(period)
        # "max", or -1 in version 1, means no limit.
        yield (allowed / each if allowed is not None and each else None), waited


def _scaled(count: int | None, factor: float) -> float | None:
    return None if count is None else count * factor


def _network(places: Places) -> Network:
    ports, down = _ports(places.system)
    tcp = _tcp(read_file(places.processes / "net" / "snmp"))
    return Network(
        errors={**_interfaces(places.processes), **ports},
        down=tuple(down),
        sent=tcp.get("OutSegs"),
        retransmitted=tcp.get("RetransSegs"),
    )


def _interfaces(processes: Path) -> dict[str, int]:
    """Receive and send errors of each interface. Dropped packets do not count: packets without a listener are dropped
    too."""
    found: dict[str, int] = {}
    for line in read_file(processes / "net" / "dev").splitlines():
        name, colon, rest = line.partition(":")
        name, fields = name.strip(), rest.split()
        if not colon or name.startswith(_VIRTUAL) or len(fields) < 11 or len(found) >= MOST_PORTS:
            continue
        received, sent = whole_number(fields[2]), whole_number(fields[10])
        if received is not None and sent is not None:
            found[name[:40]] = received + sent
    return found


def _ports(system: Path) -> tuple[dict[str, int], list[str]]:
    """Errors of each InfiniBand port that is up, and the ports that do not come up. Never raises."""
    found: dict[str, int] = {}
    down: list[str] = []
    try:
        folders = sorted(system.glob("class/infiniband/*/ports/*"))[:MOST_PORTS]
    except OSError:
        return {}, []
    for folder in folders:
        name = f"{folder.parent.parent.name}/{folder.name}"[:40]
        state = read_file(folder / "state").partition(":")[2].strip()
        if state in {"INIT", "ARMED"}:
            down.append(name)
        counts = [whole_number(read_file(folder / "counters" / each)) for each in _PORT_ERRORS]
        known = [count for count in counts if count is not None]
        if state == "ACTIVE" and known:
            found[name] = sum(known)
    return found, down


def _tcp(snmp: str) -> dict[str, int]:
    """The row ``Tcp:`` of /proc/net/snmp, whose names are in the row before it."""
    rows = [line.split()[1:] for line in snmp.splitlines() if line.startswith("Tcp:")]
    if len(rows) != 2 or len(rows[0]) != len(rows[1]):
        return {}
    found = ((name, whole_number(value)) for name, value in zip(*rows, strict=True))
    return {name: value for name, value in found if value is not None}


_RAM_LOW, _RAM_ENOUGH = (0.05, 8 << 30), (0.08, 12 << 30)
"""A share of all memory, and bytes. On a large machine, the share alone would be too much."""
_DISK_LOW, _DISK_ENOUGH = (0.05, 20 << 30), (0.08, 30 << 30)
_INODES_LOW, _INODES_ENOUGH = 0.02, 0.03
_FULL_SOON_S, _FULL_LATER_S = 3600.0, 7200.0


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


def size(count: float) -> str:
    """Bytes for display: ``1.8 TB``."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TB"
