"""What is worth a warning about a node while training runs, look by look. Pure but for what it remembers.

A condition is raised once its fact has held for a while without a break, and cleared once the opposite has, so that it
is told once (:class:`lastbeat.health.latch.Latch`). What a look could not see is neither: it raises and clears nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from lastbeat.health.latch import Latch
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
from lastbeat.health.node import NodeReading
from lastbeat.health.trends import FreeSpace, NetworkChange, NetworkCounters
from lastbeat.health.xids import XIDS
from lastbeat.model import status as names
from lastbeat.model.text import fit
from lastbeat.model.times import format_duration
from lastbeat.sdk.gpus import Gpu

IDLE_S: Final = 600.0
DRIVER_SILENT_S: Final = 300.0
"""A driver that has not answered for so long hangs, as it does when a GPU has fallen off the bus."""
XID_S: Final = 1800.0
"""For so long an Xid tells how things are."""
TEXT_LIMIT: Final = 300
_LATCHES: Final = {
    names.GPU_LOST: (0.0, 600.0),
    names.GPU_ECC: (0.0, 600.0),
    names.GPU_THROTTLED: (120.0, 600.0),
    # Each GPU's own idleness is counted below.
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


class NodeJudge:
    """Remembers what looks showed, within bounds, and tells which conditions hold."""

    def __init__(self) -> None:
        self._latches = {name: Latch(*spans) for name, spans in _LATCHES.items()}
        self._texts: dict[str, str] = {}
        """What was last to be said of each."""
        self._xids: dict[tuple[str, int], float] = {}
        """GPU and Xid → when it last came."""
        self._most_gpus = 0
        self._ecc_before: dict[str, int] = {}
        """GPU → errors that were counted before this attempt."""
        self._steps: int | None = None
        self._idle: dict[str, float] = {}
        """GPU → since when it has been idle without a break."""
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
        if look.driver_silent_s >= DRIVER_SILENT_S:
            told.append(f"NVIDIA's driver has not answered for {format_duration(look.driver_silent_s)}")
        if look.gpus is None:
            return _fact(told, known=False)
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
        """GPUs that have been idle since training last got on."""
        before, self._steps = self._steps, look.activity.steps
        if look.gpus is None:
            self._idle = {}
            return HealthFact(None)
        got_on = before is not None and look.activity.steps != before
        if got_on or not look.activity.computes:
            self._idle = {}
            return HealthFact(False)
        loads = {gpu_label(gpu): gpu["utilization"] for gpu in look.gpus if gpu.get("utilization") is not None}
        if not loads:
            self._idle = {}
            return HealthFact(None)
        self._idle = {label: self._idle.get(label, look.at) for label, load in loads.items() if load < IDLE_SHARE}
        if not self._idle:
            return HealthFact(False)
        long = [label for label, since in self._idle.items() if look.at - since >= IDLE_S]
        if not long:
            return HealthFact(None)
        which = f"all {len(loads)} GPUs" if len(long) == len(loads) > 1 else listed(long)
        span_s = look.at - max(self._idle[label] for label in long)
        return HealthFact(
            True, f"{which} under {IDLE_SHARE:.0%} for {format_duration(span_s)}, and no step in that time"
        )

    def _disks(self, look: NodeLook) -> "HealthFact":
        held: list[bool | None] = []
        told = []
        for disk in look.node.disks:
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
