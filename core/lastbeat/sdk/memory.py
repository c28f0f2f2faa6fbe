"""How much memory there is for training, and how much of it is left: the machine's, or its cgroup's if that is less."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_LIMIT_BYTES = 64 * 1024
_NO_LIMIT = 1 << 60
_DEPTH = 32
"""So many groups are looked at, from the own one outwards."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes; None where nobody says."""

    available: int | None = None
    """What may still be used before the kernel has to end a process: caches that it can let go count as free."""
    total: int | None = None


def memory(cgroups: Path = Path("/sys/fs/cgroup"), processes: Path = Path("/proc")) -> Memory:
    """What this process can have. ``cgroups`` and ``processes`` are where the kernel tells. Never raises."""
    machine = _machine(processes)
    available = [] if machine.available is None else [machine.available]
    total = [] if machine.total is None else [machine.total]
    for limit, used in _groups(cgroups, processes):
        # A limit above what the machine has is none; version 1 writes "no limit" as a very large one.
        if limit < (machine.total or _NO_LIMIT):
            total.append(limit)
            if used is not None:
                available.append(max(0, limit - used))
    return Memory(min(available, default=None), min(total, default=None))


def _machine(processes: Path) -> Memory:
    found = _table(read(processes / "meminfo"))
    total = found.get("MemTotal:")
    if total is None:
        with suppress(AttributeError, OSError, ValueError):
            return Memory(None, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        return Memory()
    available = found.get("MemAvailable:")
    return Memory(None if available is None else available * 1024, total * 1024)


def _groups(cgroups: Path, processes: Path) -> Iterator[tuple[int, int | None]]:
    """Limit and use of each memory cgroup that this process is in, the outer ones, too."""
    for line in read(processes / "self" / "cgroup").splitlines():
        controllers, _, path = line.partition(":")[2].partition(":")
        if controllers == "":
            for root in (cgroups, cgroups / "unified"):
                for folder in _outwards(root, path):
                    yield from _group(folder, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            # In a container the path may be the host's, while the mount shows the container's own as its root.
            for folder in _outwards(cgroups / "memory", path):
                yield from _group(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _outwards(root: Path, path: str) -> Iterator[Path]:
    parts = [part for part in path.removesuffix(" (deleted)").split("/") if part and part != ".."]
    for length in range(len(parts), max(-1, len(parts) - _DEPTH), -1):
        yield root.joinpath(*parts[:length])


def _group(folder: Path, limited: str, used: str, cached: str) -> Iterator[tuple[int, int | None]]:
    limit = _number(read(folder / limited))
    if limit is None:
        return
    inside = _number(read(folder / used))
    if inside is not None:
        inside = max(0, inside - _table(read(folder / "memory.stat")).get(cached, 0))
    yield limit, inside


def read(path: Path) -> str:
    """The beginning of one of the kernel's files; empty where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_LIMIT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _table(text: str) -> dict[str, int]:
    """``name number`` in each line."""
    rows = (line.split() for line in text.splitlines())
    found = ((row[0], _number(row[1])) for row in rows if len(row) > 1)
    return {name: number for name, number in found if number is not None}
