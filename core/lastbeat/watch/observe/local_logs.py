"""Logs on this machine, found by paths and patterns."""

import errno
import glob
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from lastbeat.stores.beneath import NO_SUCH_FILE, modified_of, read_part, regular, version_of
from lastbeat.stores.port import Blob, DeniedError, Entry, UnreachableError
from lastbeat.watch.observe.log_files import MOST, choose, rank_of

_MATCHES = 10_000
"""At most this many paths of a pattern are checked."""
_COPIES = 3
# In file names of sbatch and srun: job, step and array numbers, task, node, user, name.
_SLURM = re.compile(r"%[0-9]{0,2}([AaJjstNnux])")
_JOB = "AJj"


@dataclass(frozen=True, slots=True)
class LocalLog:
    """A regular file on this machine. Links are followed; anything else counts as missing."""

    path: Path
    name: str
    size_bytes: int
    modified: datetime
    version: str

    @property
    def rank(self) -> int | None:
        return rank_of(self.name)

    def read(self, start: int, limit_bytes: int) -> Blob | None:
        try:
            return read_part(self.path, limit_bytes, start=start)
        except OSError as error:
            if error.errno in NO_SUCH_FILE:
                return None
            why = os.strerror(error.errno) if error.errno else type(error).__name__
            if error.errno in {errno.EACCES, errno.EPERM}:
                raise DeniedError(f"{self.name}: not allowed to read it", "check owner and mode of the file") from error
            raise UnreachableError(f"{self.name}: cannot be read now: {why}") from error

    def renamed(self, version: str) -> "LocalLog | None":
        inode = version.partition("-")[0]
        if self.version.partition("-")[0] == inode:
            return None
        return next((log for log in self._beside() if log.version.partition("-")[0] == inode), None)

    def beside(self) -> "list[LocalLog]":
        return sorted(self._beside(), key=lambda log: log.modified, reverse=True)[:_COPIES]

    def _beside(self) -> "list[LocalLog]":
        """Files whose names begin with its name, as those of rotated logs do."""
        try:
            with os.scandir(self.path.parent) as found:
                names = [each.name for each in islice(found, _MATCHES) if each.name.startswith(self.path.name)]
            paths = (self.path.with_name(name) for name in names if name != self.path.name)
            return [log for path in paths if (log := local_log(path)) is not None]
        except OSError:
            return []


def local_log(path: Path, name: str | None = None) -> LocalLog | None:
    """The regular file at ``path`` as a log, or None if there is none. Raises ``OSError`` if that is undetermined."""
    found = regular(path)
    if found is None:
        return None
    return LocalLog(path, name or str(path), found.st_size, modified_of(found), version_of(found))


class LocalLogs(NamedTuple):
    """The logs that patterns match."""

    logs: list[LocalLog]
    notes: list[str]
    """For people: patterns without a match, files left out."""
    hidden: list[str]
    """Paths that could not be checked, and why. Unreadable is not missing."""


def local_logs(patterns: Iterable[str], most: int = MOST, known: Iterable[str] = ()) -> LocalLogs:
    """The files that match any of ``patterns``; of too many, :func:`choose` selects. Never raises. ``known`` are paths
    of logs that were there before and may be unreadable now.

    A pattern is a path with ``*``, ``?``, ``[…]``, a leading ``~``, and Slurm's placeholders (``slurm-%j.out``,
    ``%x-%t.log``). If it contains a job number, only the latest job's files count.
    """
    logs: dict[str, LocalLog] = {}
    notes: list[str] = []
    hidden: dict[str, None] = {}
    for pattern in patterns:
        found, faults = _matching(pattern)
        hidden |= dict.fromkeys(faults)
        if not found and not faults:
            folder = _is_folder(pattern)
            notes.append(
                f"{pattern} is a folder; name its logs, for example {pattern.rstrip('/')}/*.log."
                if folder
                else f"No log file is called {pattern} (yet)."
            )
        logs.update(found)
    entries = {name: Entry(name, log.size_bytes, log.modified, log.version) for name, log in logs.items()}
    chosen = choose(entries, most)
    if len(chosen) < len(logs):
        notes.append(f"{len(logs) - len(chosen)} more log files match and are not read; name fewer.")
    for name in known:
        if name not in logs and (fault := _trouble_at(Path(name))) is not None:
            hidden[fault] = None
    return LocalLogs([logs[name] for name in chosen], notes, list(hidden))


def _matching(pattern: str) -> tuple[dict[str, LocalLog], list[str]]:
    """The matching files, and what could not be checked."""
    expanded = os.path.expanduser(pattern)  # noqa: PTH111 - a Path would lose what a pattern ends in
    wild = _SLURM.sub("*", expanded) if _SLURM.search(expanded) else expanded
    found: dict[str, LocalLog] = {}
    faults: list[str] = []
    paths, folder = [expanded], Path(expanded)
    if not _may_exist(folder):
        paths, folder = _expanded(wild), _fixed_folder(wild)
        try:
            if folder.is_dir():
                os.scandir(folder).close()
        except (OSError, ValueError) as error:
            faults += _trouble(folder, error)
    for path in paths:
        try:
            log = local_log(Path(path))
        except (OSError, ValueError) as error:
            faults += _trouble(path, error)
            continue
        if log is not None:
            found[log.name] = log
    return _of_one_job(expanded, found), faults


def _trouble(path: object, error: OSError | ValueError) -> list[str]:
    """Why ``path`` cannot be checked; empty if it merely does not exist."""
    if not isinstance(error, OSError) or error.errno in NO_SUCH_FILE:
        return []
    return [f"{path} cannot be looked at now: {error.strerror or type(error).__name__}."]


def _trouble_at(path: Path) -> str | None:
    try:
        local_log(path)
    except (OSError, ValueError) as error:
        return next(iter(_trouble(path, error)), None)
    return None


def _fixed_folder(wild: str) -> Path:
    """The folder above the first wildcard of a pattern."""
    folder = Path(wild).parent
    while glob.has_magic(str(folder)):
        folder = folder.parent
    return folder


def _may_exist(path: Path) -> bool:
    """Whether a file exists at ``path``, or may exist."""
    try:
        path.stat()
    except OSError as error:
        return error.errno not in NO_SUCH_FILE
    except ValueError:  # no valid path
        return False
    return True


def _is_folder(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):  # no valid path
        return False


def _expanded(wild: str) -> list[str]:
    try:
        matches = glob.iglob(wild)  # noqa: PTH207 - Path.glob knows no absolute patterns
        return [path for _, path in zip(range(_MATCHES), matches, strict=False)]
    except (OSError, ValueError, re.error):
        return []


def _of_one_job(pattern: str, found: dict[str, LocalLog]) -> dict[str, LocalLog]:
    """Only the latest job's files, if ``pattern`` shows which part of a name is the job number."""
    if len(found) < 2 or not any(code in _JOB for code in _SLURM.findall(pattern)):
        return found
    expression, last, named = "", 0, False
    for code in _SLURM.finditer(pattern):
        expression += re.escape(pattern[last : code.start()])
        is_job = code[1] in _JOB and not named
        expression += "(?P<job>[0-9_]{1,20})" if is_job else "[^/]{0,255}?"
        named, last = named or is_job, code.end()
    shape = re.compile(expression + re.escape(pattern[last:]))
    jobs = {name: match["job"] for name in found if (match := shape.fullmatch(name)) is not None}
    if not jobs:
        return found
    newest = jobs[max(jobs, key=lambda name: found[name].modified)]
    return {name: log for name, log in found.items() if jobs.get(name) == newest}
