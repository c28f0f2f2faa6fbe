"""The logs of a run, in its folder and on this machine, and how their text is read."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from lastbeat.stores.port import Blob, Entry, Store
from lastbeat.watch.observe.local_logs import local_logs
from lastbeat.watch.observe.log_files import LISTED, MOST, choose, is_log, of_logs, rank_of


class LogSource(Protocol):
    """One log file as listed, with access to its current text."""

    @property
    def name(self) -> str:
        """The name that people know; unique."""
        ...

    @property
    def rank(self) -> int | None: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def modified(self) -> datetime: ...

    @property
    def version(self) -> str: ...

    def read(self, start: int, limit_bytes: int) -> Blob | None:
        """As :meth:`Store.read`. Raises nothing but :class:`StoreError`."""
        ...

    def renamed(self, version: str) -> "LogSource | None":
        """The file that had this name at ``version``, if it was renamed since; None if unknown."""
        ...

    def beside(self) -> Sequence["LogSource"]:
        """A few files that may be copies of this one as it was recently."""
        ...


class StoredLog:
    """A log in the run's folder, as :attr:`entry` of a listing shows it."""

    def __init__(self, store: Store, name: str, entry: Entry) -> None:
        self.name = name
        self.entry = entry
        self._store = store

    @property
    def rank(self) -> int | None:
        return rank_of(self.name)

    @property
    def size_bytes(self) -> int:
        return self.entry.size_bytes

    @property
    def modified(self) -> datetime:
        return self.entry.modified

    @property
    def version(self) -> str:
        return self.entry.version

    def read(self, start: int, limit_bytes: int) -> Blob | None:
        return self._store.read(self.entry.key, limit_bytes, start=start)

    def renamed(self, version: str) -> None:
        """None: an object has no identity but its key."""

    def beside(self) -> Sequence[LogSource]:
        """None: objects with similar names were not listed."""
        return ()


class LogSources(NamedTuple):
    """The logs that are read, and remarks on the rest."""

    logs: list[LogSource]
    notes: list[str]
    hidden: list[str]
    """Paths that could not be checked, and why."""


def sources_of(store: Store, files: Mapping[str, Entry], places: Sequence[str], known: Collection[str]) -> LogSources:
    """The logs among ``files`` (the run's files by their name below its folder), and those on this machine that match
    ``places``. ``known`` are the names of logs that were read before. Never raises."""
    logs = {name: entry for name, entry in files.items() if is_log(name) and entry.fault is None}
    chosen = choose(logs, MOST)
    notes = list[str]()
    closed = [f"{name}: {entry.fault}." for name, entry in files.items() if entry.fault and of_logs(name)]
    hidden = list[str]()
    if len(logs) > len(chosen):
        more = f"{len(logs) - len(chosen)}{' or more' if len(logs) >= LISTED else ''}"
        notes.append(f"logs/ holds more than {MOST} log files: {more} of them are not read.")
    found: list[LogSource] = [StoredLog(store, name, entry) for name, entry in chosen.items()]
    if places:
        # Names of logs in the store are not paths on this machine.
        local, said, hidden = local_logs(places, MOST, [name for name in known if not is_log(name)])
        found += local
        notes += said
    return LogSources(found, notes, [*closed, *hidden])
