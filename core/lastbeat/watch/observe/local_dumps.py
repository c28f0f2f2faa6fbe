"""The flight recorders' dumps on this machine."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from lastbeat.explain.flight_recorder import dump
from lastbeat.watch.observe.flight_recorders import DumpFile, rank_in

_FOLDERS: Final = 8
"""Most folders of logs in which dumps are looked for."""
_ENTRIES: Final = 10_000
"""Most entries of such a folder."""


def beside(logs: Iterable[Path], patterns: Sequence[str]) -> Iterator[DumpFile]:
    """The files beside ``logs`` that may be dumps."""
    for folder in list(dict.fromkeys(log.parent for log in logs))[:_FOLDERS]:
        with suppress(OSError), os.scandir(folder) as entries:
            yield from below(folder, [each.name for each in islice(entries, _ENTRIES)], patterns)


def below(folder: Path, names: Iterable[str], patterns: Sequence[str]) -> Iterator[DumpFile]:
    """Those of the files ``names`` in ``folder`` that may be dumps, by their names and first bytes."""
    for name in names:
        rank = rank_in(name, patterns)
        found = None if rank is None else _file(folder / name, rank)
        if found is not None:
            yield found


def named(path: Path) -> DumpFile | None:
    """The file at ``path``, if it is a dump, whatever it is named."""
    rank = rank_in(path.name, ("*",))
    return _file(path, 0 if rank is None else rank)


def _file(path: Path, rank: int) -> DumpFile | None:
    try:
        about = path.stat()
        # Opening a pipe would wait for its writer.
        if not stat.S_ISREG(about.st_mode) or dump.if_dump(_reader(path)) is None:
            return None
    except OSError:
        return None
    written = datetime.fromtimestamp(about.st_mtime, timezone.utc)
    return DumpFile(os.fspath(path), rank, about.st_size, written, partial(_reader, path))


def _reader(path: Path) -> Callable[[int], bytes]:
    at = 0

    def read(count: int) -> bytes:
        nonlocal at
        with path.open("rb") as file:
            file.seek(at)
            data = file.read(count)
        at += len(data)
        return data

    return read
