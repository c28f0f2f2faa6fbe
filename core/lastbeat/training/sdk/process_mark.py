"""Identifies a process beyond its id: ids are reused, and each machine has its own."""

import os
from contextlib import suppress
from pathlib import Path


def process_mark(number: int, processes: Path = Path("/proc")) -> str | None:
    """Text that identifies the process ``number`` uniquely: this machine's boot, its pid namespace, and its start. None
    if the system does not report that, or there is no such process."""
    with suppress(OSError, ValueError, IndexError):
        boot = (processes / "sys/kernel/random/boot_id").read_text("ascii").strip()
        space = os.readlink(processes / str(number) / "ns/pid")  # noqa: PTH115 - text, not a path
        stat = (processes / str(number) / "stat").read_bytes()
        # The name in it is in parentheses and may hold anything.
        began = int(stat.rpartition(b")")[2].split()[19])
        return f"{boot}/{space.strip('pid:[]')}/{began}"
    return None
