"""A run id for those who give none: one that people can read, and that all ranks of a training come to alone."""

import os
import re
import time
from collections.abc import Mapping
from pathlib import PurePath

from lastbeat.sdk.ranks import Rank

_JOBS = (
    # A job of an array has a number of its own, which says less than its place in the array.
    ("SLURM_JOB_NAME", ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID")),
    ("SLURM_JOB_NAME", ("SLURM_JOB_ID",)),
    ("PBS_JOBNAME", ("PBS_JOBID",)),
    ("LSB_JOBNAME", ("LSB_JOBID",)),
    ("FLUX_JOB_NAME", ("FLUX_JOB_ID",)),
)
_NAMELESS = {"", "bash", "sh", "wrap", "interactive"}
"""What schedulers call a job that nobody has named."""
_LAUNCHES = ("TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid")
"""Variables with which a launcher names this very launch, to all of its ranks."""
_LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
_HERE = {"localhost", "127.0.0.1", "::1"}
_PROGRAMS = {"-c": "run", "ipykernel_launcher": "notebook"}
_UNFIT = re.compile(r"[^A-Za-z0-9.=@+_-]+")
_PART_CHARS = 60
_LETTERS = "bcdfghjkmnpqrstvwxz"


class NoRunIdError(ValueError):
    """The ranks cannot come to one id by themselves; the message says what to do."""


def job_run_id(environ: Mapping[str, str]) -> str | None:
    """The id of a run that is a scheduler's job: ``llama-12345``, of an array ``llama-12345_7``. None: it is none. A
    job that lastbeat supervises is of the run that was given."""
    if supervised := environ.get("LASTBEAT_RUN_ID", "").strip():
        return supervised
    for named, numbered in _JOBS:
        numbers = [_part(environ.get(name, "")) for name in numbered]
        if all(numbers):
            name = _part(environ.get(named, ""))
            scheduler = numbered[0].partition("_")[0].lower()
            return f"{scheduler if name in _NAMELESS else name}-{'_'.join(numbers)}"
    return None


def own_run_id(environ: Mapping[str, str], program: str, host: str, rank: Rank) -> str:
    """An id for a run that was given none. ``program`` is the script's path.

    1. A scheduler's job has its name and number, again after a requeue.
    2. A single process has its script's name, the time, the host and three letters: ``train-20260801-101500-gpu7-kpt``.
    3. Of several ranks, the launcher names the launch; else, on one node, the process that started them all does; else
       the address at which they meet.

    Raises :class:`NoRunIdError` where the ranks would come to different ones.
    """
    job = job_run_id(environ)
    if job is not None:
        return job
    stem = PurePath(program).stem
    script, node = _PROGRAMS.get(stem) or _part(stem) or "run", _part(host.partition(".")[0]) or "host"
    if rank.world < 2:
        letters = "".join(_LETTERS[byte % len(_LETTERS)] for byte in os.urandom(3))
        return f"{script}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{node}-{letters}"
    for name in _LAUNCHES:
        launch = _part(environ.get(name, ""))
        # torchrun's word where it was given none.
        if launch and launch != "none":
            return f"{script}-{launch}"
    meeting = environ.get("MASTER_ADDR", "").strip()
    if any(environ.get(name, "").strip() == str(rank.world) for name in _LOCAL_SIZES) or meeting in _HERE:
        parent = _parent()
        if parent is not None:
            return f"{script}-{node}-{parent}"
    if meeting and meeting not in _HERE:
        return f"{script}-{_part(meeting)}-{_part(environ.get('MASTER_PORT', '')) or '0'}"
    why = f"the {rank.world} ranks of this training cannot agree on a run id by themselves"
    raise NoRunIdError(f'{why}: give one, as lastbeat.run("my-run")')


def _part(text: str) -> str:
    """``text`` as a part of a run id, or nothing."""
    return _UNFIT.sub("-", text.strip()[: 4 * _PART_CHARS]).strip("-._")[:_PART_CHARS]


def _parent() -> str | None:
    """The process that started this one: its number and, because numbers come again, when it began."""
    parent = os.getppid()
    try:
        with open(f"/proc/{parent}/stat", "rb") as file:  # noqa: PTH123 - no need of pathlib here
            began = int(file.read(4096).rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
    return f"{parent}-{began:x}"
