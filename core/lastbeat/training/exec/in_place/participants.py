"""Identifies this command among several of one job: one on each node, or one for each rank."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

# Variables for the rank that a launcher gives to its commands, and for their number. For Slurm, only those of a step
# count, because a batch script is one process in a job of any number of tasks.
_SOURCES: Final = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("FLUX_TASK_RANK", "FLUX_JOB_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("GROUP_RANK", "GROUP_WORLD_SIZE"),
)
_LAUNCHES: Final = (
    ("SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_STEP_ID"),
    ("FLUX_JOB_ID", "FLUX_JOB_RESTART_COUNT"),
    ("PBS_JOBID",),
    ("LSB_JOBID", "LSB_JOBINDEX"),
    ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"),
    ("PMIX_NAMESPACE",),
    ("OMPI_MCA_ess_base_jobid",),
    ("OMPI_MCA_orte_ess_jobid",),
)
"""Variables that together identify a launch and are equal on all of its nodes; those after the first may be missing."""
MOST: Final = 100_000
_WORD_CHARS: Final = 100


@dataclass(frozen=True, slots=True)
class Participant:
    """One of ``count`` commands that are started and ended together."""

    number: int = 0
    count: int = 1


def participant_of(environ: Mapping[str, str]) -> Participant:
    """The participant by the launcher's variables; the only one without such variables."""
    for rank, size in _SOURCES:
        number, count = _whole(environ.get(rank)), _whole(environ.get(size))
        if number is not None and count is not None and number < count <= MOST:
            return Participant(number, count)
    return Participant()


def launch_of(environ: Mapping[str, str]) -> str | None:
    """A name for this launch that all of its participants derive, and those of no other. None without a launcher's
    variable."""
    for first, *more in _LAUNCHES:
        word = environ.get(first, "").strip()
        if word and word != "none":
            # A job that lastbeat supervises also has the number of its attempt.
            parts = [
                word,
                *(environ.get(each, "").strip() or "0" for each in more),
                environ.get("LASTBEAT_ATTEMPT", ""),
            ]
            return launch_word(".".join(filter(None, parts)))
    return None


def launch_word(text: str) -> str:
    """``text`` as a part of a file's name."""
    return "".join(each if each.isascii() and (each.isalnum() or each in "._-") else "-" for each in text)[:_WORD_CHARS]


def _whole(text: str | None) -> int | None:
    text = (text or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else None
