"""A fault on purpose: what is to happen to which rank, and when."""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, get_args

from lastbeat.model.text import did_you_mean, fit, near_names, one_line
from lastbeat.model.times import format_time

RANDOM: Final = "random"
LONGEST_S: Final = 7 * 86400.0
RANDOM_DELAY_S: Final = (10.0, 60.0)
"""A random delay is between these."""
_MOST_RANKS: Final = 10**7
_SHARED_BY_RANKS: Final = (
    "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE",
    "OMPI_MCA_ess_base_jobid", "FLUX_JOB_ID",
)  # fmt: skip
"""Variables that all ranks of one launch have alike, and another launch otherwise."""


FaultType = Literal["rank_hung", "rank_killed", "gpu_error", "slow_rank", "nan", "preempt", "disk_full"]
"""The fault of the rank. Some of the names are those of NVIDIA's resiliency extension:

- ``rank_hung``: the thread that trains waits for ever, and answers no signal,
- ``rank_killed``: SIGKILL,
- ``gpu_error``: CUDA reports a memory error of the GPU,
- ``slow_rank``: each step takes twice as long from then on,
- ``nan``: the loss that is reported is not a number from then on,
- ``preempt``: SIGTERM, as from a scheduler that wants the machine,
- ``disk_full``: a write finds no space left on the device.
"""
FAULT_TYPES: Final[tuple[FaultType, ...]] = get_args(FaultType)


@dataclass(frozen=True, slots=True)
class FaultRequest:
    """A fault as it was requested; None in a field lets chance decide."""

    type: FaultType | None = None
    rank: int | None = None
    after_s: float | None = None
    """Seconds after the rank began to report its run."""


@dataclass(frozen=True, slots=True)
class SimulatedFault:
    """A fault of which all is decided."""

    type: FaultType
    rank: int
    after_s: float

    def __str__(self) -> str:
        # In the words of NVIDIA's resiliency extension, which people and their tools look for.
        return f"FT: Simulating fault: {self.type}; rank to fail: {self.rank}"


def read_fault(text: str) -> FaultRequest:
    """``type[:rank[:seconds]]``: each part may be ``random``, the last two may be left out or empty.

    Raises ``ValueError`` with the end of a sentence.
    """
    parts = [part.strip() for part in text.split(":")] if len(text) <= 100 else []
    if not 1 <= len(parts) <= 3:
        raise ValueError("is not type:rank:seconds, as rank_killed:2:30")
    kind, rank, seconds = (*parts, "", "")[:3]
    return FaultRequest(read_fault_type(kind), _read_rank(rank), _read_delay(seconds))


def read_fault_type(text: str) -> FaultType | None:
    """One of the types; None for ``random``. Raises ``ValueError`` as above."""
    if text == RANDOM:
        return None
    for known in FAULT_TYPES:
        if text == known:
            return known
    names = [*FAULT_TYPES, RANDOM]
    near = did_you_mean(near_names(text, names))
    raise ValueError(f"names no fault that can be simulated: use {', '.join(names)}{near and f'. {near}'}")


def _read_rank(text: str) -> int | None:
    if text in {"", RANDOM}:
        return None
    if not (text.isascii() and text.isdigit() and int(text) < _MOST_RANKS):
        raise ValueError(f"has {fit(one_line(text), 20)!r} for a rank, which is no whole number from 0 on")
    return int(text)


def _read_delay(text: str) -> float | None:
    if text in {"", RANDOM}:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_S:
        raise ValueError(f"has {fit(one_line(text), 20)!r} for a delay, which is no number of seconds up to a week")
    return seconds


def decided(request: FaultRequest, world: int, seed: str | None = None) -> SimulatedFault:
    """The fault, with what was left open chosen by chance: the same by each rank that calls this with the same
    ``seed``. A delay is drawn between 10 and 60 seconds."""
    draw = random.Random(seed)  # noqa: S311 - nothing secret
    # All are drawn, so that what is said changes nothing of the rest.
    kind, rank, after_s = draw.choice(FAULT_TYPES), draw.randrange(max(1, world)), draw.uniform(*RANDOM_DELAY_S)
    return SimulatedFault(
        kind if request.type is None else request.type,
        rank if request.rank is None else request.rank,
        round(after_s, 1) if request.after_s is None else request.after_s,
    )


def launch_seed(run_id: str, environ: Mapping[str, str]) -> str | None:
    """What the ranks of this launch of the run share, and no other launch does. None: nothing says so."""
    shared = [f"{name}={environ[name]}" for name in _SHARED_BY_RANKS if environ.get(name)]
    return "\n".join([run_id, *shared]) if shared else None


def fault_mark(fault: SimulatedFault, at: datetime) -> bytes:
    """The document beside the run which says that its fault has been simulated, so that no restart has it again."""
    told = {"type": fault.type, "rank": fault.rank, "after_s": fault.after_s, "at": format_time(at)}
    return json.dumps(told).encode()
