"""A store in this process's memory, for state without another place."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from lastbeat.stores.kind import FREE, Traits
from lastbeat.stores.port import Blob, Cleared, ConflictError, Entry, Expect, Page, check_run_folder

IN_MEMORY: Final = Traits(FREE)


class VolatileStore:
    """A store that loses everything when the process ends. For one thread only."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self.clock = clock
        self._held: dict[str, Blob] = {}
        self._writes = 0

    @property
    def url(self) -> str:
        return "memory"

    @property
    def traits(self) -> Traits:
        return IN_MEMORY

    def list(self, prefix: str, start_after: str = "", limit: int = 1000) -> Page:
        keys = sorted((key for key in self._held if key.startswith(prefix) and key > start_after), key=str.encode)
        found = ((key, self._held[key]) for key in keys[:limit])
        entries = tuple(Entry(key, held.size_bytes, held.modified, held.version) for key, held in found)
        return Page(entries, more=len(keys) > limit)

    def folders(self) -> tuple[str, ...]:
        return tuple({key.split("/", 1)[0]: None for key in self._held if "/" in key})

    def read(self, key: str, limit_bytes: int, *, from_end: bool = False, start: int = 0) -> Blob | None:
        held = self._held.get(key)
        if held is None:
            return None
        body = held.body[-limit_bytes:] if from_end else held.body[start : start + limit_bytes]
        return Blob(body, held.size_bytes, held.modified, held.version)

    def write(self, key: str, body: bytes, expect: Expect | str = Expect.ANYTHING) -> str:
        held = self._held.get(key)
        if (expect is Expect.NOTHING and held) or (isinstance(expect, str) and (not held or held.version != expect)):
            raise ConflictError(f"{key} is not as expected")
        self._writes += 1
        self._held[key] = Blob(body, len(body), self.clock(), f"v{self._writes}")
        return self._held[key].version

    def clear(self, prefix: str, *, keep: str = "", limit: int = 1000) -> Cleared:
        check_run_folder(prefix)
        keys = [key for key in sorted(self._held) if key.startswith(prefix) and key != f"{prefix}{keep}"]
        sizes = [len(self._held.pop(key).body) for key in keys[:limit]]
        return Cleared(len(sizes), sum(sizes), len(keys) > limit)

    def delete(self, key: str) -> None:
        self._held.pop(key, None)
