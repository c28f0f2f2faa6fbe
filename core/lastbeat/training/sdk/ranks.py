"""Identifies this process's rank in distributed training, and builds its heartbeat."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lastbeat.training.sdk.documents import iso_time
from lastbeat.training.sdk.process_mark import process_mark
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.sections import section_fields, time_fields
from lastbeat.training.sdk.value_reader import ValueReader
from lastbeat.training.sdk.values import as_int, as_number, as_process_count, as_text

# The variables of each launcher: the rank, then possible world sizes. The innermost launcher comes first: torchrun
# inside srun numbers its own workers, and then Slurm's variables describe the node. LOCAL_RANK numbers the processes
# of a node, so it is no source here.
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
_GOLDEN_RATIO = 0.6180339887498949


@dataclass(frozen=True, slots=True)
class Rank:
    """One process of ``world``; rank 0 of 1 if training is not distributed."""

    number: int = 0
    world: int = 1
    local: int | None = None
    """Its local rank on the node, if known."""
    host: str = ""

    @property
    def leads(self) -> bool:
        """Whether it is rank 0, which writes the run's documents."""
        return self.number == 0

    def __str__(self) -> str:
        where = f" on {self.host}" if self.host else ""
        place = f", local rank {self.local}" if self.local is not None else ""
        return f"rank {self.number} of {self.world}{where}{place}, process {os.getpid()}"


def rank_of(environ: Mapping[str, str], host: str = "", rank: int | None = None, world_size: int | None = None) -> Rank:
    """The rank that the launcher gave this process, unless ``rank`` and ``world_size`` are given.

    A launcher's variable counts if it is a whole number. The world is at least as large as its ranks require.
    """
    found, size = 0, None
    for name, sizes in _SOURCES:
        number = _variable(environ, name)
        if number is not None:
            found, size = number, next((n for n in (_variable(environ, of) for of in sizes) if n is not None), None)
            break
    found = _given_or(rank, found)
    size = _given_or(world_size, size or 1)
    local = next((place for place in (_variable(environ, name) for name in _LOCAL) if place is not None), None)
    return Rank(found, max(size, found + 1), local, host)


def rank_key(rank: int) -> str:
    """The key of a rank's heartbeat in the run's folder."""
    return f"ranks/{rank}.json"


def rank_error_key(rank: int) -> str:
    """The key of the error of a rank that was not the first to fail."""
    return f"ranks/{rank}.error"


def first_beat_s(rank: int, every_s: float) -> float:
    """Time in s from a rank's start to its first beat. The golden ratio spreads any number of ranks evenly."""
    return (rank * _GOLDEN_RATIO % 1.0) * every_s


def with_rank(error: str, rank: Rank, attempt: int | None = None) -> str:
    """The text of an ``_error`` with its rank in the second line; unchanged if training is not distributed."""
    if rank.world < 2:
        return error
    first, _, rest = error.partition("\n")
    return f"{first}\n{rank}{f', attempt {attempt}' if attempt else ''}\n{rest}"


def rank_zero_fields(rank: Rank, *, begun: bool, beat_s: float = 0.0) -> dict[str, Any]:
    """The extra fields of metadata.json in distributed training; see ``first_error`` for ``begun``. ``beat_s`` is the
    time between two heartbeats of a rank; 0 means none."""
    if rank.world < 2:
        return {}
    return {"world_size": rank.world, "begun": begun, "rank_beat_seconds": beat_s or None}


def rank_document(
    run: Run, rank: Rank, attempt: int | None, at: float, reader: ValueReader | None = None, beat_s: float | None = None
) -> dict[str, Any]:
    """The content of ranks/{rank}.json at Unix time ``at``: shows that this rank is alive, and its progress."""
    step, loss = (run.latest[0], run.latest[1]) if run.latest is not None else (None, None)
    # The loss comes last: if a collective hangs, so does every tensor that depends on it, and the rest must be read.
    asked = [("step", step, as_int), ("phase", run.phase_now[0], as_text), ("loss", loss, as_number)]
    step_now, phase, loss_now = (reader or ValueReader()).read(asked)
    return {
        "run_id": run.run_id,
        "rank": rank.number,
        "world_size": rank.world,
        "local_rank": rank.local,
        "host": rank.host or None,
        "pid": os.getpid(),
        "process_mark": process_mark(os.getpid()),
        "status": run.status,
        "phase": phase,
        "step": step_now,
        "loss": loss_now,
        "attempt": attempt,
        "thread_error": run.thread_error.line if run.thread_error is not None else None,
        "beat_seconds": beat_s,
        **section_fields(() if run.ended else run.sections.spans()),
        **time_fields(run.sections),
        "last_update": iso_time(at),
    }


def _given_or(value: object, default: int) -> int:
    given = as_process_count(value)
    return default if given is None else given


def _variable(environ: Mapping[str, str], name: str) -> int | None:
    value = environ.get(name, "").strip()
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else None
