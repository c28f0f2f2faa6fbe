"""The store port: the operations of an object store or a directory, and their errors.

    StoreError
    ├── UnreachableError   no answer, a time-out, 5xx, throttling: may work in a moment (retryable)
    ├── DeniedError        credentials missing, expired or without the permission
    ├── MissingStoreError  the bucket or the directory is not there, or lies in another region
    ├── ConflictError      a conditional write whose condition did not hold
    └── (itself)           anything else the store answered

A missing *key* is no error: reading it gives ``None``.
"""

from dataclasses import field
from datetime import datetime
from enum import Enum
from typing import Protocol

from lastbeat.model.data import dataclass
from lastbeat.stores.kind import Traits


class StoreError(Exception):
    """``str()`` names the fault and its place, in one line without secrets; ``advice`` says what to do."""

    retryable = False

    def __init__(self, what: str, advice: str = "") -> None:
        super().__init__(what)
        self.advice = advice

    @property
    def told(self) -> str:
        """What was wrong and what to do, on one line."""
        return f"{self}; {self.advice}" if self.advice else str(self)


class UnreachableError(StoreError):
    """No answer came. After a *write*, it is unknown whether that happened."""

    retryable = True


class DeniedError(StoreError):
    """The store refuses this caller."""


class MissingStoreError(StoreError):
    """There is no such bucket or directory."""


class ConflictError(StoreError):
    """The key exists (``Expect.NOTHING``), or is not at the expected version."""


class Expect(Enum):
    """Condition of a write. A version string in its place means that the key still has to be at that version."""

    ANYTHING = "anything"
    NOTHING = "nothing"
    """The key must not exist."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a listing, relative to the store's root."""

    key: str
    size_bytes: int
    modified: datetime
    version: str
    fault: StoreError | None = field(default=None, compare=False)
    """Why it could not be read, or None. All other fields but ``key`` are then meaningless. A key that ends in a slash
    is a folder that could not be listed."""


@dataclass(frozen=True, slots=True)
class Page:
    """Entries in the order of their keys' UTF-8 bytes; ``more`` says whether the listing continues."""

    entries: tuple[Entry, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Blob:
    """The result of a read: at most the requested number of the key's ``size_bytes`` bytes."""

    body: bytes
    size_bytes: int
    modified: datetime
    version: str


@dataclass(frozen=True, slots=True)
class Cleared:
    """Number and size of the keys removed from a folder; ``more`` says whether more are left."""

    count: int
    size_bytes: int
    more: bool = False


class Store(Protocol):
    """One fleet root. Keys are relative to it, ``/``-separated. Every call is bounded in bytes and in time."""

    @property
    def url(self) -> str:
        """The root as users write it, without secrets: ``s3://bucket/prefix`` or an absolute path."""
        ...

    @property
    def traits(self) -> Traits:
        """Properties of such a store: its prices, and the clock of its stamps. Makes no request."""
        ...

    def list(self, prefix: str, start_after: str = "", limit: int = 1000) -> Page:
        """The keys that start with the folder ``prefix`` (ends in ``/``, or is empty for all) and sort after
        ``start_after``, by one request. ``limit`` is at most 1000.

        An unreadable file or folder below ``prefix`` is an entry with a ``fault``, and hides no other. Such a folder is
        listed also if ``start_after`` lies within it."""
        ...

    def folders(self) -> tuple[str, ...]:
        """The names of the folders right below the root, in no particular order, by one request for each 1,000."""
        ...

    def read(self, key: str, limit_bytes: int, *, from_end: bool = False, start: int = 0) -> Blob | None:
        """The first (or last) ``limit_bytes`` of ``key``; ``None`` if the key does not exist.

        With ``start``, the first from that byte on. They are empty, without an error, if ``key`` ends before it.
        ``start`` is not for reads from the end."""
        ...

    def write(self, key: str, body: bytes, expect: Expect | str = Expect.ANYTHING) -> str:
        """Write the whole of ``key`` atomically and return its new version, the same token that a listing and a read
        then show. Raises :class:`ConflictError` if ``expect`` does not hold."""
        ...

    def delete(self, key: str) -> None:
        """Remove ``key``. A missing key is no error."""
        ...

    def clear(self, prefix: str, *, keep: str = "", limit: int = 1000) -> Cleared:
        """Remove at most ``limit`` keys of the folder ``prefix``, which lies right below the root, except the key
        ``keep`` in it. A link is removed without its target, and a folder that is itself a link is refused. An emptied
        folder is removed too. Makes one request for a listing, and one for each key.
        """
        ...

    def clock(self) -> datetime:
        """The store's own time now, by which ``modified`` is stamped. May make one small request."""
        ...


def check_key(key: str) -> str:
    """Return ``key`` unchanged. Raises ``ValueError`` for an invalid one, which is a bug: only lastbeat makes keys."""
    if "\0" in key or any(part in {"", ".", ".."} for part in key.split("/")):
        raise ValueError(f"{key[:80]!r} is no key: its parts must be names, separated by single slashes")
    return key


def check_folder(prefix: str) -> str:
    """Return ``prefix`` unchanged. Raises ``ValueError`` unless it ends in a slash, or is "" for the root."""
    if prefix:
        if not prefix.endswith("/"):
            raise ValueError(f"{prefix[:80]!r} is no folder: it must end in a slash")
        check_key(prefix[:-1])
    return prefix


def check_run_folder(prefix: str) -> str:
    """Return the name of the folder ``prefix``. Raises ``ValueError`` unless it lies right below the root."""
    name = check_folder(prefix)[:-1]
    if not name or "/" in name:
        raise ValueError(f"{prefix[:80]!r} is no folder right below the root")
    return name


def check_prefix(text: str) -> str:
    """A fleet root's folder without slashes at its ends. Raises ``ValueError``, whose text completes a sentence that
    begins with the address."""
    prefix = text.strip("/")
    if prefix and any(part in {"", ".", ".."} for part in prefix.split("/")):
        raise ValueError("has an empty, '.' or '..' part")
    if not prefix.isprintable():
        raise ValueError("contains control characters")
    return prefix
