"""A fleet root in memory that counts its requests as S3 counts them, with a clock that is turned by hand: what passes
over many simulated minutes ask for does not depend on the server, and no server would answer that many in time."""

import hashlib
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from lastbeat.stores import s3
from lastbeat.stores.port import Blob, Cleared, ConflictError, Entry, Expect, Page

_NAMES_A_REQUEST = 1000


class CountedStore:
    """``requests``: kind (LIST, GET, PUT, DELETE) → how many."""

    url = "s3://bench/training-runs"
    traits = s3.TRAITS

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, 12, 0, 0, tzinfo=timezone.utc)
        self.requests: Counter[str] = Counter()
        self._held: dict[str, tuple[Entry, bytes]] = {}
        self._keys: list[str] = []
        self._new = False
        self._lock = threading.Lock()
        self._writes = 0

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def put(self, key: str, body: bytes, *, age_s: float = 0.0) -> None:
        """What training does; not counted."""
        with self._lock:
            self._set(key, body, self.now - timedelta(seconds=age_s))

    def fill(self, files: Iterable[tuple[str, bytes]]) -> None:
        for key, body in files:
            self.put(key, body)

    def size(self, key: str) -> int:
        return len(self._held[key][1])

    def _set(self, key: str, body: bytes, modified: datetime) -> str:
        self._writes += 1
        self._new = self._new or key not in self._held
        version = f"v{self._writes}"
        self._held[key] = Entry(key, len(body), modified.replace(microsecond=0), version), body
        return version

    def _sorted(self) -> list[str]:
        if self._new:
            # The order of code points is that of their UTF-8 bytes.
            self._keys, self._new = sorted(self._held), False
        return self._keys

    def list(self, prefix: str, start_after: str = "", limit: int = 1000) -> Page:
        with self._lock:
            self.requests["LIST"] += 1
            keys = self._sorted()
            begin = bisect_right(keys, max(start_after, prefix[:-1]))
            end = bisect_right(keys, f"{prefix}\U0010ffff") if prefix else len(keys)
            entries = tuple(self._held[key][0] for key in keys[begin : min(end, begin + limit)])
            return Page(entries, more=begin + limit < end)

    def folders(self) -> tuple[str, ...]:
        with self._lock:
            names = tuple(dict.fromkeys(key.partition("/")[0] for key in self._sorted()))
            self.requests["LIST"] += max(1, -(-len(names) // _NAMES_A_REQUEST))
            return names

    def read(self, key: str, limit_bytes: int, *, from_end: bool = False, start: int = 0) -> Blob | None:
        with self._lock:
            self.requests["GET"] += 1
            held = self._held.get(key)
        if held is None:
            return None
        entry, body = held
        part = body[-limit_bytes:] if from_end else body[start : start + limit_bytes]
        return Blob(part, entry.size_bytes, entry.modified, entry.version)

    def write(self, key: str, body: bytes, expect: Expect | str = Expect.ANYTHING) -> str:
        with self._lock:
            self.requests["PUT"] += 1
            held = self._held.get(key)
            refused = (
                held is not None
                if expect is Expect.NOTHING
                else isinstance(expect, str) and (held is None or held[0].version != expect)
            )
            if refused:
                raise ConflictError(f"{key} is not as expected ({expect})")
            return self._set(key, body, self.now)

    def clear(self, prefix: str, *, keep: str = "", limit: int = 1000) -> Cleared:
        raise NotImplementedError

    def delete(self, key: str) -> None:
        with self._lock:
            self.requests["DELETE"] += 1
            self._new = self._held.pop(key, None) is not None or self._new

    def clock(self) -> datetime:
        return self.now


class TaggedStore(CountedStore):
    """One whose versions are those that an S3 server gives the same bodies."""

    def _set(self, key: str, body: bytes, modified: datetime) -> str:
        version = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
        super()._set(key, body, modified)
        entry, _ = self._held[key]
        self._held[key] = replace(entry, version=version), body
        return version

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Everything, as a server is given it."""
        return ((key, body) for key, (_, body) in self._held.items())
