"""What processes use: processor time and memory, of this one or of a command that was started and all that it started.

On Linux from /proc; elsewhere what the process can say of itself.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lastbeat.sdk.memory import read

_MOST: Final = 20_000
_LIMIT_S: Final = 0.5
"""What looking for a command's processes among all may take."""


@dataclass(frozen=True, slots=True)
class Used:
    """What is not known is None."""

    cpu_s: float | None = None
    """Processor time since the start, in seconds."""
    rss_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class _Process:
    number: int
    parent: int
    cpu_s: float
    """Its own, and that of its children that have ended."""
    rss_bytes: int


def own(processes: Path = Path("/proc")) -> Used:
    """What this process uses."""
    cpu_s = time.process_time()
    pages = read(processes / "self" / "statm").split()
    with suppress(IndexError, ValueError):
        return Used(cpu_s, int(pages[1]) * _page())
    return Used(cpu_s, _largest())


def of_tree(root: int, processes: Path = Path("/proc")) -> Used:
    """What the process ``root`` and all below it use together; nothing is known where they cannot all be looked at."""
    found = {process.number: process for process in _all(processes, time.monotonic() + _LIMIT_S)}
    if root not in found:
        return Used()
    below: dict[int, list[int]] = {}
    for process in found.values():
        below.setdefault(process.parent, []).append(process.number)
    tree, waiting = set[int](), [root]
    while waiting:
        number = waiting.pop()
        # Numbers are given away again while we read, which may tie a knot.
        if number not in tree:
            tree.add(number)
            waiting += below.get(number, ())
    return Used(sum(found[number].cpu_s for number in tree), sum(found[number].rss_bytes for number in tree))


def _all(processes: Path, until: float) -> Iterator[_Process]:
    """Every process of this machine, or none at all where there are too many: a part would be no answer."""
    try:
        numbers = [name for name in os.listdir(processes) if name.isascii() and name.isdigit()]  # noqa: PTH208 - names
    except OSError:
        return
    if len(numbers) > _MOST:
        return
    everything = []
    for name in numbers:
        if time.monotonic() > until:
            return
        process = _process(int(name), read(processes / name / "stat"))
        if process is not None:
            everything.append(process)
    yield from everything


def _process(number: int, stat: str) -> _Process | None:
    """One line of /proc/PID/stat; the name in it is in parentheses and may hold anything."""
    fields = stat.rpartition(")")[2].split()
    try:
        ticks = sum(int(field) for field in fields[11:15])
        return _Process(number, int(fields[1]), ticks / os.sysconf("SC_CLK_TCK"), int(fields[21]) * _page())
    except (IndexError, ValueError):
        return None


def _page() -> int:
    return os.sysconf("SC_PAGE_SIZE")


def _largest() -> int | None:
    """The most that this process ever had in memory, which is all that other systems say."""
    try:
        import resource  # noqa: PLC0415 - not everywhere, and not needed on Linux
        import sys  # noqa: PLC0415 - as above
    except ImportError:
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
