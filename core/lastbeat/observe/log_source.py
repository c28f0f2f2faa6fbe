"""Where the text of a log comes from."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from lastbeat.observe.log_files import rank_of
from lastbeat.stores.port import Blob, Entry, Store


class LogSource(Protocol):
    """One log file as it was when it was listed, and its text as it is now."""

    @property
    def name(self) -> str:
        """As people know it. There are no two of the same name."""
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
        """As :meth:`Store.read`, and with nothing but :class:`StoreError`."""
        ...

    def renamed(self, version: str) -> "LogSource | None":
        """The file that had this name when it was at ``version``, if it has another one now: it was rotated. None
        where that cannot be known."""
        ...

    def beside(self) -> Sequence["LogSource"]:
        """A few files that may be copies of what this one was until a while ago."""
        ...


class StoredLog:
    """A log of the run's folder, as :attr:`entry` of a listing shows it."""

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
        """An object has no identity beside its key."""

    def beside(self) -> Sequence[LogSource]:
        """Nobody has listed what is named like it."""
        return ()
