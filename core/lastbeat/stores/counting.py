"""A store that counts what is asked of it: what a pass cost."""

import threading
from collections.abc import Mapping
from datetime import datetime

from lastbeat.stores.kind import Traits
from lastbeat.stores.port import Blob, Cleared, Expect, Page, Store

_NAMES_A_REQUEST = 1000
KINDS = ("LIST", "GET", "PUT", "DELETE")


class Tally:
    """Requests by kind, counted from any number of threads."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(KINDS, 0)
        self._lock = threading.Lock()

    def add(self, kind: str, count: int = 1) -> None:
        """``count`` requests more of one of :data:`KINDS`."""
        with self._lock:
            self._counts[kind] += count

    @property
    def counts(self) -> dict[str, int]:
        """All of them as of now; every kind is there."""
        with self._lock:
            return dict(self._counts)

    def since(self, before: Mapping[str, int]) -> dict[str, int]:
        """What came on top of ``before``, an earlier :attr:`counts`."""
        return {kind: count - before.get(kind, 0) for kind, count in self.counts.items()}


class CountingStore:
    """``store``, with each call counted in ``tally`` before it is made: one that fails was asked, too.

    It belongs below :class:`~lastbeat.stores.retrying.RetryingStore`, so that each attempt counts. A call is one
    request, but for a rare second one of S3's adapter (a read of an empty object or behind the end of one, the first
    listing of an empty root).
    The store's clock is not counted: it asks the endpoint, unsigned and for nothing, once an hour.
    """

    def __init__(self, store: Store, tally: Tally | None = None) -> None:
        self._store = store
        self.tally = tally or Tally()

    @property
    def url(self) -> str:
        return self._store.url

    @property
    def traits(self) -> Traits:
        return self._store.traits

    @property
    def counts(self) -> dict[str, int]:
        """Requests by kind until now."""
        return self.tally.counts

    def since(self, before: Mapping[str, int]) -> dict[str, int]:
        """Requests by kind on top of ``before``, an earlier :attr:`counts`."""
        return self.tally.since(before)

    def list(self, prefix: str, start_after: str = "", limit: int = 1000) -> Page:
        self.tally.add("LIST")
        return self._store.list(prefix, start_after, limit)

    def folders(self) -> tuple[str, ...]:
        self.tally.add("LIST")
        found = self._store.folders()
        self.tally.add("LIST", max(0, len(found) - 1) // _NAMES_A_REQUEST)
        return found

    def read(self, key: str, limit_bytes: int, *, from_end: bool = False, start: int = 0) -> Blob | None:
        self.tally.add("GET")
        return self._store.read(key, limit_bytes, from_end=from_end, start=start)

    def write(self, key: str, body: bytes, expect: Expect | str = Expect.ANYTHING) -> str:
        self.tally.add("PUT")
        return self._store.write(key, body, expect)

    def delete(self, key: str) -> None:
        self.tally.add("DELETE")
        self._store.delete(key)

    def clear(self, prefix: str, *, keep: str = "", limit: int = 1000) -> Cleared:
        self.tally.add("LIST")
        cleared = self._store.clear(prefix, keep=keep, limit=limit)
        self.tally.add("DELETE", cleared.count)
        return cleared

    def clock(self) -> datetime:
        return self._store.clock()
