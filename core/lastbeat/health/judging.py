"""What is worth a warning about a node while training runs, look by look. Pure but for what it remembers.

A condition is raised once its fact has held for a while without a break, and cleared once the opposite has, so that it
is told once (:class:`Latch`). What a look could not see is neither: it raises and clears nothing.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import median
from typing import Final

from lastbeat.health.limits import (
    IDLE_SHARE,
    disk_is_low,
    disk_text,
    gpu_label,
    listed,
    memory_faults,
    memory_text,
    ram_is_low,
    throttle_text,
)
from lastbeat.health.node import Network, NodeReading
from lastbeat.health.xids import XIDS
from lastbeat.model import status as names
from lastbeat.model.text import fit
from lastbeat.model.times import format_duration
from lastbeat.sdk.gpus import Gpu

IDLE_S: Final = 600.0
DRIVER_SILENT_S: Final = 300.0
"""A driver that has not answered for so long hangs, as it does when a GPU has fallen off the bus."""
_SILENT_AGAIN_S: Final = 20.0
"""It is looked at once more, so much later: a process that was suspended has not given it time to answer."""
XID_S: Final = 1800.0
"""For so long an Xid tells how things are."""
TEXT_LIMIT: Final = 300
_LATCHES: Final = {
    names.GPU_LOST: (0.0, 600.0),
    names.GPU_ECC: (0.0, 600.0),
    names.GPU_THROTTLED: (120.0, 600.0),
    # Idleness is counted below.
    names.GPU_IDLE: (0.0, 60.0),
    names.RAM_LOW: (30.0, 300.0),
    names.DISK_LOW: (30.0, 600.0),
    names.NETWORK_ERRORS: (120.0, 900.0),
}
"""Condition → for how many seconds it has to hold, and then to be over."""
_ERRORS_A_MINUTE: Final = (10.0, 1.0)
"""Errors of an interface from which on it is bad, and below which it is well."""
_RETRANSMITTED: Final = (0.03, 0.01)
_LEAST_RETRANSMITTED: Final = 500
_FREE_SPAN_S: Final = 3600.0
_FREE_LEAST_S: Final = 3300.0
"""From a shorter time nobody can tell: a checkpoint is written at once, and an older one deleted later."""
_FREE_EACH_S: Final = 60.0
_COUNTER_SPAN_S: Final = 300.0
_COUNTER_LEAST_S: Final = 60.0
_MOST_POINTS: Final = 128


@dataclass(frozen=True, slots=True)
class Activity:
    """What training does meanwhile."""

    steps: int = 0
    """Steps that it has reported so far."""
    computes: bool = False
    """It is where its GPUs should be busy."""


@dataclass(frozen=True, slots=True)
class NodeLook:
    """All that was seen of a node at one moment."""

    at: float
    """Monotonic seconds."""
    node: NodeReading = field(default_factory=NodeReading)
    gpus: Sequence[Gpu] | None = None
    """None: the driver has not answered since the last look, or there is none."""
    shown_by: Mapping[str, str] = field(default_factory=dict)
    """The variables that said which GPUs these are."""
    driver_silent_s: float = 0.0
    """For how long it has owed an answer."""
    xids: Sequence[tuple[str, int]] = ()
    """What came since the last look: ``GPU 3`` and the number."""
    activity: Activity = field(default_factory=Activity)


@dataclass(frozen=True, slots=True)
class Raised:
    """A condition that holds."""

    name: str
    text: str
    since: float
    """Monotonic seconds."""


@dataclass(slots=True)
class Latch:
    """Raised once its fact has held for ``raise_s`` without a break, cleared once the opposite has for ``clear_s``.

    So it is raised once in ``raise_s + clear_s`` at most, whatever the fact does. What is unknown breaks either: it is
    no sign of trouble, and none of its end.
    """

    raise_s: float
    clear_s: float
    since: float | None = None
    """Since when it has been raised; None: it is not."""
    _turning: float | None = None
    """Since when the fact has said the opposite of what the latch says."""

    def update(self, holds: bool | None, now: float) -> bool:
        """Whether it is raised at ``now`` (monotonic seconds), when the fact ``holds`` (None: nobody knows)."""
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
    """How the free space of a file system changes."""

    _points: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_MOST_POINTS))

    def add(self, at: float, free_bytes: int) -> None:
        """Take what was free at ``at`` (monotonic seconds); of a minute, one value is kept."""
        if not self._points or at - self._points[-1][0] >= _FREE_EACH_S:
            self._points.append((at, free_bytes))
        while self._points and at - self._points[0][0] > _FREE_SPAN_S:
            self._points.popleft()

    def full_in_s(self, at: float, free_bytes: int) -> float | None:
        """Seconds until nothing is free, by the median of the slopes between any two of the last hour's points: a
        checkpoint or two move it little. None: it does not get less, or nobody can tell yet."""
        points = [*self._points, (at, free_bytes)]
        if at - points[0][0] < _FREE_LEAST_S:
            return None
        pairs = combinations(points, 2)
        slope = median((after - before) / (then - when) for (when, before), (then, after) in pairs if then > when)
        return free_bytes / -slope if slope < 0 else None


@dataclass(frozen=True, slots=True)
class NetworkChange:
    """What was counted lately."""

    span_s: float
    errors: Mapping[str, int]
    """Of those interfaces, ports and links that counted any."""
    sent: int
    retransmitted: int

    @property
    def retransmitted_share(self) -> float:
        """Of all TCP segments."""
        return self.retransmitted / self.sent if self.sent else 0.0


@dataclass(slots=True)
class NetworkCounters:
    """Counters of the last five minutes."""

    _looks: deque[tuple[float, dict[str, int], int | None, int | None]] = field(
        default_factory=lambda: deque(maxlen=_MOST_POINTS)
    )

    def add(self, at: float, network: Network, nvlink: Mapping[str, int]) -> NetworkChange | None:
        """What was counted in the last minutes, up to these counters. ``nvlink``: errors by GPU. None: too short a time
        has passed, or nothing is counted here. A counter that went back was set to zero, and tells nothing."""
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
    """Remembers what looks showed, within bounds, and tells which conditions hold."""

    def __init__(self) -> None:
        self._latches = {name: Latch(*spans) for name, spans in _LATCHES.items()}
        self._texts: dict[str, str] = {}
        """What was last to be said of each."""
        self._xids: dict[tuple[str, int], float] = {}
        """GPU and Xid → when it last came."""
        self._most_gpus = 0
        self._shown_by: Mapping[str, str] = {}
        self._silent_at: float | None = None
        """The first of the looks in a row at which the driver had been silent for too long."""
        self._ecc_before: dict[str, int] = {}
        """GPU → errors that were counted before this attempt."""
        self._steps: int | None = None
        self._got_on_at: float | None = None
        """When a look last found more steps than the one before."""
        self._idle_since: float | None = None
        """Since when all GPUs have been idle without a break."""
        self._space: dict[str, FreeSpace] = {}
        self._counters = NetworkCounters()

    def judge(self, look: NodeLook) -> list[Raised]:
        """The conditions that hold after this look, worst first."""
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
            # Training chose others, or fewer: none is gone for that.
            self._most_gpus, self._shown_by = 0, look.shown_by
        self._most_gpus = max(self._most_gpus, len(look.gpus))
        gone = [gpu_label(gpu) for gpu in look.gpus if gpu.get("lost")]
        if gone:
            told.insert(0, f"{listed(gone)} {'is' if len(gone) == 1 else 'are'} lost to the driver")
        if len(look.gpus) < self._most_gpus:
            told.insert(0, f"the driver shows {len(look.gpus)} of {self._most_gpus} GPUs")
        return _fact(told)

    def _ecc(self, look: NodeLook) -> "HealthFact":
        # What has happened stays: the GPU is no better for having been quiet since.
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
        """Whether all GPUs have been idle since training last got on. One of several may be none that it uses."""
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
                # Nothing is saved there; images are full, always.
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
        """The Xids that raise ``condition``; with ``now`` those of the last half hour."""
        return [
            f"{gpu}: Xid {number} ({XIDS[number].text})"
            for (gpu, number), at in self._xids.items()
            if XIDS[number].condition == condition and (now is None or now - at < XID_S)
        ]


@dataclass(frozen=True, slots=True)
class HealthFact:
    """What one look says of a condition."""

    holds: bool | None
    """None: not known, or neither."""
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
    """It holds where there is something to tell; where there is not, it does not if that is ``known``."""
    return HealthFact(True, "; ".join(told)) if told else HealthFact(False if known else None)


def _any(held: Iterable[bool | None]) -> bool | None:
    found = list(held)
    if any(found):
        return True
    return None if not found or None in found else False
