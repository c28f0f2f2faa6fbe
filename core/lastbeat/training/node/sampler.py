"""Samples a node's health in a beat thread, and keeps the figures of its last hours in a bounded number of values.

Nothing here waits long: a driver, disk or counter that hangs blocks a thread of its own, and is unknown meanwhile.
"""

import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from lastbeat.stores.port import Store
from lastbeat.stores.timed_calls import CallThread
from lastbeat.training.node.gpus import KERNEL_LOG, LIMIT_S, Gpu, GpuAnswer, GpuMonitor, KernelLog, gpu_label, short_bus
from lastbeat.training.node.judging import Activity, NodeJudge, NodeLook, Raised
from lastbeat.training.node.node import Disk, NodeReading, Places, read_disk, read_node, without_unknown
from lastbeat.training.sdk.beat_tasks import Beat, BeatTask, RunStart
from lastbeat.training.sdk.documents import delete_if_allowed, iso_time
from lastbeat.training.sdk.ranks import Rank
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.safe_log import WarnOnce, fault_text
from lastbeat.training.sdk.sections import STEP

T = TypeVar("T")
_READ_LIMIT_S: Final = 0.5
"""Most time in s that a beat waits for the kernel's files, and for the disks."""
_NOT_COMPUTING: Final = re.compile(
    r"check.?point|sav|load|stor|resum|set.?up|init|fetch|prepar|data|token|wait|idle|eval|valid|test", re.IGNORECASE
)
"""Names of sections in which GPUs may be idle."""


class NodeSampler(BeatTask):
    """Samples the health of this process's node, and marks the node while it has conditions."""

    purpose = "report the health of this node"
    counts = True

    def __init__(
        self,
        every_s: float,
        paths: Sequence[str] = (),
        places: Places | None = None,
        kernel_log: Path = KERNEL_LOG,
        gpus: GpuMonitor | None = None,
        *,
        saves_there: bool = True,
    ) -> None:
        """``every_s`` is the time between two samples. ``paths`` are on file systems that training writes to.
        ``saves_there`` says that it saves its checkpoints there, so that a full file system is worth a warning."""
        self.gpus = gpus or GpuMonitor()
        self._every_s, self._paths, self._places = every_s, tuple(paths), places or Places()
        self._saves_there = saves_there
        self._judge, self._history = NodeJudge(), NodeHistory()
        self._log = KernelLog(kernel_log)
        self._reader: CallThread[NodeReading] = CallThread("lastbeat-node")
        self._disk_reader: CallThread[tuple[Disk, ...]] = CallThread("lastbeat-disks")
        self._sampled_at: float | None = None
        self._answer: GpuAnswer | None = None
        self._before: NodeReading | None = None
        self._told: dict[str, Any] | None = None
        """The last sample."""
        self._rank = Rank()
        self._mark = NodeMark(0)
        self._warnings = WarnOnce()
        self._labels: dict[str, str] = {}
        """Place on the PCI bus → name of the GPU for display."""

    def begin(self, start: RunStart) -> None:
        self._rank, self._mark = start.rank, NodeMark(start.rank.number)

    def fields(self, run: Run, *, quick: bool) -> dict[str, Any]:
        """The last sample, taken now if one is due."""
        if not quick:
            self._try_sample(run)
        return {"health": self._told}

    def write(self, beat: Beat) -> None:
        """Update the mark. Raises :class:`StoreError`."""
        conditions = (self._told or {}).get("conditions", []) if beat.ending is None else []
        about = {"rank": self._rank.number, "host": self._rank.host or None, "attempt": beat.attempt}
        self._mark.set(beat.store, beat.folder, conditions, about)

    def follow(self, beat: Beat) -> None:
        """Sample the node if that is due, and update the mark. Raises :class:`StoreError`."""
        if beat.ending is None:
            self._try_sample(beat.run)
        self.write(beat)

    def _try_sample(self, run: Run) -> None:
        try:
            self.sample(run)
        except Exception as fault:  # noqa: BLE001 - no figure is worth a heartbeat
            self._warnings.warn("health", "lastbeat cannot sample the health of this node: %s", fault_text(fault))

    @property
    def wait_s(self) -> float:
        """Seconds until the next sample is due. The first one is taken with the first beat."""
        return math.inf if self._sampled_at is None else max(0.0, self._sampled_at + self._every_s - time.monotonic())

    def sample(self, run: Run) -> Mapping[str, Any] | None:
        """The field ``health`` of metadata.json: the conditions that hold, the node's figures and their history.
        Returns the last sample until the next is due."""
        now = time.monotonic()
        if self._sampled_at is None or now - self._sampled_at >= self._every_s:
            self._sampled_at = now
            self._told = self._take(run, now)
        return self._told

    def close(self) -> None:
        self._log.close()
        self._reader.close()
        self._disk_reader.close()

    def _take(self, run: Run, now: float) -> dict[str, Any]:
        gpus, xids = self._gpus(now)
        node = self._node()
        judged = node if self._saves_there else replace(node, disks=())
        shown_by = self.gpus.latest.shown_by if self.gpus.latest is not None else {}
        look = NodeLook(now, judged, gpus, shown_by, self.gpus.waits_s, xids, activity_of(run))
        raised = self._judge.judge(look)
        figures = figures_of(node, self._before, gpus)
        self._before = node
        self._history.add(now, figures)
        unix = time.time()
        return {
            "sampled_at": iso_time(unix),
            "conditions": [conditions_document(each, now, unix) for each in raised],
            **_counted(node),
            "history": self._history.document(now, unix),
        }

    def _gpus(self, now: float) -> tuple[list[Gpu] | None, list[tuple[str, int]]]:
        """The GPUs, if the driver has answered since the last sample, and the Xids since then."""
        if self.gpus.latest is None or now - self.gpus.latest.asked_at > self._every_s / 2:
            self.gpus.read(LIMIT_S)
        answer, before = self.gpus.latest, self._answer
        self._answer = answer
        gpus = answer.gpus if answer is not None and answer is not before else None
        for gpu in gpus or ():
            if "bus" in gpu:
                self._labels[short_bus(str(gpu["bus"]))] = gpu_label(gpu)
        # Beats may query more often than samples are taken, and each Xid comes only once.
        xids = [(gpu_label(gpu), number) for gpu, number in self.gpus.take_xids()]
        # The log is of the whole machine, and lines about other jobs' GPUs do not matter here.
        xids += [(self._labels[line.bus], line.number) for line in self._log.news() if line.bus in self._labels]
        return gpus, xids

    def _node(self) -> NodeReading:
        def disks() -> tuple[Disk, ...]:
            return tuple(disk for path in self._paths if (disk := _disk_at(path)) is not None)

        node = _read(self._reader, lambda: read_node(self._places), NodeReading())
        # A file system that hangs hides nothing else.
        return replace(node, disks=_read(self._disk_reader, disks, ()))


def _read(reader: CallThread[T], look: Callable[[], T], unknown: T) -> T:
    try:
        return reader.call(look, _READ_LIMIT_S)
    except (TimeoutError, RuntimeError):
        return unknown


def _disk_at(path: str) -> Disk | None:
    try:
        return read_disk(path)
    except OSError:
        # It is unknown then; training will notice when it saves.
        return None


def activity_of(run: Run) -> Activity:
    """Training's current activity, and whether its GPUs should be busy. Before its first step it may load and compile,
    unless it is in the section of a step."""
    names = [span.name for span in run.sections.spans() if span.name is not None]
    elsewhere = any(_NOT_COMPUTING.search(name) for name in names)
    return Activity(run.steps, computes=not run.ended and not elsewhere and (run.steps > 0 or STEP in names))


def figures_of(node: NodeReading, before: NodeReading | None, gpus: Sequence[Gpu] | None) -> dict[str, float | None]:
    """The figures of a node that are drawn: shares from 0 to 1, °C and W. None if unknown."""
    memory = node.memory
    loads = [gpu["utilization"] for gpu in gpus or () if "utilization" in gpu]
    hot = [gpu["temperature_c"] for gpu in gpus or () if "temperature_c" in gpu]
    watts = [gpu["power_w"] for gpu in gpus or () if "power_w" in gpu]
    held = [gpu["memory_used_bytes"] / gpu["memory_total_bytes"] for gpu in gpus or () if gpu.get("memory_total_bytes")]
    full = [1 - disk.free_bytes / disk.total_bytes for disk in node.disks if disk.total_bytes > 0]
    known = memory.available is not None and memory.total
    return {
        "gpu": sum(loads) / len(loads) if loads else None,
        "gpu_memory": max(held, default=None),
        "gpu_temperature_c": max(hot, default=None),
        "gpu_power_w": sum(watts) if watts else None,
        "cpu": _busy(node, before),
        "memory": 1 - (memory.available or 0) / (memory.total or 1) if known else None,
        "disk": max(full, default=None),
    }


def conditions_document(raised: Raised, now: float, unix: float) -> dict[str, Any]:
    """A condition as documents have it. ``unix`` is the Unix time at the monotonic time ``now``."""
    return {"name": raised.name, "text": raised.text, "since": iso_time(unix - (now - raised.since))}


def _busy(node: NodeReading, before: NodeReading | None) -> float | None:
    """The share of the machine's processors that was busy since the last sample."""
    if before is None or None in (node.cpu.all_ticks, before.cpu.all_ticks):
        return None
    everything = (node.cpu.all_ticks or 0) - (before.cpu.all_ticks or 0)
    busy = (node.cpu.busy_ticks or 0) - (before.cpu.busy_ticks or 0)
    return min(1.0, max(0.0, busy / everything)) if everything > 0 else None


def _counted(node: NodeReading) -> dict[str, Any]:
    """The kernel's counters that are known."""
    network = node.network
    counters = {
        "swap_used_bytes": node.swap_used_bytes,
        "swap_total_bytes": node.swap_total_bytes,
        "cpu_limit": node.cpu.limit_cores,
        "cpu_throttled_s": None if node.cpu.throttled_s is None else round(node.cpu.throttled_s, 1),
        "disks": [without_unknown(asdict(disk)) for disk in node.disks] or None,
        "network_errors": dict(network.errors) or None,
        "tcp_sent": network.sent,
        "tcp_retransmitted": network.retransmitted,
    }
    return without_unknown(counters)


HISTORY_EACH_S: Final = 150.0
HISTORY_MOST: Final = 96
"""Number of intervals of :data:`HISTORY_EACH_S` that are kept, which is four hours."""


class NodeHistory:
    """The mean of each series over each :data:`HISTORY_EACH_S` seconds, or None without values."""

    def __init__(self) -> None:
        self._values: dict[int, dict[str, tuple[float, int]]] = {}
        """Number of an interval → name of a series → sum and count of its values."""

    def add(self, at: float, values: Mapping[str, float | None]) -> None:
        """Add the values at ``at`` (monotonic seconds)."""
        number = int(at // HISTORY_EACH_S)
        known = self._values.setdefault(number, {})
        for name, value in values.items():
            if value is not None:
                total, count = known.get(name, (0.0, 0))
                known[name] = total + value, count + 1
        for old in [each for each in self._values if each <= number - HISTORY_MOST]:
            del self._values[old]

    def document(self, at: float, unix: float) -> dict[str, Any] | None:
        """``from`` (Unix time of the first value), ``each_s`` and ``series`` of equal length; None before the first
        value. ``unix`` is the Unix time at ``at``."""
        names = dict.fromkeys(name for values in self._values.values() for name in values)
        if not names:
            return None
        first, last = min(self._values), max(self._values)
        series = {
            name: [_mean(self._values.get(number, {}).get(name)) for number in range(first, last + 1)] for name in names
        }
        return {"from": round(unix - (at - first * HISTORY_EACH_S)), "each_s": HISTORY_EACH_S, "series": series}


def _mean(known: tuple[float, int] | None) -> float | None:
    return None if known is None else float(f"{known[0] / known[1]:.3g}")


_REFRESH_BEATS: Final = 10
"""An unchanged mark is rewritten after this many beats, to refresh its numbers."""


class NodeMark:
    """A rank's file ``ranks/N.health``. It exists only while its node has conditions, so a listing shows that."""

    def __init__(self, rank: int) -> None:
        self._key = f"ranks/{rank}.health"
        self._there: tuple[str, ...] = ()
        """Names of the conditions in the written mark."""
        self._age = 0

    def set(self, store: Store, folder: str, conditions: Sequence[dict[str, Any]], about: dict[str, Any]) -> None:
        """Write, refresh or delete the mark as ``conditions`` require. ``about`` holds its other fields. Raises
        :class:`StoreError`."""
        names = tuple(each["name"] for each in conditions)
        self._age += 1
        if names == self._there and (not names or self._age < _REFRESH_BEATS):
            return
        if names:
            document = {name: value for name, value in about.items() if value is not None}
            store.write(folder + self._key, json.dumps({**document, "conditions": list(conditions)}).encode())
        elif self._there and not delete_if_allowed(store, folder + self._key):
            store.write(folder + self._key, b"{}")
        self._there, self._age = names, 0
