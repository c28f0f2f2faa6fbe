"""A store that counts its requests, for the cost of a pass."""

import threading
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from lastbeat.stores.port import Cleared, Store
from lastbeat.stores.wrapped import Operation, WrappedStore

T = TypeVar("T")
_NAMES_A_REQUEST = 1000
"""Most folders in the answer to one request."""
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
        """Add ``count`` requests of one of :data:`KINDS`."""
        with self._lock:
            self._counts[kind] += count

    @property
    def counts(self) -> dict[str, int]:
        """The counts as of now, with every kind."""
        with self._lock:
            return dict(self._counts)

    def since(self, before: Mapping[str, int]) -> dict[str, int]:
        """The growth of the counts since ``before``, an earlier :attr:`counts`."""
        return {kind: count - before.get(kind, 0) for kind, count in self.counts.items()}


class CountingStore(WrappedStore):
    """``store``, with each call counted in ``tally`` before it is made, so that failed ones count too.

    It belongs below :class:`~lastbeat.stores.retrying.RetryingStore`, so that each attempt counts. A call is one
    request. S3's adapter rarely makes an uncounted second one: for a read of an empty object or behind the end of one,
    and for the first listing of an empty root.

    The store's clock is not counted, because it makes one unsigned request an hour, which is free.
    """

    def __init__(self, store: Store, tally: Tally) -> None:
        super().__init__(store)
        self.tally = tally

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
