"""The memory, CPU and GPUs that training uses, measured once a beat by the beat thread."""

import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lastbeat.training.node.gpus import LIMIT_S, GpuMonitor
from lastbeat.training.node.node import available_memory, read_file, without_unknown
from lastbeat.training.sdk.beat_tasks import BeatTask
from lastbeat.training.sdk.documents import process_fields
from lastbeat.training.sdk.run import Run

# Processes.

_MOST_PROCESSES: Final = 20_000
_SCAN_LIMIT_S: Final = 0.5
"""Time limit in s for the search for a command's processes."""


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """CPU time and memory of processes; None if unknown."""

    cpu_s: float | None = None
    """CPU time since the start, in s."""
    rss_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class _Process:
    number: int
    parent: int
    cpu_s: float
    """CPU time in s of the process and of its children that have ended."""
    rss_bytes: int


def own_usage(processes: Path = Path("/proc")) -> ProcessUsage:
    """CPU time and memory that this process uses."""
    cpu_s = time.process_time()
    pages = read_file(processes / "self" / "statm").split()
    with suppress(IndexError, ValueError):
        return ProcessUsage(cpu_s, int(pages[1]) * _page())
    return ProcessUsage(cpu_s, _largest())


def tree_usage(root: int, processes: Path = Path("/proc")) -> ProcessUsage:
    """CPU time and memory of the process ``root`` and its descendants together; unknown unless all can be read."""
    found = _all(processes)
    tree = _tree(root, found)
    if not tree:
        return ProcessUsage()
    return ProcessUsage(sum(found[number].cpu_s for number in tree), sum(found[number].rss_bytes for number in tree))


def tree_of(root: int, processes: Path = Path("/proc")) -> set[int]:
    """The process ``root`` and its descendants; ``root`` alone unless all can be read."""
    return _tree(root, _all(processes)) or {root}


def send_to_tree(root: int, number: int, processes: Path = Path("/proc"), *, forks: bool = True) -> None:
    """Send a signal to the process ``root`` and to its descendants in the same process group, as a key on its terminal
    would. Never raises.

    Without ``forks``, processes with the command line of their parent get no signal. Those are forks, such as the
    workers of a DataLoader, and saving a checkpoint still needs them.
    """
    found = _all(processes)
    with suppress(OSError):
        group = os.getpgid(root)
        # Descendants get the signal first, because a shell may end with its command.
        for process in sorted(_tree(root, found) or {root}, reverse=True):
            if not forks and process != root and _is_fork(found[process], processes):
                continue
            with suppress(OSError):
                if os.getpgid(process) == group:
                    os.kill(process, number)


def _is_fork(process: "_Process", processes: Path) -> bool:
    """Whether the process has the command line of its parent. False if that cannot be read."""
    own = read_file(processes / str(process.number) / "cmdline")
    return bool(own) and own == read_file(processes / str(process.parent) / "cmdline")


def _tree(root: int, found: Mapping[int, "_Process"]) -> set[int]:
    """``root`` and its descendants among ``found``; empty if ``root`` is not among them."""
    if root not in found:
        return set()
    below: dict[int, list[int]] = {}
    for process in found.values():
        below.setdefault(process.parent, []).append(process.number)
    tree, waiting = set[int](), [root]
    while waiting:
        number = waiting.pop()
        # Process ids may be reused during the reading, which may make a cycle.
        if number not in tree:
            tree.add(number)
            waiting += below.get(number, ())
    return tree


def _all(processes: Path) -> dict[int, _Process]:
    """Number → process, for all of this machine; empty if there are too many, or reading takes too long: a part would
    be a wrong answer."""
    until = time.monotonic() + _SCAN_LIMIT_S
    try:
        numbers = [int(name) for name in os.listdir(processes) if name.isascii() and name.isdigit()]  # noqa: PTH208
    except OSError:
        return {}
    found = dict[int, _Process]()
    for number in numbers if len(numbers) <= _MOST_PROCESSES else ():
        if time.monotonic() > until:
            return {}
        process = _process(number, read_file(processes / str(number) / "stat"))
        if process is not None:
            found[number] = process
    return found


def _process(number: int, stat: str) -> _Process | None:
    """The process in a line of /proc/PID/stat, or None. Its name is in parentheses, and may contain anything."""
    fields = stat.rpartition(")")[2].split()
    try:
        ticks = sum(int(field) for field in fields[11:15])
        return _Process(number, int(fields[1]), ticks / os.sysconf("SC_CLK_TCK"), int(fields[21]) * _page())
    except (IndexError, ValueError):
        return None


def _page() -> int:
    return os.sysconf("SC_PAGE_SIZE")


def _largest() -> int | None:
    """Peak memory of this process in bytes, which is all that systems without /proc report."""
    try:
        import resource  # noqa: PLC0415 - not everywhere, and not needed on Linux
    except ImportError:
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


# Both, and GPUs.

_LEAST_S = 0.1
"""Shortest interval in s for a measurement: the kernel counts CPU time in hundredths of a second."""


def machine_memory() -> dict[str, Any] | None:
    """The field ``resources`` of metadata.json with the machine's memory alone; None if that is unknown."""
    there = available_memory()
    return without_unknown({"memory_available_bytes": there.available, "memory_total_bytes": there.total}) or None


class ResourceMeter(BeatTask):
    """Measures this process, or with ``wraps`` the command :attr:`root` and its descendants once that is set."""

    purpose = "measure the resources in use"

    def __init__(self, *, wraps: bool = False, gpus: GpuMonitor | None = None) -> None:
        self.wraps = wraps
        self.root: int | None = None
        """Process id of the wrapped command."""
        self.gpus = gpus or GpuMonitor()
        self._before: tuple[float, float] | None = None
        """Monotonic time and CPU time at the last measurement."""
        self._cpu: float | None = None

    def fields(self, run: Run, *, quick: bool) -> dict[str, Any]:  # noqa: ARG002 - a task's
        """The resources in use. In ``lastbeat exec`` also which process trains, in place of this one."""
        used = {"resources": self.measure(quick=quick)}
        if not self.wraps:
            return used
        if self.root is None:
            return {**used, "process": None, "process_mark": None, "wraps": True}
        return used | process_fields(self.root, wraps=True)

    def measure(self, *, quick: bool = False) -> dict[str, Any] | None:
        """The field ``resources`` of metadata.json, without unknown figures; None if all are unknown. Never raises.

        ``quick`` does not wait for the GPUs, for the start and the end of a run.
        """
        found: dict[str, Any] = {}
        with suppress(Exception):  # No figure is worth a heartbeat.
            used = self._used()
            found["cpu"] = self._cores(used)
            found["rss_bytes"] = used.rss_bytes
            found |= machine_memory() or {}
            found["gpus"] = self.gpus.read(0.0 if quick else LIMIT_S) or None
        return without_unknown(found) or None

    def _used(self) -> ProcessUsage:
        if not self.wraps:
            return own_usage()
        return ProcessUsage() if self.root is None else tree_usage(self.root)

    def _cores(self, used: ProcessUsage) -> float | None:
        """Cores in use since the last measurement; None at the first one."""
        now, before = time.monotonic(), self._before
        if before is not None and used.cpu_s is not None and now - before[0] < _LEAST_S:
            return self._cpu
        self._before = None if used.cpu_s is None else (now, used.cpu_s)
        # A process that ended in between takes its CPU time with it, and the figure is then unknown.
        self._cpu = None
        if before is not None and used.cpu_s is not None and used.cpu_s >= before[1]:
            self._cpu = float(f"{(used.cpu_s - before[1]) / (now - before[0]):.3g}")
        return self._cpu
