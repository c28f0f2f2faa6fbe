"""Which process of a distributed training this is, and what it tells of itself."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lastbeat.sdk.documents import now_text
from lastbeat.sdk.reading import Reader
from lastbeat.sdk.run import CANCELLED, Run
from lastbeat.sdk.values import count, number, text, whole

# Rank, then sizes of the world, one row a launcher. The innermost launcher comes first: torchrun below srun numbers
# its workers itself, and what Slurm says is then the node's. LOCAL_RANK is a place on a node, never a rank.
_SOURCES = (
    ("RANK", ("WORLD_SIZE",)),
    ("OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_SIZE",)),
    ("MV2_COMM_WORLD_RANK", ("MV2_COMM_WORLD_SIZE",)),
    ("PMI_RANK", ("PMI_SIZE",)),
    ("FLUX_TASK_RANK", ("FLUX_JOB_SIZE",)),
    ("SLURM_PROCID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS")),
    ("PMIX_RANK", ("WORLD_SIZE",)),
)
_LOCAL = (
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "FLUX_TASK_LOCAL_ID",
    "SLURM_LOCALID",
)
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, slots=True)
class Rank:
    """One process among ``world``; rank 0 of 1 for a training that is not distributed."""

    number: int = 0
    world: int = 1
    local: int | None = None
    """Its place on its node, where known."""
    host: str = ""

    @property
    def leads(self) -> bool:
        """Whether it writes the run's documents."""
        return self.number == 0

    def __str__(self) -> str:
        where = f" on {self.host}" if self.host else ""
        place = f", local rank {self.local}" if self.local is not None else ""
        return f"rank {self.number} of {self.world}{where}{place}, process {os.getpid()}"


def rank_of(environ: Mapping[str, str], host: str = "", rank: int | None = None, world_size: int | None = None) -> Rank:
    """The rank that the launcher gave to this process; ``rank`` and ``world_size`` win where they are given.

    A launcher's variable counts if it is a whole number. A world is never smaller than its ranks make it.
    """
    found, size = 0, None
    for name, sizes in _SOURCES:
        told = _whole(environ, name)
        if told is not None:
            found, size = told, next((n for n in (_whole(environ, of) for of in sizes) if n is not None), None)
            break
    found = _given(rank, found)
    size = _given(world_size, size or 1)
    local = next((place for place in (_whole(environ, name) for name in _LOCAL) if place is not None), None)
    return Rank(found, max(size, found + 1), local, host)


def rank_key(rank: int) -> str:
    """Where a rank's heartbeat lies below the run's folder."""
    return f"ranks/{rank}.json"


def rank_error_key(rank: int) -> str:
    """Where the error of a rank lies that was not the first to fail."""
    return f"ranks/{rank}.error"


def first_beat_s(rank: int, every_s: float) -> float:
    """When after the start a rank beats for the first time, in s: the golden ratio spreads any number of ranks."""
    return (rank * _GOLDEN % 1.0) * every_s


def told_by(text_of_error: str, rank: Rank, attempt: int | None = None) -> str:
    """The text of an ``_error`` with who tells it in its second line; unchanged in a world of one."""
    if rank.world < 2:
        return text_of_error
    first, _, rest = text_of_error.partition("\n")
    return f"{first}\n{rank}{f', attempt {attempt}' if attempt else ''}\n{rest}"


def lead_facts(rank: Rank, *, begun: bool) -> dict[str, Any]:
    """What metadata.json says besides for a distributed training; see ``first_error`` for ``begun``."""
    return {"world_size": rank.world, "begun": begun} if rank.world > 1 else {}


def rank_document(run: Run, rank: Rank, attempt: int | None, at: float, reader: Reader | None = None) -> dict[str, Any]:
    """ranks/{rank}.json: that this rank lives, and how far it is."""
    step, loss = (run.latest[0], run.latest[1]) if run.latest is not None else (None, None)
    # A collective that hangs holds up every tensor behind it, and must not hold up this.
    asked = [("step", step, whole), ("phase", run.phase_now[0], text), ("loss", loss, number)]
    at_step, phase, lost = (reader or Reader()).told(asked)
    return {
        "run_id": run.run_id,
        "rank": rank.number,
        "world_size": rank.world,
        "local_rank": rank.local,
        "host": rank.host or None,
        "pid": os.getpid(),
        "status": _status(run),
        "phase": phase,
        "step": at_step,
        "loss": lost,
        "attempt": attempt,
        "thread_error": run.thread_error.line if run.thread_error is not None else None,
        "last_update": now_text(at),
    }


def cancelled(ending: tuple[str, str]) -> bool:
    """Whether a run was ended by somebody, and not by an error of its own; see :meth:`Run.cancel`."""
    return ending[0] == "_error" and ending[1].startswith(CANCELLED)


def _status(run: Run) -> str:
    if run.ending is None:
        return "running"
    if run.ending[0] == "_complete":
        return "completed"
    return "cancelled" if cancelled(run.ending) else "failed"


def _given(value: object, otherwise: int) -> int:
    told = count(value)
    return otherwise if told is None else told


def _whole(environ: Mapping[str, str], name: str) -> int | None:
    value = environ.get(name, "").strip()
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else None
