"""Arguments of the command line → logs to read: files, standard input, the logs of a directory; and their ranks."""

import os
import re
import select
import stat
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Final, cast

from lastbeat.model import runid
from lastbeat.model.text import counted
from lastbeat.watch.observe import log_files
from lastbeat_cli.explain.log_bytes import Note, UnreadableLogError, text_chunks

STDIN: Final = "-"
_MOST_DEPTH = 6
_MOST_ENTRIES = 100_000
_SPOOL_IN_MEMORY_BYTES = 16 * 1024 * 1024
_SPOOL_BYTES = 1 << 30
_AWAITED_S: Final = 2.0
"""Seconds without input after which ``explain`` says what it waits for."""
_ROOT_ENTRIES: Final = 5_000
"""Most entries of a folder that are checked for runs."""
_ROOT_SHOWN: Final = 5
"""Most runs of a fleet root that an error message names."""
_OF_A_RUN: Final = (runid.METADATA, runid.PROGRESS, runid.RECORD)
MOST_FILES: Final = 4096
"""Most logs read from one folder: as many as a large run has ranks."""
# Endings of logs that training scripts, schedulers (job.o123) and launchers write.
_LOG = re.compile(r".+\.(?:log|txt|out|err|stdout|stderr|[oe]\d{1,12}(?:[.-]\d{1,8})?)(?:\.gz)?|stdout|stderr|log")
_OLDER_PART = re.compile(r".+\.(?:log|txt|out|err)(?:\.\d{1,4}|-\d{8}(?:-\d{1,10})?)(?:\.gz)?")
_NO_LOG = re.compile(r"requirements.*\.txt|readme.*|licen[cs]e.*|cmakelists\.txt|vocab\.txt|merges\.txt", re.IGNORECASE)
_RANK_ERROR = re.compile(r"(?:.*/)?ranks/(\d{1,6})\.error")
# torchrun --log-dir DIR writes DIR/none_x1y2/attempt_0/3/stderr.log: the folder is the local rank.
_TORCHRUN = re.compile(r"(?P<base>.*/|)attempt_(?P<attempt>\d{1,6})/(?P<rank>\d{1,6})/(?:stdout|stderr)\.log")


@dataclass(frozen=True, slots=True)
class LogInput:
    """One log. Each call of ``chunks`` reads it from its beginning and notes what is left out."""

    name: str
    chunks: Callable[[Note], Iterator[bytes]]
    rank: int | None = None
    size_bytes: int | None = None
    written_at: datetime | None = None
    """When it was last written: gives the year for times without one."""


def is_piped_in() -> bool:
    """Whether standard input is a pipe, a socket or a file, not a terminal or /dev/null."""
    try:
        return sys.stdin is not None and not stat.S_ISCHR(os.fstat(sys.stdin.fileno()).st_mode)
    except OSError:
        return False


def is_awaited() -> bool:
    """Whether standard input still has neither data nor an end, :data:`_AWAITED_S` after the call."""
    ready, _, _ = select.select([sys.stdin], [], [], _AWAITED_S)
    return not ready


def stdin() -> LogInput:
    """The log on standard input. Raises :class:`UnreadableLogError` if it is closed."""
    if sys.stdin is None:
        raise UnreadableLogError("standard input is closed", "Name a file.")
    return _from(STDIN, sys.stdin.buffer)


def file(path: Path, name: str | None = None) -> LogInput:
    """The log at ``path``, shown as ``name``.

    Raises :class:`UnreadableLogError`, and FileNotFoundError because the name may be a run's.
    """
    name = name or str(path)
    try:
        about = path.stat()
        kind, written = about.st_mode, datetime.fromtimestamp(about.st_mtime, timezone.utc)
        if stat.S_ISREG(kind) or str(path) == os.devnull:
            # Opened once in advance: a missing permission is reported before the other logs take hours.
            path.open("rb").close()
            return LogInput(name, lambda note: _read(path, name, note), rank_of(name), about.st_size, written)
        if stat.S_ISFIFO(kind):
            return _from(name, path.open("rb"))
    except FileNotFoundError:
        raise
    except OSError as fault:
        raise unreadable(name, fault) from None
    raise UnreadableLogError(f"{name} is a device or a socket, and no log", "Name the log that training printed.")


def directory(
    path: Path, note: Note, take_dumps: Callable[[Path, Sequence[str]], bool] = lambda *_: False
) -> list[LogInput]:
    """Every log of the directory. ``take_dumps`` gets the names of all files, and returns whether dumps of flight
    recorders are among them. Raises :class:`UnreadableLogError` if it has neither, or holds several runs."""
    _refuse_root(path)
    files = _walk(path, note)
    names = chosen(files, lambda text: note(f"{path}: {text}"))
    if not take_dumps(path, files) and not names:
        advice = f"Name the files that the job printed into: lastbeat explain {path}/FILE…"
        raise UnreadableLogError(f"{path} has no logs (*.log, *.out, *.err, *.txt, also .gz; _error)", advice)
    return [source for name in names if (source := _still_there(path / name, note)) is not None]


def _refuse_root(path: Path) -> None:
    """Raise :class:`UnreadableLogError` if ``path`` holds several runs, because each has its own cause."""
    runs = _runs(path)
    if len(runs) < 2:
        return
    newest = sorted(runs, key=lambda name: runs[name], reverse=True)
    more = f", … ({len(runs)} in all)" if len(runs) > _ROOT_SHOWN else ""
    raise UnreadableLogError(
        f"{path} is a fleet root, and each of its runs has a cause of its own: {', '.join(newest[:_ROOT_SHOWN])}{more}",
        f"Name one: lastbeat explain {path / newest[0]}",
    )


def _runs(path: Path) -> dict[str, float]:
    """The runs whose folders lie in ``path``: name → time of the last heartbeat, in seconds since the epoch."""
    if any((path / name).exists() for name in _OF_A_RUN):
        return {}
    found: dict[str, float] = {}
    try:
        for folder, _ in zip(path.iterdir(), range(_ROOT_ENTRIES), strict=False):
            written = _written(folder) if runid.is_run_id(folder.name) else None
            if written is not None:
                found[folder.name] = written
    except OSError:
        return found
    return found


def _written(folder: Path) -> float | None:
    """When a document of the run in ``folder`` was last written, or None if no such document can be seen."""
    times = []
    for name in _OF_A_RUN:
        try:
            times.append((folder / name).stat().st_mtime)
        except OSError:  # missing, or no permission  # noqa: PERF203
            continue
    return max(times, default=None)


def _still_there(path: Path, note: Note) -> LogInput | None:
    try:
        return file(path)
    except FileNotFoundError:
        note(f"{path} went away")
        return None


def _walk(top: Path, note: Note) -> list[str]:
    """The files below ``top``, by their paths relative to it."""
    found: list[str] = []

    def failed(fault: OSError) -> None:
        if fault.filename == str(top):
            raise unreadable(str(top), fault)
        note(f"{fault.filename}: {fault.strerror}; it was left out")

    for folder, folders, names in os.walk(top, onerror=failed):
        here = Path(folder).relative_to(top)
        deep = len(here.parts) >= _MOST_DEPTH
        folders[:] = [] if deep else sorted(name for name in folders if not name.startswith("."))
        found.extend((here / name).as_posix() for name in names)
        if len(found) > _MOST_ENTRIES:
            note(f"{top}: holds more than {_MOST_ENTRIES:,} files; logs beyond these were not looked for")
            break
    return found


def _read(path: Path, name: str, note: Note) -> Iterator[bytes]:
    try:
        with path.open("rb") as opened:
            yield from text_chunks(name, opened.read, note)
    except OSError as fault:
        raise unreadable(name, fault) from None


def _from(name: str, stream: IO[bytes]) -> LogInput:
    """A log from ``stream``. If the stream cannot seek, up to a gigabyte of it is kept for a second reading."""
    start = stream.tell() if stream.seekable() else None
    spool: _Spool | None = None

    def chunks(note: Note) -> Iterator[bytes]:
        nonlocal spool
        try:
            if start is not None:
                stream.seek(start)
                yield from text_chunks(name, stream.read, note)
            elif spool is None:
                spool = _Spool(stream)
                yield from text_chunks(name, spool.read, note)
            else:
                yield from text_chunks(name, spool.rewound().read, note)
        except OSError as fault:
            raise unreadable(name, fault) from None

    return LogInput(name, chunks)


class _Spool:
    """Keeps what is read from a stream, up to :data:`_SPOOL_BYTES`, so that it can be read again."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._kept = tempfile.SpooledTemporaryFile(_SPOOL_IN_MEMORY_BYTES)  # noqa: SIM115 - closed in the next line
        weakref.finalize(self, self._kept.close)
        weakref.finalize(self, stream.close)
        self._room = _SPOOL_BYTES

    def read(self, count: int) -> bytes:
        data = self._stream.read(count)
        self._room -= len(data)
        if self._room >= 0:
            try:
                self._kept.write(data)
            except OSError:
                # With a full /tmp only the lines around the evidence are missing.
                self._room = -1
        return data

    def rewound(self) -> IO[bytes]:
        """The kept bytes, from their beginning."""
        self._kept.seek(0)
        return cast("IO[bytes]", self._kept)


def unreadable(name: str, fault: OSError) -> UnreadableLogError:
    """``fault`` with advice for the user."""
    advice = {
        "FileNotFoundError": "Check the path; a RUN id is looked up below the fleet root, where --root says.",
        "PermissionError": "Ask its owner, or read it as a user who may: sudo cat FILE | lastbeat explain -",
    }
    return UnreadableLogError(f"{name}: {fault.strerror or fault}", advice.get(type(fault).__name__, ""))


def rank_of(path: str) -> int | None:
    """The rank in a path such as ``rank3.log``, ``train-rank_12.out.gz`` or ``attempt_0/3/stderr.log``, or None."""
    if found := _TORCHRUN.fullmatch(path):
        return int(found["rank"])
    if found := _RANK_ERROR.fullmatch(path):
        return int(found[1])
    name = _last(path).removesuffix(".gz")
    # A bare number is a rank only in a run's own folder; elsewhere it is more likely a job id.
    return None if name.split(".", 1)[0].isdecimal() else log_files.rank_of(name)


def chosen(paths: Iterable[str], note: Callable[[str], None]) -> list[str]:
    """The logs among ``paths``, which are relative to one folder. In a run's own folder the error files of its ranks
    and its ``_error`` count as logs. Calls ``note`` with what is left out."""
    paths = list(paths)
    newest = _newest_attempts(paths)
    if older := len(paths) - len(newest):
        note(f"{counted(older, 'log')} of earlier attempts left out: name what is to be read")
    if older := sum(_OLDER_PART.fullmatch(_last(path)) is not None and not _is_log(path) for path in newest):
        note(f"{counted(older, 'older part')} of rotated logs left out: name what is to be read")
    logs = sorted(filter(_is_log, newest), key=_natural)
    if len(logs) > MOST_FILES:
        note(f"there are {len(logs):,} logs; the first {MOST_FILES:,} by name are read")
    return logs[:MOST_FILES]


def _is_log(path: str) -> bool:
    if path in {runid.ERROR, runid.STACKS}:
        # Stacks are in lastbeat's own format, and are not output of training.
        return path == runid.ERROR
    name = _last(path)
    named = _LOG.fullmatch(name) is not None and not _NO_LOG.fullmatch(name)
    hidden = any(part.startswith(".") for part in path.split("/"))
    return (named and not hidden) or _RANK_ERROR.fullmatch(path) is not None


def _newest_attempts(paths: list[str]) -> list[str]:
    """``paths`` without the logs of torchrun's earlier attempts, which ended for reasons of their own."""
    matches = {path: match for path in paths if (match := _TORCHRUN.fullmatch(path)) is not None}
    last: dict[str, int] = {}
    for match in matches.values():
        last[match["base"]] = max(last.get(match["base"], 0), int(match["attempt"]))
    return [
        path for path in paths if (match := matches.get(path)) is None or int(match["attempt"]) == last[match["base"]]
    ]


def _last(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _natural(text: str) -> list[tuple[int, str]]:
    """A sort key that puts ``rank10`` after ``rank9``."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d{1,18})", text)]
