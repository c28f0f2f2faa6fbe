"""Reads the state of this node from the kernel: processor, memory, swap, file systems, network. The sources are /proc,
/sys and cgroups of both versions; an unreadable value is None, never 0."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lastbeat.training.node.kernel_files import cgroup_folders, read_file, table, whole_number
from lastbeat.training.node.resources import Memory, available_memory

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
