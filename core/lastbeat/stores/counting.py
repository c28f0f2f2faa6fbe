"""A store that counts what is asked of it: what a pass cost."""

import threading
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from lastbeat.stores.port import Cleared, Store
from lastbeat.stores.wrapped import Operation, WrappedStore

T = TypeVar("T")
_NAMES_A_REQUEST = 1000
KINDS = ("LIST", "GET", "PUT", "DELETE")
_KIND_OF: Final[Mapping[Operation, str | None]] = {
    "list": "LIST",
    "folders": "LIST",
    "read": "GET",
    "write": "PUT",
    "delete": "DELETE",
    "clear": "LIST",
    "clock": None,
}
"""The kind of an operation's first request, or None if it is not counted."""


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


class CountingStore(WrappedStore):
    """``store``, with each call counted in ``tally`` before it is made: one that fails was asked, too.

    It belongs below :class:`~lastbeat.stores.retrying.RetryingStore`, so that each attempt counts. A call is one
    request, but for a rare second one of S3's adapter (a read of an empty object or behind the end of one, the first
    listing of an empty root).
    The store's clock is not counted: it asks the endpoint, unsigned and for nothing, once an hour.
    """

    def __init__(self, store: Store, tally: Tally | None = None) -> None:
        super().__init__(store)
        self.tally = tally or Tally()

    @property
    def counts(self) -> dict[str, int]:
        """Requests by kind until now."""
        return self.tally.counts

    def since(self, before: Mapping[str, int]) -> dict[str, int]:
        """Requests by kind on top of ``before``, an earlier :attr:`counts`."""
        return self.tally.since(before)

    def folders(self) -> tuple[str, ...]:
        found = super().folders()
        self.tally.add("LIST", max(0, len(found) - 1) // _NAMES_A_REQUEST)
        return found

    def clear(self, prefix: str, *, keep: str = "", limit: int = 1000) -> Cleared:
        cleared = super().clear(prefix, keep=keep, limit=limit)
        self.tally.add("DELETE", cleared.count)
        return cleared

    def _call(self, operation: Operation, key: str, function: Callable[[], T]) -> T:  # noqa: ARG002 - the face of the base
        kind = _KIND_OF[operation]
        if kind is not None:
            self.tally.add(kind)
        return function()
