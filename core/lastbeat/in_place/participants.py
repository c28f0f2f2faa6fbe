"""Which of several commands of one job this is: one on each node, or one for each rank."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

# The rank that a launcher gives to what it starts, and how many there are. Of Slurm only what a step says: a batch
# script is one process, however many tasks its job may have.
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
"""Words that are the same for all of one launch, and others for each; those behind the first may be missing."""
MOST: Final = 100_000
_WORD_CHARS: Final = 100


@dataclass(frozen=True, slots=True)
class Participant:
    """One of ``count`` that are started and ended together."""

    number: int = 0
    count: int = 1


def participant_of(environ: Mapping[str, str]) -> Participant:
    """As the launcher says; the only one where none says anything."""
    for rank, size in _SOURCES:
        number, count = _whole(environ.get(rank)), _whole(environ.get(size))
        if number is not None and count is not None and number < count <= MOST:
            return Participant(number, count)
    return Participant()


def launch_of(environ: Mapping[str, str]) -> str | None:
    """A word for this launch that all of its participants come to, and those of no other. None: nobody says one."""
    for first, *more in _LAUNCHES:
        word = environ.get(first, "").strip()
        if word and word != "none":
            # A job that lastbeat supervises has the number of its attempt, whatever its launcher calls it.
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
