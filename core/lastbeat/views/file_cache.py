"""What was read of a run's files, kept as long as a listing shows that they are the same."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from lastbeat.stores.kind import Traits
from lastbeat.stores.port import Blob, Entry, Store, StoreError

THREADS: Final = 8
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FilePiece:
    """One piece of a file: its first ``limit_bytes``, or its last."""

    entry: Entry
    limit_bytes: int
    from_end: bool = False


@dataclass(frozen=True, slots=True)
class CachedFile:
    """What was last read of a file, and why it could not be read again."""

    entry: Entry
    """The file as it was listed when it was read."""
    blob: Blob | None = None
    """None: it went away between the listing and the read, or was never read."""
    fault: StoreError | None = None
    piece: FilePiece | None = None


class FileCache:
    """Pieces of files by name: asked for again only when their file was written, all that are due at once. To an
    observer it is a store that has these files alone."""

    def __init__(self, store: Store, threads: int = THREADS) -> None:
        self.store = store
        self.files: dict[str, CachedFile] = {}
        """By the name of the piece."""
        self._understood: dict[str, tuple[Blob, Any]] = {}
        self._threads = threads

    def fetch(self, pieces: Mapping[str, FilePiece]) -> Mapping[str, CachedFile]:
        """Each of ``pieces``, as it is now. Never raises for the store: what cannot be read says why, beside what was
        read before. Other pieces are forgotten."""
        due = [name for name, piece in pieces.items() if self._is_due(name, piece)]
        for name, got in zip(due, self._fetch([pieces[name] for name in due]), strict=True):
            known = self.files.get(name)
            failed = got.fault is not None and known is not None
            self.files[name] = CachedFile(known.entry, known.blob, got.fault) if failed and known is not None else got
        self.files = {name: got for name, got in self.files.items() if name in pieces}
        self._understood = {name: known for name, known in self._understood.items() if name in pieces}
        return self.files

    def understood(self, name: str, read: Callable[[Blob], T]) -> T | None:
        """What ``read`` makes of a piece, once for each time that it was fetched; None if there is no content of it."""
        file, known = self.files.get(name), self._understood.get(name)
        if file is None or file.blob is None:
            return None
        if known is None or known[0] is not file.blob:
            known = self._understood[name] = file.blob, read(file.blob)
        made: T = known[1]
        return made

    @property
    def traits(self) -> Traits:
        """Those of the store behind it."""
        return self.store.traits

    def read(self, key: str, limit_bytes: int) -> Blob | None:
        """The beginning of a file, as a store gives it: None if it is not there, or was not fetched."""
        got = next((each for each in self.files.values() if each.entry.key == key), None)
        if got is None or got.blob is None:
            if got is not None and got.fault is not None:
                raise got.fault
            return None
        return replace(got.blob, body=got.blob.body[:limit_bytes])

    def _is_due(self, name: str, piece: FilePiece) -> bool:
        got = self.files.get(name)
        return got is None or got.fault is not None or got.piece != piece

    def _fetch(self, pieces: list[FilePiece]) -> Iterable[CachedFile]:
        if len(pieces) < 2:
            return map(self._ask, pieces)
        with ThreadPoolExecutor(min(self._threads, len(pieces)), "look") as pool:
            return list(pool.map(self._ask, pieces))

    def _ask(self, piece: FilePiece) -> CachedFile:
        entry = piece.entry
        if entry.fault is not None:
            return CachedFile(entry, None, entry.fault, None)
        if entry.size_bytes == 0:
            return CachedFile(entry, Blob(b"", 0, entry.modified, entry.version), None, piece)
        try:
            blob = self.store.read(entry.key, piece.limit_bytes, from_end=piece.from_end)
        except StoreError as fault:
            return CachedFile(entry, None, fault, None)
        return CachedFile(entry, blob, None, piece)
