"""Any object store that obstore knows, as a fleet root."""

import logging
import os
import threading
from collections.abc import Callable
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

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

MAX_PAGE = 1000
WHOLE_READ_BYTES = 8 << 20
"""The most that is read to get at an end, from a server that cannot give a part of an object."""
_ABSENT = "_watchdog/.absent"
"""A key that is never written."""

_KINDS: "dict[str, Attributes]" = {
    # What browsers get of the page has to be the newest; they still need not load again what they have.
    ".html": {"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-cache"},
    ".json": {"Content-Type": "application/json"},
}
"""End of a key → what whoever gets it from the bucket is told of it."""

_MODES: "dict[Expect, PutMode]" = {Expect.ANYTHING: "overwrite", Expect.NOTHING: "create"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a provider's interface differs from the others."""

    traits: Traits
    remedies: Remedies
    by_generation: bool = False
    """A conditional update names the object's generation, which listings do not tell."""
    no_suffixes: bool = False
    """It does not give the last bytes of an object to whoever does not know its size."""
    no_offsets: bool = False
    """It may list from the beginning whatever it was asked to start after, in the order of the keys' bytes."""
    bare_tags: bool = False
    """Listings write ETags without their quotes."""


@dataclass(frozen=True, slots=True)
class Relisting:
    """Another way to list, where there is a key that obstore refuses to name (``run-1//x``)."""

    page: Callable[[str, str, int], Page]
    folders: Callable[[], tuple[str, ...]]


Explain = Callable[[Exception, str, str], StoreError]


class ObjectStore:
    """The port over an obstore store, which ``connect`` makes at the first call.

    ``clock`` gives the store's time, and ``explain`` turns a client error into ours. A version is an ETag in quotes.
    """

    _runtime_pid: ClassVar[int | None] = None

    def __init__(
        self,
        connect: "Callable[[], Backend]",
        *,
        url: str,
        clock: StoreClock,
        dialect: Dialect,
        relisting: Relisting | None = None,
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

    def list(self, prefix: str, start_after: str = "", limit: int = MAX_PAGE) -> Page:
        check_folder(prefix)
        limit = max(1, min(limit, MAX_PAGE))
        with self._answering(f"listing {prefix or 'the root'}") as backend:
            from obstore.exceptions import InvalidPathError  # noqa: PLC0415 - see _connect

            try:
                offset = _offset(start_after)
                stream = backend.list(prefix or None, offset=offset, chunk_size=limit)
                if self._dialect.no_offsets and start_after:
                    found: Sequence[ObjectMeta] = _behind(stream, start_after, limit)
                else:
                    found = next(stream, [])
            except (InvalidPathError, ValueError):
                # Somebody wrote a key that obstore has no name for; one such key must not hide a fleet.
                if self._relisting is None:
                    raise StoreError(f"{self.url}: below {prefix!r} lies a key with an impossible name") from None
                return self._relisting.page(prefix, start_after, limit)
        if not found and not self._proven:
            self._prove()
        self._proven = True
        return Page(tuple(self._entries(found[:limit], prefix, start_after)), more=len(found) >= limit)

    def folders(self) -> tuple[str, ...]:
        with self._answering("listing the folders of the root") as backend:
            from obstore.exceptions import InvalidPathError  # noqa: PLC0415 - see _connect

            try:
                found = backend.list_with_delimiter()["common_prefixes"]
            except (InvalidPathError, ValueError):
                if self._relisting is None:
                    raise StoreError(f"{self.url}: below the root lies a folder with an impossible name") from None
                return self._relisting.folders()
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
            except _client_error() as error:
                if not _gave_no_part(str(error)):
                    raise
                if start and _starts_behind(str(error)):
                    # It ends before that, and only a read of what is there tells where.
                    return self.read(key, 0)
                # Nothing in it to give a part of, or a server that does not give parts.
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
            from obstore.exceptions import AlreadyExistsError, PreconditionError  # noqa: PLC0415 - see _connect

            mode: PutMode = _MODES[expect] if isinstance(expect, Expect) else {"e_tag": expect}
            if isinstance(expect, str) and self._dialect.by_generation:
                mode = {"e_tag": expect, "version": self._generation(backend, key, expect)}
            try:
                written = backend.put(key, body, mode=mode, use_multipart=False, attributes=_told(key))
            except (AlreadyExistsError, PreconditionError) as error:
                # 404 is how S3 says that there is nothing to update, and 409 that another writer was faster.
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
        # obstore runs its requests on threads of its own, and a forked child has none of them: a request there
        # would wait for ever, whatever its time limit.
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
        except (_client_error(), FileNotFoundError, NotImplementedError) as error:
            # The cause is not chained: its text holds what the server said, which may be a signature.
            raise self._explain(error, self.url, doing) from None

    def _explained(self, error: Exception, url: str, doing: str) -> StoreError:
        return answers.explain(error, url, doing, self._dialect.remedies)

    def _generation(self, backend: "Backend", key: str, version: str) -> str:
        """The generation of ``key``, which has to be at ``version`` still. A write under it is refused if the key moves
        on in between, so asking first opens no gap."""
        try:
            found = backend.head(key)
        except FileNotFoundError:
            found = None
        if found is None or found["e_tag"] != version or not found["version"]:
            raise ConflictError(f"{self.url}: {key} is no longer at the expected version")
        return str(found["version"])

    def _absent(self, error: FileNotFoundError, doing: str) -> None:
        """A missing key is no error. A missing bucket is one, and so is a web server that knows no keys at all."""
        text = str(error)
        if answers.status_of(text) is not None and answers.code_of(text) not in self._dialect.remedies.no_key:
            raise self._explain(error, self.url, doing) from None

    def _prove(self) -> None:
        """An empty listing may be an empty folder, or a web page from something that is no object store.
        Only an object store says of one key that it does not exist. Asked at most until the first good answer."""
        with self._answering("listing the root") as backend:
            try:
                answer = backend.get(_ABSENT, options={"range": (0, 1)})
            except FileNotFoundError as error:
                self._absent(error, "listing the root")
                return
            except _client_error() as error:
                if answers.code_of(str(error)) is None:
                    raise
                return
        self._version(answer.meta, "listing the root")

    def _bounded(self, found: "GetResult", wanted: int, *, from_end: bool, start: int) -> bytes:
        if (found.meta["size"] if from_end else start) > WHOLE_READ_BYTES:
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
        """In the server's order, which is that of the keys' bytes on S3, and folder by folder on SeaweedFS.

        A folder's marker ``run-1/x/`` reaches us as an empty ``run-1/x``. Where that stands behind a longer name or a
        real ``run-1/x`` it is out of its order, and a listing that went on from there could go round in circles.
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


def _told(key: str) -> "Attributes | None":
    return next((told for end, told in _KINDS.items() if key.endswith(end)), None)


def _client_error() -> type[Exception]:
    from obstore.exceptions import BaseError  # noqa: PLC0415 - 25 ms, which a directory's watcher need not wait for

    return BaseError


def _modified(meta: "ObjectMeta") -> datetime:
    """In whole seconds, as an answer's ``Last-Modified`` has it: GCS lists milliseconds, and both must agree."""
    return meta["last_modified"].replace(microsecond=0)


def _behind(stream: "Iterable[Sequence[ObjectMeta]]", start_after: str, limit: int) -> "Sequence[ObjectMeta]":
    """The first ``limit`` or more of what sorts after ``start_after``."""
    after = start_after.encode()
    found: list[ObjectMeta] = []
    for listed in stream:
        found += [meta for meta in listed if meta["path"].encode() > after]
        if len(found) >= limit:
            break
    return found


def _end_of(backend: "Backend", key: str, wanted: int) -> "tuple[GetResult, bytes]":
    """The last ``wanted`` bytes; one request where that is all there is."""
    found = backend.get(key, options={"range": (0, wanted)})
    if found.meta["size"] > wanted:
        size = found.meta["size"]
        # Should it be written again meanwhile, these are bytes of the new one: as of some instant, they lay there.
        found = backend.get(key, options={"range": (max(0, size - wanted), size)})
    return found, bytes(found.bytes())


def _gave_no_part(text: str) -> bool:
    # The last of these is Azurite's answer to any part of an empty blob.
    return _starts_behind(text) or "Received non-partial response" in text or "ParseContentRange" in text


def _starts_behind(text: str) -> bool:
    return answers.status_of(text) == 416 or "StartTooLarge" in text  # the latter is obstore's own store in memory


def _offset(start_after: str) -> str | None:
    """obstore cuts a slash off the end, and so would begin too early. Of all the names that it can read a blank alone
    is the first, and so nothing but a file of that name is passed over."""
    if start_after.startswith("/"):
        return None  # it cuts that one off too; what comes too early is dropped below
    return start_after + " " if start_after.endswith("/") else start_after or None
