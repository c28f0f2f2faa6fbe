"""Raises warnings about a node while training runs, sample by sample. Pure, apart from its own memory.

A condition is raised once its fact has held for a while without a break, and cleared once the opposite has, so that it
is reported once (:class:`Latch`). An unknown fact neither raises nor clears it.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import median
from typing import Final

from lastbeat.model import status as names
from lastbeat.model.text import fit
from lastbeat.model.times import format_duration
from lastbeat.training.node.gpus import IDLE_SHARE, XIDS, Gpu, gpu_label, listed, memory_faults, throttle_text
from lastbeat.training.node.node import Network, NodeReading, disk_is_low, disk_text, memory_text, ram_is_low

IDLE_S: Final = 600.0
DRIVER_SILENT_S: Final = 300.0
"""A driver that has not answered for this many s hangs, as when a GPU has fallen off the bus."""
_SILENT_AGAIN_S: Final = 20.0
"""Time in s to a second check of a silent driver. If this process was suspended, the driver had no time to answer."""
XID_S: Final = 1800.0
"""Time in s for which an Xid counts as current."""
TEXT_LIMIT: Final = 300
_LATCHES: Final = {
    names.GPU_LOST: (0.0, 600.0),
    names.GPU_ECC: (0.0, 600.0),
    names.GPU_THROTTLED: (120.0, 600.0),
    # The time of idleness is measured below.
    names.GPU_IDLE: (0.0, 60.0),
    names.RAM_LOW: (30.0, 300.0),
    names.DISK_LOW: (30.0, 600.0),
    names.NETWORK_ERRORS: (120.0, 900.0),
}
"""Condition → seconds that it has to hold before it is raised, and seconds that it has to be over before it is
cleared."""
_ERRORS_A_MINUTE: Final = (10.0, 1.0)
"""Errors per minute from which an interface is bad, and below which it is good again."""
_RETRANSMITTED: Final = (0.03, 0.01)
_LEAST_RETRANSMITTED: Final = 500
_FREE_SPAN_S: Final = 3600.0
_FREE_LEAST_S: Final = 3300.0
"""Shortest time in s for a trend of free space, because checkpoints are written at once and deleted later."""
_FREE_EACH_S: Final = 60.0
_COUNTER_SPAN_S: Final = 300.0
_COUNTER_LEAST_S: Final = 60.0
_MOST_POINTS: Final = 128


@dataclass(frozen=True, slots=True)
class Activity:
    """The activity of training at a sample."""

    steps: int = 0
    """Number of steps reported so far."""
    computes: bool = False
    """Whether its GPUs should be busy now."""


@dataclass(frozen=True, slots=True)
class NodeLook:
    """One sample of a node."""

    at: float
    """Monotonic seconds."""
    node: NodeReading = field(default_factory=NodeReading)
    gpus: Sequence[Gpu] | None = None
    """State of the GPUs; None if the driver has not answered since the last sample, or there is none."""
    shown_by: Mapping[str, str] = field(default_factory=dict)
    """The environment variables that selected these GPUs."""
    driver_silent_s: float = 0.0
    """Age in s of the driver's pending query."""
    xids: Sequence[tuple[str, int]] = ()
    """Xids since the last sample: ``GPU 3`` and the number."""
    activity: Activity = field(default_factory=Activity)


@dataclass(frozen=True, slots=True)
class Raised:
    """A raised condition."""

    name: str
    text: str
    since: float
    """Monotonic seconds."""


@dataclass(slots=True)
class Latch:
    """Is raised once its fact has held for ``raise_s`` without a break, and cleared once the opposite has for
    ``clear_s``.

    So it is raised at most once in ``raise_s + clear_s``. An unknown fact breaks either wait, because it is evidence
    neither of trouble nor of its end.
    """

    raise_s: float
    clear_s: float
    since: float | None = None
    """When it was raised; None if it is not."""
    _turning: float | None = None
    """Since when the fact has contradicted the latch; None if it does not."""

    def update(self, holds: bool | None, now: float) -> bool:
        """Update the latch at ``now`` (monotonic seconds) with a fact that ``holds`` (None if unknown). Returns whether
        it is raised."""
        raised = self.since is not None
        if holds is None or holds is raised:
            self._turning = None
            return raised
        if self._turning is None:
            self._turning = now
        if now - self._turning < (self.clear_s if raised else self.raise_s):
            return raised
        self.since = None if raised else self._turning
        self._turning = None
        return not raised


@dataclass(slots=True)
class FreeSpace:
    """The trend of a file system's free space."""

    _points: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_MOST_POINTS))

    def add(self, at: float, free_bytes: int) -> None:
        """Add the free bytes at ``at`` (monotonic seconds); one value per minute is kept."""
        if not self._points or at - self._points[-1][0] >= _FREE_EACH_S:
            self._points.append((at, free_bytes))
        while self._points and at - self._points[0][0] > _FREE_SPAN_S:
            self._points.popleft()

    def full_in_s(self, at: float, free_bytes: int) -> float | None:
        """Seconds until nothing is free, by the median slope between any two points of the last hour, which a
        checkpoint or two hardly affect. None if the space does not shrink, or the trend is unknown."""
        points = [*self._points, (at, free_bytes)]
        if at - points[0][0] < _FREE_LEAST_S:
            return None
        pairs = combinations(points, 2)
        slope = median((after - before) / (then - when) for (when, before), (then, after) in pairs if then > when)
        return free_bytes / -slope if slope < 0 else None


@dataclass(frozen=True, slots=True)
class NetworkChange:
    """The latest changes of network counters."""

    span_s: float
    errors: Mapping[str, int]
    """Name → errors, for interfaces, ports and links that counted any."""
    sent: int
    retransmitted: int

    @property
    def retransmitted_share(self) -> float:
        """Share of all TCP segments that were retransmitted."""
        return self.retransmitted / self.sent if self.sent else 0.0


@dataclass(slots=True)
class NetworkCounters:
    """Counters of the last five minutes."""

    _looks: deque[tuple[float, dict[str, int], int | None, int | None]] = field(
        default_factory=lambda: deque(maxlen=_MOST_POINTS)
    )

    def add(self, at: float, network: Network, nvlink: Mapping[str, int]) -> NetworkChange | None:
        """The changes in the last minutes, up to these counters. ``nvlink`` has errors by GPU. None if too little time
        has passed, or no counters exist. A counter that went back was reset, and counts as unchanged."""
        now = (at, {**network.errors, **nvlink}, network.sent, network.retransmitted)
        while len(self._looks) > 1 and at - self._looks[1][0] >= _COUNTER_SPAN_S:
            self._looks.popleft()
        before = self._looks[0] if self._looks else None
        self._looks.append(now)
        if before is None or at - before[0] < _COUNTER_LEAST_S or (not now[1] and now[2] is None):
            return None
        grown = {name: count - before[1][name] for name, count in now[1].items() if name in before[1]}
        return NetworkChange(
            span_s=at - before[0],
            errors={name: count for name, count in grown.items() if count > 0},
            sent=_grown(before[2], now[2]),
            retransmitted=_grown(before[3], now[3]),
        )


def _grown(before: int | None, now: int | None) -> int:
    return max(0, now - before) if before is not None and now is not None else 0


class NodeJudge:
    """Remembers samples, within bounds, and derives the conditions that hold."""

    def __init__(self) -> None:
        self._latches = {name: Latch(*spans) for name, spans in _LATCHES.items()}
        self._texts: dict[str, str] = {}
        """Condition → its last text."""
        self._xids: dict[tuple[str, int], float] = {}
        """GPU and Xid → when it last came."""
        self._most_gpus = 0
        self._shown_by: Mapping[str, str] = {}
        self._silent_at: float | None = None
        """First of the successive samples at which the driver had been silent for too long."""
        self._ecc_before: dict[str, int] = {}
        """GPU → errors counted before this attempt."""
        self._steps: int | None = None
        self._got_on_at: float | None = None
        """When a sample last had more steps than the previous one."""
        self._idle_since: float | None = None
        """Since when all GPUs have been idle without a break."""
        self._space: dict[str, FreeSpace] = {}
        self._counters = NetworkCounters()

    def judge(self, look: NodeLook) -> list[Raised]:
        """The conditions that hold after this sample, worst first."""
        for gpu, number in look.xids:
            if number in XIDS:
                self._xids[gpu, number] = look.at
        facts = {
            names.GPU_LOST: self._lost(look),
            names.GPU_ECC: self._ecc(look),
            names.GPU_THROTTLED: _throttled(look),
            names.GPU_IDLE: self._idling(look),
            names.RAM_LOW: _ram(look),
            names.DISK_LOW: self._disks(look),
            names.NETWORK_ERRORS: self._network(look),
        }
        return list(self._held(facts, look.at))

    def _held(self, facts: dict[str, "HealthFact"], now: float) -> Iterator[Raised]:
        for name, latch in self._latches.items():
            fact = facts[name]
            if fact.holds and fact.text:
                self._texts[name] = fit(fact.text, TEXT_LIMIT)
            if latch.update(fact.holds, now) and latch.since is not None:
                yield Raised(name, self._texts.get(name, ""), latch.since)

    def _lost(self, look: NodeLook) -> "HealthFact":
        told = self._told_xids(names.GPU_LOST, look.at)
        silent = look.driver_silent_s >= DRIVER_SILENT_S
        self._silent_at = (look.at if self._silent_at is None else self._silent_at) if silent else None
        if self._silent_at is not None and look.at - self._silent_at >= _SILENT_AGAIN_S:
            told.append(f"NVIDIA's driver has not answered for {format_duration(look.driver_silent_s)}")
        if look.gpus is None:
            return _fact(told, known=False)
        if look.shown_by != self._shown_by:
            # Training has selected other GPUs, or fewer, so none is lost.
            self._most_gpus, self._shown_by = 0, look.shown_by
        self._most_gpus = max(self._most_gpus, len(look.gpus))
        gone = [gpu_label(gpu) for gpu in look.gpus if gpu.get("lost")]
        if gone:
            told.insert(0, f"{listed(gone)} {'is' if len(gone) == 1 else 'are'} lost to the driver")
        if len(look.gpus) < self._most_gpus:
            told.insert(0, f"the driver shows {len(look.gpus)} of {self._most_gpus} GPUs")
        return _fact(told)

    def _ecc(self, look: NodeLook) -> "HealthFact":
        # Past errors count, because a GPU that was quiet since is no better.
        told = self._told_xids(names.GPU_ECC)
        if look.gpus is None:
            return _fact(told, known=False)
        known = False
        for gpu in look.gpus:
            label, count = gpu_label(gpu), gpu.get("ecc_uncorrected")
            known = known or count is not None or "rows_pending" in gpu
            if count is not None:
                before = self._ecc_before[label] = min(count, self._ecc_before.get(label, count))
                if count > before:
                    told.append(f"{label}: {count - before} memory errors that could not be corrected, in this attempt")
            told += [f"{label}: {what}" for what in memory_faults(gpu)]
        return _fact(told, known=known)

    def _idling(self, look: NodeLook) -> "HealthFact":
        """Whether all GPUs have been idle since the last progress of training. A single one may simply be unused."""
        before, self._steps = self._steps, look.activity.steps
        got_on = before is not None and look.activity.steps != before
        if got_on:
            self._got_on_at = look.at
        since, self._idle_since = self._idle_since, None
        if look.gpus is None:
            return HealthFact(None)
        if got_on or not look.activity.computes:
            return HealthFact(False)
        loads = {gpu_label(gpu): gpu["utilization"] for gpu in look.gpus if gpu.get("utilization") is not None}
        if not loads:
            return HealthFact(None)
        if any(load >= IDLE_SHARE for load in loads.values()):
            return HealthFact(False)
        self._idle_since = look.at if since is None else since
        span_s = look.at - self._idle_since
        if span_s < IDLE_S:
            # Between two steps GPUs may idle.
            return HealthFact(False if self._got_on_at is not None and look.at - self._got_on_at < IDLE_S else None)
        which = f"all {len(loads)} GPUs" if len(loads) > 1 else listed(list(loads))
        return HealthFact(
            True, f"{which} under {IDLE_SHARE:.0%} for {format_duration(span_s)}, and no step in that time"
        )

    def _disks(self, look: NodeLook) -> "HealthFact":
        held: list[bool | None] = []
        told = []
        for disk in look.node.disks:
            if disk.read_only:
                # Training does not save there; file systems of images are always full.
                continue
            space = self._space.setdefault(disk.path, FreeSpace())
            space.add(look.at, disk.free_bytes)
            full_in_s = space.full_in_s(look.at, disk.free_bytes)
            low = disk_is_low(disk, full_in_s)
            held.append(low)
            if low:
                when = "" if full_in_s is None else f", full in about {format_duration(full_in_s)}"
                told.append(disk_text(disk) + when)
        return HealthFact(_any(held), "; ".join(told))

    def _network(self, look: NodeLook) -> "HealthFact":
        told = self._told_xids(names.NETWORK_ERRORS, look.at)
        nvlink = {
            f"NVLink of {gpu_label(gpu)}": gpu["nvlink_errors"] for gpu in look.gpus or () if "nvlink_errors" in gpu
        }
        change = self._counters.add(look.at, look.node.network, nvlink)
        if change is None:
            return _fact(told, known=False)
        told += _network_faults(change)
        if told:
            return HealthFact(True, "; ".join(told))
        errors_a_minute = max(change.errors.values(), default=0) * 60 / change.span_s
        well = errors_a_minute < _ERRORS_A_MINUTE[1] and change.retransmitted_share < _RETRANSMITTED[1]
        return HealthFact(False if well else None)

    def _told_xids(self, condition: str, now: float | None = None) -> list[str]:
        """The Xids that raise ``condition``; with ``now`` only those of the last half hour."""
        return [
            f"{gpu}: Xid {number} ({XIDS[number].text})"
            for (gpu, number), at in self._xids.items()
            if XIDS[number].condition == condition and (now is None or now - at < XID_S)
        ]


@dataclass(frozen=True, slots=True)
class HealthFact:
    """The fact about a condition in one sample."""

    holds: bool | None
    """Whether the condition holds; None if unknown, or in between."""
    text: str = ""


def _throttled(look: NodeLook) -> HealthFact:
    if look.gpus is None:
        return HealthFact(None)
    told = [throttle_text(gpu) for gpu in look.gpus if gpu.get("throttle")]
    return _fact(told, known=any("throttle" in gpu for gpu in look.gpus))


def _ram(look: NodeLook) -> HealthFact:
    node = look.node
    return HealthFact(ram_is_low(node.memory), memory_text(node.memory, node.swap_used_bytes, node.swap_total_bytes))


def _network_faults(change: NetworkChange) -> list[str]:
    minutes = change.span_s / 60
    told = [
        f"{name}: {count:,} errors in {format_duration(change.span_s)}"
        for name, count in sorted(change.errors.items(), key=lambda item: -item[1])
        if count / minutes >= _ERRORS_A_MINUTE[0]
    ]
    if change.retransmitted >= _LEAST_RETRANSMITTED and change.retransmitted_share >= _RETRANSMITTED[0]:
        told.append(
            f"{change.retransmitted_share:.0%} of all TCP segments sent again in {format_duration(change.span_s)}"
        )
    return told


def _fact(told: Sequence[str], *, known: bool = True) -> HealthFact:
    """The fact that holds with any text in ``told``. Without one it does not hold, or is unknown unless ``known``."""
    return HealthFact(True, "; ".join(told)) if told else HealthFact(False if known else None)


def _any(held: Iterable[bool | None]) -> bool | None:
    found = list(held)
    if any(found):
        return True
    return None if not found or None in found else False
