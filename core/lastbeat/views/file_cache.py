"""What was read of a run's files, kept as long as a listing shows that they are the same."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from lastbeat.stores.port import Blob, Entry, Store, StoreError

THREADS: Final = 8


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
    wish: FilePiece | None = None


class FileCache:
    """Pieces of files by name: asked for again only when their file was written, all that are due at once."""

    def __init__(self, store: Store, threads: int = THREADS) -> None:
        self._store = store
        self._threads = threads
        self._got: dict[str, CachedFile] = {}

    def read(self, wishes: Mapping[str, FilePiece]) -> dict[str, CachedFile]:
        """Each of ``wishes``, as it is now. Never raises for the store: what cannot be read says why, beside what was
        read before. What is wished for no more is forgotten."""
        due = [name for name, wish in wishes.items() if self._is_due(name, wish)]
        for name, got in zip(due, self._fetch([wishes[name] for name in due]), strict=True):
            known = self._got.get(name)
            failed = got.fault is not None and known is not None
            self._got[name] = CachedFile(known.entry, known.blob, got.fault) if failed and known is not None else got
        self._got = {name: got for name, got in self._got.items() if name in wishes}
        return dict(self._got)

    def _is_due(self, name: str, wish: FilePiece) -> bool:
        got = self._got.get(name)
        return got is None or got.fault is not None or got.wish != wish

    def _fetch(self, wishes: list[FilePiece]) -> Iterable[CachedFile]:
        if len(wishes) < 2:
            return map(self._ask, wishes)
        with ThreadPoolExecutor(min(self._threads, len(wishes)), "look") as pool:
            return list(pool.map(self._ask, wishes))

    def _ask(self, wish: FilePiece) -> CachedFile:
        entry = wish.entry
        if entry.fault is not None:
            return CachedFile(entry, None, entry.fault, None)
        if entry.size_bytes == 0:
            return CachedFile(entry, Blob(b"", 0, entry.modified, entry.version), None, wish)
        try:
            blob = self._store.read(entry.key, wish.limit_bytes, from_end=wish.from_end)
        except StoreError as fault:
            return CachedFile(entry, None, fault, None)
        return CachedFile(entry, blob, None, wish)
