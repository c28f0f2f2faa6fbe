"""Any object store that obstore supports, as a fleet root."""

import logging
import os
import threading
from collections.abc import Callable
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from obstore.exceptions import AlreadyExistsError, BaseError, InvalidPathError, PreconditionError

from lastbeat.model.data import dataclass
from lastbeat.stores import answers
from lastbeat.stores.clock import StoreClock
from lastbeat.stores.kind import Remedies, Traits
from lastbeat.stores.port import (
    Blob,
    Cleared,
    ConflictError,
    Entry,
    Expect,
    Page,
    StoreError,
    check_folder,
    check_key,
    check_run_folder,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from obstore import Attributes, GetResult, ObjectMeta, PutMode
    from obstore.store import ObjectStore as Backend

_log = logging.getLogger(__name__)

_MAX_PAGE = 1000
"""Most keys of a page."""
_WHOLE_READ_BYTES = 8 << 20
"""Most bytes that are read to reach a part, from a server that only gives whole objects."""
_ABSENT = "_watchdog/.absent"
"""A key that is never written."""

_KINDS: "dict[str, Attributes]" = {
    # Browsers have to check for a newer page, but need not load an unchanged one again.
    ".html": {"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-cache"},
    ".json": {"Content-Type": "application/json"},
}
"""Suffix of a key → headers that the bucket serves it with."""

_MODES: "dict[Expect, PutMode]" = {Expect.ANYTHING: "overwrite", Expect.NOTHING: "create"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """Differences of a provider's interface from the others."""

    traits: Traits
    remedies: Remedies
    by_generation: bool = False
    """Whether a conditional update names the object's generation, which listings do not show."""
    no_suffixes: bool = False
    """Whether reading the last bytes of an object requires its size."""
    no_offsets: bool = False
    """Whether it may ignore where to start, and list from the beginning, in the order of the keys' bytes."""
    bare_tags: bool = False
    """Whether listings write ETags without quotes."""


@dataclass(frozen=True, slots=True)
class Relisting:
    """Another way to list, for roots with a key that obstore cannot represent (``run-1//x``)."""

    page: Callable[[str, str, int], Page]
    folders: Callable[[], tuple[str, ...]]


Explain = Callable[[Exception, str, str], StoreError]


class ObjectStore:
    """The store port over an obstore store, which ``connect`` makes at the first call.

    ``clock`` returns the store's time. ``relisting`` makes another way to list, where that is needed. ``explain`` turns
    a client error into a :class:`StoreError`. A version is an ETag in quotes.
    """

    _runtime_pid: ClassVar[int | None] = None

    def __init__(
        self,
        connect: "Callable[[], Backend]",
        *,
        url: str,
        clock: StoreClock,
        dialect: Dialect,
        relisting: Callable[[], Relisting] | None = None,
        explain: Explain | None = None,
    ) -> None:
        self.url = url
        self.traits = dialect.traits
        self._dialect = dialect
        self._make = connect
        self._clock = clock
        self._relisting = relisting
        self._explain = explain or self._explained
        self._lock = threading.Lock()
        self._backend: Backend | None = None
        self._proven = False

    def list(self, prefix: str, start_after: str = "", limit: int = _MAX_PAGE) -> Page:
        check_folder(prefix)
        limit = max(1, min(limit, _MAX_PAGE))
        with self._answering(f"listing {prefix or 'the root'}") as backend:
            try:
                offset = _offset(start_after)
                stream = backend.list(prefix or None, offset=offset, chunk_size=limit)
                if self._dialect.no_offsets and start_after:
                    found: Sequence[ObjectMeta] = _behind(stream, start_after, limit)
                else:
                    found = next(stream, [])
            except (InvalidPathError, ValueError):
                # There is a key that obstore cannot represent. One such key must not hide a fleet.
                if self._relisting is None:
                    raise StoreError(f"{self.url}: below {prefix!r} lies a key with an impossible name") from None
                return self._relisting().page(prefix, start_after, limit)
        if not found and not self._proven:
            self._prove()
        self._proven = True
        return Page(tuple(self._entries(found[:limit], prefix, start_after)), more=len(found) >= limit)

    def folders(self) -> tuple[str, ...]:
        with self._answering("listing the folders of the root") as backend:
            try:
                found = backend.list_with_delimiter()["common_prefixes"]
            except (InvalidPathError, ValueError):
                if self._relisting is None:
                    raise StoreError(f"{self.url}: below the root lies a folder with an impossible name") from None
                return self._relisting().folders()
        if not found and not self._proven:
            self._prove()
        self._proven = True
        return tuple(found)

    def read(self, key: str, limit_bytes: int, *, from_end: bool = False, start: int = 0) -> Blob | None:
        wanted = max(1, limit_bytes)
        with self._answering(f"reading {check_key(key)}") as backend:
            try:
                if from_end and self._dialect.no_suffixes:
                    found, body = _end_of(backend, key, wanted)
                else:
                    part: Any = {"suffix": wanted} if from_end else (start, start + wanted)
                    found = backend.get(key, options={"range": part})
                    body = bytes(found.bytes())
            except FileNotFoundError as error:
                self._absent(error, f"reading {key}")
                return None
            except BaseError as error:
                if not _gave_no_part(str(error)):
                    raise
                if start and _starts_behind(str(error)):
                    # It ends before that, and only another read shows where.
                    return self.read(key, 0)
                # The object is empty, or the server does not give parts.
                try:
                    found = backend.get(key)
                    body = self._bounded(found, wanted, from_end=from_end, start=start)
                except FileNotFoundError as gone:
                    self._absent(gone, f"reading {key}")
                    return None
            meta = found.meta
        version = self._version(meta, f"reading {key}")
        body = (body[-limit_bytes:] if from_end else body[:limit_bytes]) if limit_bytes > 0 else b""
        return Blob(body, meta["size"], _modified(meta), version)

    def write(self, key: str, body: bytes, expect: Expect | str = Expect.ANYTHING) -> str:
        doing = f"writing {check_key(key)}"
        with self._answering(doing) as backend:
            mode: PutMode = _MODES[expect] if isinstance(expect, Expect) else {"e_tag": expect}
            if isinstance(expect, str) and self._dialect.by_generation:
                mode = {"e_tag": expect, "version": self._generation(backend, key, expect)}
            try:
                written = backend.put(key, body, mode=mode, use_multipart=False, attributes=_headers(key))
            except (AlreadyExistsError, PreconditionError) as error:
                # S3 answers 404 if there is nothing to update, and 409 if another writer was faster.
                refused = (
                    answers.status_of(str(error)) != 404 or answers.code_of(str(error)) in self._dialect.remedies.no_key
                )
                if expect is Expect.ANYTHING or not refused:
                    raise
                what = "exists already" if expect is Expect.NOTHING else "is no longer at the expected version"
                raise ConflictError(f"{self.url}: {key} {what}") from None
        return self._version(written, doing)

    def delete(self, key: str) -> None:
        with self._answering(f"deleting {check_key(key)}") as backend:
            try:
                backend.delete(key)
            except FileNotFoundError as error:
                self._absent(error, f"deleting {key}")

    def clear(self, prefix: str, *, keep: str = "", limit: int = 1000) -> Cleared:
        check_run_folder(prefix)
        page = self.list(prefix, limit=max(1, limit) + bool(keep))
        chosen = [entry for entry in page.entries if entry.key != f"{prefix}{keep}"]
        for entry in chosen:
            self.delete(entry.key)
        return Cleared(len(chosen), sum(entry.size_bytes for entry in chosen), page.more)

    def clock(self) -> datetime:
        return self._clock()

    def _connect(self) -> "Backend":
        # obstore runs its requests on threads of its own, and a forked child has none of them. A request there would
        # wait for ever, even with a time limit.
        if ObjectStore._runtime_pid not in {None, os.getpid()}:
            raise StoreError(
                f"{self.url}: this process was forked from one that already used the store",
                "start it with the spawn method, or use the store only after the fork",
            )
        with self._lock:
            if self._backend is None:
                self._backend = self._make()
            ObjectStore._runtime_pid = os.getpid()
            return self._backend

    @contextmanager
    def _answering(self, doing: str) -> "Iterator[Backend]":
        backend = self._connect()
        try:
            yield backend
            self._clock.answered()
        except (BaseError, FileNotFoundError, NotImplementedError) as error:
            # The cause is not chained, because its text has the server's answer, which may contain a signature.
            raise self._explain(error, self.url, doing) from None

    def _explained(self, error: Exception, url: str, doing: str) -> StoreError:
        return answers.explain(error, url, doing, self._dialect.remedies)

    def _generation(self, backend: "Backend", key: str, version: str) -> str:
        """The generation of ``key``, which still has to be at ``version``. A write for this generation is refused if
        the key changes in between, so there is no race."""
        try:
            found = backend.head(key)
        except FileNotFoundError:
            found = None
        if found is None or found["e_tag"] != version or not found["version"]:
            raise ConflictError(f"{self.url}: {key} is no longer at the expected version")
        return str(found["version"])

    def _absent(self, error: FileNotFoundError, doing: str) -> None:
        """Accept a missing key. Raises :class:`StoreError` for a missing bucket, or a server that is no object
        store."""
        text = str(error)
        if answers.status_of(text) is not None and answers.code_of(text) not in self._dialect.remedies.no_key:
            raise self._explain(error, self.url, doing) from None

    def _prove(self) -> None:
        """Check that an empty listing comes from an object store, not from another web server.

        Only an object store reports a single key as missing. The check is made until the first good answer."""
        with self._answering("listing the root") as backend:
            try:
                answer = backend.get(_ABSENT, options={"range": (0, 1)})
            except FileNotFoundError as error:
                self._absent(error, "listing the root")
                return
            except BaseError as error:
                if answers.code_of(str(error)) is None:
                    raise
                return
        self._version(answer.meta, "listing the root")

    def _bounded(self, found: "GetResult", wanted: int, *, from_end: bool, start: int) -> bytes:
        if (found.meta["size"] if from_end else start) > _WHOLE_READ_BYTES:
            raise StoreError(
                f"{self.url}: the server gives whole objects only, and {found.meta['path']} is too large for that",
                "use an object store that answers range requests",
            )
        body = b""
        for chunk in found.stream(min_chunk_size=1 << 16):
            body += bytes(chunk)
            if from_end:
                body = body[-wanted:]
            elif len(body) >= start + wanted:
                break
        return body[start : start + wanted]

    def _version(self, meta: Any, doing: str) -> str:
        if not meta["e_tag"]:
            raise StoreError(
                f"{self.url}: an answer without an ETag when {doing}",
                f"use an object store that gives ETags, and check the endpoint ({self._dialect.remedies.endpoint})",
            )
        return str(meta["e_tag"])

    def _entries(self, found: "Sequence[ObjectMeta]", prefix: str, start_after: str) -> "Iterator[Entry]":
        """The entries in the server's order, which is that of the keys' bytes on S3, and folder by folder on SeaweedFS.

        obstore shows a folder's marker ``run-1/x/`` as an empty ``run-1/x``. After a longer name or a real ``run-1/x``
        it is out of order, and a listing that continued from there could loop.
        """
        before = start_after
        for meta in found:
            key = meta["path"]
            marker = meta["size"] == 0 and before.startswith(key)
            early = key == start_after or (start_after.startswith("/") and key < start_after)
            if key.startswith(prefix) and not marker and not early:
                before = key
                tag = str(meta["e_tag"] or "")
                version = f'"{tag}"' if tag and self._dialect.bare_tags and not tag.endswith('"') else tag
                yield Entry(key, meta["size"], _modified(meta), version)


def _headers(key: str) -> "Attributes | None":
    return next((headers for end, headers in _KINDS.items() if key.endswith(end)), None)


def _modified(meta: "ObjectMeta") -> datetime:
    """The modification time in whole seconds, to agree with ``Last-Modified``; GCS lists milliseconds."""
    return meta["last_modified"].replace(microsecond=0)


def _behind(stream: "Iterable[Sequence[ObjectMeta]]", start_after: str, limit: int) -> "Sequence[ObjectMeta]":
    """At least the first ``limit`` objects that sort after ``start_after``, if there are as many."""
    after = start_after.encode()
    found: list[ObjectMeta] = []
    for listed in stream:
        found += [meta for meta in listed if meta["path"].encode() > after]
        if len(found) >= limit:
            break
    return found


def _end_of(backend: "Backend", key: str, wanted: int) -> "tuple[GetResult, bytes]":
    """The last ``wanted`` bytes, with one request if the object has no more."""
    found = backend.get(key, options={"range": (0, wanted)})
    if found.meta["size"] > wanted:
        size = found.meta["size"]
        # If it is rewritten meanwhile, these are bytes of the new version, which existed at some instant too.
        found = backend.get(key, options={"range": (max(0, size - wanted), size)})
    return found, bytes(found.bytes())


def _gave_no_part(text: str) -> bool:
    # The last of these is Azurite's answer to any part of an empty blob.
    return _starts_behind(text) or "Received non-partial response" in text or "ParseContentRange" in text


def _starts_behind(text: str) -> bool:
    return answers.status_of(text) == 416 or "StartTooLarge" in text  # the latter is obstore's own store in memory


def _offset(start_after: str) -> str | None:
    """The offset for obstore. It cuts a final slash off, and so would begin too early. A blank sorts before all other
    names that it can represent, so only a file of that name is skipped."""
    if start_after.startswith("/"):
        return None  # it cuts a leading slash off too; _entries drops keys that come too early
    return start_after + " " if start_after.endswith("/") else start_after or None
