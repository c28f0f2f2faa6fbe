"""Finds the dumps of PyTorch's flight recorders beside logs, and reads what they show together."""

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Final, NamedTuple

from lastbeat import explain
from lastbeat.model.stuck_collective import StuckCollective
from lastbeat.stores.port import Store, StoreError
from lastbeat.watch.observe.log_files import FLIGHT, is_of_now

if TYPE_CHECKING:
    from lastbeat.explain.flight_recorder.dump import RankDump

FOLDERS: Final = (FLIGHT, "logs/")
"""Folders of a run in which dumps may lie. Training writes them into the first."""
_MOST_PAGES: Final = 8
MOST_DUMPS: Final = 4096
"""Most dumps that are read: as many as a large run has ranks."""
_RANK: Final = re.compile(r"rank[._-]?(\d{1,6})(?!\d)", re.IGNORECASE)
_LAST_NUMBER: Final = re.compile(r"(\d{1,6})(?:\.[a-z]{1,8})?$", re.IGNORECASE)
_NO_DUMP: Final = (
    ".log",
    ".txt",
    ".out",
    ".err",
    ".gz",
    ".py",
    ".pt",
    ".safetensors",
    ".npy",
    ".html",
    ".csv",
    ".yaml",
)
"""Endings of files that are never dumps, whatever they are named."""


class DumpReadLimits(NamedTuple):
    """Limits of reading the dumps of one run."""

    file_bytes: int = 1 << 30
    most_bytes: int = 4 << 30
    """The sum of the sizes of all dumps."""
    most_s: float = 60.0


DEFAULT: Final = DumpReadLimits()
OF_A_PASS: Final = DumpReadLimits(file_bytes=64 << 20, most_bytes=512 << 20, most_s=15.0)
"""A pass has other runs to look at, and a Lambda function has little memory."""


@dataclass(frozen=True, slots=True)
class DumpFile:
    """One file that may be a dump."""

    name: str
    rank: int
    size_bytes: int
    modified: datetime
    open: Callable[[], Callable[[int], bytes]]
    """Begins to read it: returns a function that returns its next bytes. Both raise OSError or :class:`StoreError`."""


class DumpsRead(NamedTuple):
    """What the dumps of a run show."""

    stuck: StuckCollective | None
    number: int = 0
    """How many were read."""
    notes: tuple[str, ...] = ()
    """What was left out, as sentences."""


def rank_in(name: str, patterns: Sequence[str]) -> int | None:
    """The rank whose dump a file may be, by its path below the folder, or None if ``patterns`` do not match it."""
    lower = name.lower()
    last = lower.rsplit("/", 1)[-1]
    if last.endswith(_NO_DUMP) or not any(
        fnmatchcase(lower, each.lower()) or fnmatchcase(last, each.lower()) for each in patterns
    ):
        return None
    ranks = _RANK.findall(last)
    found = _LAST_NUMBER.search(last)
    return int(ranks[-1]) if ranks else int(found[1]) if found is not None else None


def dumps_of_run(store: Store, run_id: str, patterns: Sequence[str], since: datetime | None = None) -> list[DumpFile]:
    """The files in the run's folder that may be dumps, written from ``since`` on. Raises :class:`StoreError`."""
    found = []
    for folder in FOLDERS if patterns else ():
        prefix, after = f"{run_id}/{folder}", ""
        for _ in range(_MOST_PAGES):
            page = store.list(prefix, after)
            for entry in page.entries:
                name = entry.key[len(run_id) + 1 :]
                rank = None if entry.fault is not None else rank_in(name, patterns)
                if rank is not None and (since is None or entry.modified >= since):
                    read = partial(_whole, store, entry.key, entry.size_bytes)
                    found.append(DumpFile(name, rank, entry.size_bytes, entry.modified, read))
            if not page.more or not page.entries:
                break
            after = page.entries[-1].key
    return found


def _whole(store: Store, key: str, size_bytes: int) -> Callable[[int], bytes]:
    blob = store.read(key, size_bytes)
    return BytesIO(b"" if blob is None else blob.body).read


def read_dumps(
    files: Iterable[DumpFile],
    *,
    world_size: int | None = None,
    ended: Collection[int] = (),
    hosts: Callable[[Collection[int]], Mapping[int, str]] = lambda _: {},
    limits: DumpReadLimits = DEFAULT,
) -> DumpsRead:
    """What ``files`` show, as far as they are dumps, and read within ``limits``. The ranks
    ``ended`` finished well, by their logs. Never raises.

    1. Of each rank take the newest file, and none that is hours older than the newest of all.
    2. Read them. What is no dump is passed over, and a damaged one serves as far as it goes.
    3. Match them, and ask for the hosts of the ranks that are named.
    """
    chosen, notes = _chosen(files), list[str]()
    dumps = _read(chosen, limits, notes)
    names = {file.rank: file.name for file in chosen}
    stuck = explain.flight_recorder.matching.stuck_collective(dumps, world_size=world_size, ended=ended, files=names)
    if stuck is not None:
        stuck = stuck.located(hosts([row.first for row in stuck.rows if row.count == 1]))
    return DumpsRead(stuck, len(dumps), tuple(notes))


def _chosen(files: Iterable[DumpFile]) -> list[DumpFile]:
    newest: dict[int, DumpFile] = {}
    for file in files:
        known = newest.get(file.rank)
        if known is None or (file.modified, file.name) > (known.modified, known.name):
            newest[file.rank] = file
    latest = max((file.modified for file in newest.values()), default=None)
    return sorted((file for file in newest.values() if is_of_now(file.modified, latest)), key=lambda file: file.rank)


def _read(chosen: Sequence[DumpFile], limits: DumpReadLimits, notes: list[str]) -> dict[int, "RankDump"]:
    until, left = time.monotonic() + limits.most_s, limits.most_bytes
    found: dict[int, RankDump] = {}
    if len(chosen) > MOST_DUMPS:
        notes.append(f"there are {len(chosen):,} dumps of flight recorders; the first {MOST_DUMPS:,} are read")
    for file in chosen[:MOST_DUMPS]:
        if file.size_bytes > min(left, limits.file_bytes) or time.monotonic() > until:
            notes.append(f"{file.name}: there is no time or memory for this dump, so it was left out")
            continue
        try:
            dump = _dump(file, until, explain.flight_recorder.dump.kept_calls(len(chosen)))
        except (explain.flight_recorder.plain_pickle.RefusedDumpError, OSError, StoreError) as fault:
            notes.append(f"{file.name} is no dump that can be read: {fault}")
            continue
        if dump is not None:
            found[file.rank], left = dump, left - file.size_bytes
            if dump.fault:
                notes.append(f"{file.name} was read in part: {dump.fault}")
    return found


def _dump(file: DumpFile, until: float, keep: int) -> "RankDump | None":
    read = explain.flight_recorder.dump.if_dump(file.open())
    if read is None:
        return None
    return explain.flight_recorder.dump.read_dump(read, lambda: time.monotonic() > until, keep=keep)
