"""Which files are logs, which rank wrote each, and which are read if there are very many."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TypeVar

from lastbeat.model import runid
from lastbeat.stores.port import Entry

FOLDER = "logs/"
FLIGHT = "flight/"
"""Folder of the dumps of flight recorders."""
SUFFIXES = (".txt", ".log", ".out", ".err")
MOST = 64
"""At most this many log files are read per run."""
LISTED = 96
"""At most this many log files are returned by a listing: more than are read, so a note can report omitted ones."""
_TOGETHER = timedelta(hours=1)
_ONE_LIFE = timedelta(hours=3)
"""Longer than any collective waits for a dead rank, and than the clocks of a cluster differ."""

# Compiled when first needed: most runs have one log, whose rank does not matter.
_RANK = r"(?i)(?:^|[^a-z])(?<!local[._-])(?:global[._-]?)?(?:rank|proc|worker)[._-]?([0-9]{1,6})(?![0-9])"
_STREAM = r"(?i)(?:stderr|stdout|err|out|log)[._-]([0-9]{1,5})"

K = TypeVar("K", bound=str)


def is_log(name: str) -> bool:
    """Whether ``name``, below the run's folder, is a log: right in ``logs/``, with one of :data:`SUFFIXES`."""
    rest = name.removeprefix(FOLDER)
    return (
        rest != name and "/" not in rest and rest.endswith(SUFFIXES) and not rest.startswith(".")
        and name != runid.STACKS
    )  # fmt: skip


def of_logs(name: str) -> bool:
    """Whether ``name`` is a log or the folder of logs."""
    return is_log(name) or name.rstrip("/") == FOLDER[:-1]


def is_of_now(written: datetime | None, newest: datetime | None) -> bool:
    """Whether a log last written at ``written`` belongs to the same job as the ``newest``, not to an earlier one."""
    return written is not None and newest is not None and newest - written <= _ONE_LIFE


def rank_of(name: str) -> int | None:
    """The rank in ``name``: ``rank3.log``, ``train_rank_3.txt``, ``stderr_3.log``, ``3.out``.

    Local ranks do not count, nor do the numbers of jobs and dates.
    """
    stem = name.rpartition("/")[2]
    for suffix in SUFFIXES:
        stem = stem.removesuffix(suffix)
    found = re.search(_RANK, stem)
    if found is not None:
        return int(found[1])
    found = re.fullmatch(_STREAM, stem)
    if found is not None:
        return int(found[1])
    return int(stem) if re.fullmatch(r"[0-9]{1,5}", stem) else None


def choose(files: Mapping[K, Entry], most: int = MOST) -> dict[K, Entry]:
    """At most ``most`` of these log files; always the same choice for the same files.

    1. The main log.
    2. Logs written within an hour of the newest, since a folder may hold those of all earlier jobs: first those without
       a rank, then by rank.
    3. The others, newest first.
    """
    if len(files) < 2:
        return dict(files)
    newest = max(entry.modified for entry in files.values())

    def order(item: tuple[K, Entry]) -> tuple[bool, bool, float, bool, int, bytes]:
        name, entry = item
        rank = rank_of(name)
        together = newest - entry.modified <= _TOGETHER
        age = 0.0 if together else -entry.modified.timestamp()
        return name != runid.LOG, not together, age, rank is not None, rank or 0, name.encode()

    return dict(sorted(files.items(), key=order)[:most])
