"""The names that a restart policy may use: those of a catalogue, and what other systems call the same things."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lastbeat.explain.launchers.traits import subsystems
from lastbeat.explain.signals.error_types import TYPES
from lastbeat.model.signal import Catalogue
from lastbeat.watch.decide.conditions import numbers

STARTED: Final = "started"
TRANSITIONS: Final = (
    STARTED, "succeeded", "failed", "timed_out", "cancelled", "preempted", "recovered", "restarted",
)  # fmt: skip
"""Changes that a policy's ``on:`` may name, besides signals, conditions and ``checkpoint_saved``."""
CONDITIONS: Final = tuple(row.name for row in numbers.CONDITIONS)
"""Conditions that it may name: those of a run's numbers."""

SIGNAL_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "cuda_hang": ("hang_stated", "hang_observed", "hang_dump", "framework_watchdog", "cuda_device_assert"),
    "cuda_device_side_assert": ("cuda_device_assert",),
    "cuda_oom": ("cuda_out_of_memory", "gpu_out_of_memory"),
}
"""Other systems' name of a signal → the signals that show the same."""

_FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    "cuda": ("cuda", "cuda_kernel", "gpu_memory", "gpu_xid", "gpu_ecc", "nvlink"),
    "distributed": (
        *("nccl", "nccl_*", "tcpstore", "rendezvous", "gloo", "barrier", "collective", "collective_order", "peer"),
        *("coordination", "jax_coordination", "efa", "network_plugin"),
    ),
    "nccl": ("nccl", "nccl_*"),
    "slurm": ("slurm", "slurm_*", "node_fail", "walltime"),
}
"""A subsystem that stands for several: names of catalogues' subsystems, ``*`` for any end."""


@dataclass(frozen=True)
class KnownNames:
    """What a catalogue knows."""

    error_types: frozenset[str]
    subsystems: frozenset[str]
    signals: frozenset[str]

    @classmethod
    def of(cls, catalogue: Catalogue) -> "KnownNames":
        """The names in ``catalogue``, and those that the watchdog itself gives."""
        return cls(
            frozenset({*TYPES, *catalogue.error_types}),
            frozenset({each.subsystem for each in catalogue.signals if each.subsystem}) | subsystems(),
            frozenset(each.name for each in catalogue.signals),
        )

    def subsystem(self, name: str) -> frozenset[str]:
        """The subsystems that ``name`` stands for; empty: there is none of that name."""
        found = {name} & self.subsystems
        for pattern in _FAMILIES.get(name, ()):
            found |= {each for each in self.subsystems if _fits(each, pattern)}
        return frozenset(found)

    def signal(self, name: str) -> frozenset[str]:
        """The signals that ``name`` stands for; empty: there is none of that name."""
        return frozenset({name, *SIGNAL_ALIASES.get(name, ())} & self.signals)

    def all_subsystems(self) -> Iterable[str]:
        """Every name that :meth:`subsystem` takes."""
        return sorted({*self.subsystems, *_FAMILIES})

    def all_signals(self) -> Iterable[str]:
        """Every name that :meth:`signal` takes."""
        return sorted({*self.signals, *SIGNAL_ALIASES})


def _fits(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
