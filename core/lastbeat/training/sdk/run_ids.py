"""Derives a readable run id if none is given. All ranks of a run derive the same one by themselves."""

import os
import re
import time
from collections.abc import Mapping
from pathlib import PurePath

from lastbeat.training.sdk.ranks import Rank

_JOBS = (
    # A job of an array also has a number of its own, but its place in the array is more useful.
    ("SLURM_JOB_NAME", ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID")),
    ("SLURM_JOB_NAME", ("SLURM_JOB_ID",)),
    ("PBS_JOBNAME", ("PBS_JOBID",)),
    ("LSB_JOBNAME", ("LSB_JOBID",)),
    ("FLUX_JOB_NAME", ("FLUX_JOB_ID",)),
)
_NAMELESS = {"", "bash", "sh", "wrap", "interactive"}
"""Schedulers' default names for a job without a name."""
_LAUNCHES = ("TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid")
"""Variables in which a launcher gives all of its ranks the id of this launch."""
_LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
_HERE = {"localhost", "127.0.0.1", "::1"}
_PROGRAMS = {"-c": "run", "ipykernel_launcher": "notebook"}
_UNFIT = re.compile(r"[^A-Za-z0-9.=@+_-]+")
_PART_CHARS = 60
_LETTERS = "bcdfghjkmnpqrstvwxz"


class NoRunIdError(ValueError):
    """The ranks cannot derive one common id; the message says what to do."""


def job_run_id(environ: Mapping[str, str]) -> str | None:
    """The run id of a scheduler's job: ``llama-12345``, or ``llama-12345_7`` in an array. None outside a job. A job
    that lastbeat supervises has the id that lastbeat gave it."""
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

    1. A scheduler's job gives its name and number, which stay the same after a requeue.
    2. A single process gets its script's name, the time, the host and three letters:
       ``train-20260801-101500-gpu7-kpt``.
    3. Several ranks get the launcher's id of the launch. Without one, ranks on one node get their parent process, and
       others the address at which they meet.

    Raises :class:`NoRunIdError` if the ranks would derive different ids.
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
        # torchrun sets "none" if it was given no id.
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
    """Id and start of the parent process, or None if unknown. The start is there because process ids are reused."""
    parent = os.getppid()
    try:
        with open(f"/proc/{parent}/stat", "rb") as file:  # noqa: PTH123 - no need of pathlib here
            began = int(file.read(4096).rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
    return f"{parent}-{began:x}"
