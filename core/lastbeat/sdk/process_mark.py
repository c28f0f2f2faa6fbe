"""Which process a number means: numbers come again, and mean another process on each machine."""

import os
from contextlib import suppress
from pathlib import Path


def process_mark(number: int, processes: Path = Path("/proc")) -> str | None:
    """Text that no other process ever has: of the boot of this machine, the space of process numbers, and when it
    began. None where the system does not say, or there is no such process."""
    with suppress(OSError, ValueError, IndexError):
        boot = (processes / "sys/kernel/random/boot_id").read_text("ascii").strip()
        space = os.readlink(processes / str(number) / "ns/pid")  # noqa: PTH115 - text, not a path
        stat = (processes / str(number) / "stat").read_bytes()
        # The name in it is in parentheses and may hold anything.
        began = int(stat.rpartition(b")")[2].split()[19])
        return f"{boot}/{space.strip('pid:[]')}/{began}"
    return None
