"""The store port: what lastbeat asks of an object store or a directory, and how it may fail.

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
    """``str()`` says what was wrong and where, in one line without secrets; ``advice`` what to do."""

    retryable = False

    def __init__(self, what: str, advice: str = "") -> None:
        super().__init__(what)
        self.advice = advice


class UnreachableError(StoreError):
    """After a *write* this means that nobody knows whether it happened."""

    retryable = True


class DeniedError(StoreError):
    """The store refuses this caller."""


class MissingStoreError(StoreError):
    """There is no such bucket or directory."""


class ConflictError(StoreError):
    """The key exists (``Expect.NOTHING``), or is not at the expected version."""


class Expect(Enum):
    """Condition of a write; a version string instead means: only if the key still is at that version."""

    ANYTHING = "anything"
    NOTHING = "nothing"
    """Create only."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a listing, relative to the store's root."""

    key: str
    size_bytes: int
    modified: datetime
    version: str
    fault: StoreError | None = field(default=None, compare=False)
    """Why nobody could look at it: then all else but ``key`` says nothing, and a key that ends in a slash is that of a
    folder of which nothing could be listed."""


@dataclass(frozen=True, slots=True)
class Page:
    """Entries in the order of their keys' UTF-8 bytes; ``more`` says whether the listing goes on."""

    entries: tuple[Entry, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Blob:
    """What was read: at most the asked number of bytes of ``size_bytes``."""

    body: bytes
    size_bytes: int
    modified: datetime
    version: str


@dataclass(frozen=True, slots=True)
class Cleared:
    """What was removed of a folder; ``more`` says whether there is more to remove."""

    count: int
    size_bytes: int
    more: bool = False


class Store(Protocol):
    """One fleet root. Keys are relative to it, ``/``-separated. Every call is bounded in bytes and in time."""

    @property
    def url(self) -> str:
        """The root as people write it, without secrets: ``s3://bucket/prefix`` or an absolute path."""
        ...

    @property
    def traits(self) -> Traits:
        """What is true of such a store: what it costs, and whose clock it goes by. Asks nobody."""
        ...

    def list(self, prefix: str, start_after: str = "", limit: int = 1000) -> Page:
        """One request: the keys that start with the folder ``prefix`` (ends in ``/``, or is empty for all)
        and sort after ``start_after``; ``limit`` is at most 1000.

        What cannot be looked at below ``prefix`` is an entry with its ``fault``: a single folder hides no other. Such a
        folder is listed also where ``start_after`` lies within it."""
        ...

    def folders(self) -> tuple[str, ...]:
        """The names of the folders right below the root, in no particular order: one request for each 1,000."""
        ...

    def read(self, key: str, limit_bytes: int, *, from_end: bool = False, start: int = 0) -> Blob | None:
        """The first (or last) ``limit_bytes`` of ``key``; ``None`` when the key does not exist.

        With ``start`` the first of what lies from that byte on: none, and no error, where ``key`` ends before it.
        It is not for reads from the end."""
        ...

    def write(self, key: str, body: bytes, expect: Expect | str = Expect.ANYTHING) -> str:
        """Write the whole of ``key`` atomically and return its new version, the same token that a listing
        and a read then show. Raises :class:`ConflictError` when ``expect`` does not hold."""
        ...

    def delete(self, key: str) -> None:
        """Remove ``key``; that it does not exist is no error."""
        ...

    def clear(self, prefix: str, *, keep: str = "", limit: int = 1000) -> Cleared:
        """Remove at most ``limit`` keys of the folder ``prefix``, which lies right below the root, but for the key
        ``keep`` in it. Of a link the link itself is removed, and nothing that it leads to; a folder that is a link
        itself is refused. A folder with nothing left in it goes, too. One request for a listing, and one for each key.
        """
        ...

    def clock(self) -> datetime:
        """The store's own time now, which ``modified`` is measured by. May cost one small request."""
        ...


def check_key(key: str) -> str:
    """Return ``key`` unchanged, or raise ``ValueError``: keys are made by this program, never by training."""
    if "\0" in key or any(part in {"", ".", ".."} for part in key.split("/")):
        raise ValueError(f"{key[:80]!r} is no key: its parts must be names, separated by single slashes")
    return key


def check_folder(prefix: str) -> str:
    """Return ``prefix`` unchanged, or raise ``ValueError``: a folder ends in a slash, and "" is the root."""
    if prefix:
        if not prefix.endswith("/"):
            raise ValueError(f"{prefix[:80]!r} is no folder: it must end in a slash")
        check_key(prefix[:-1])
    return prefix


def check_run_folder(prefix: str) -> str:
    """Return the name of the folder ``prefix``, or raise ``ValueError`` unless it lies right below the root."""
    name = check_folder(prefix)[:-1]
    if not name or "/" in name:
        raise ValueError(f"{prefix[:80]!r} is no folder right below the root")
    return name


def check_prefix(text: str) -> str:
    """A fleet root's folder without slashes at its ends. Raises ``ValueError`` with the end of a sentence."""
    prefix = text.strip("/")
    if prefix and any(part in {"", ".", ".."} for part in prefix.split("/")):
        raise ValueError("has an empty, '.' or '..' part")
    if not prefix.isprintable():
        raise ValueError("contains control characters")
    return prefix
