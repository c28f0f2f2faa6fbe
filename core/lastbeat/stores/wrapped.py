"""The base of stores around another store, which limit, count, repeat or refuse its operations."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime
from typing import Literal, TypeVar

from lastbeat.stores.kind import Traits
from lastbeat.stores.port import Blob, Cleared, Expect, Page, Store

T = TypeVar("T")
Operation = Literal["list", "folders", "read", "write", "delete", "clear", "clock"]


class WrappedStore(ABC):
    """``store`` with each operation passed through :meth:`_call`.

    A wrapper sees every operation there, including ones that are added to the port later. It overrides an operation
    itself only if it needs the arguments or the answer.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    @abstractmethod
    def _call(self, operation: Operation, key: str, function: Callable[[], T]) -> T:
        """Return the result of ``function``, which performs ``operation`` on ``key``: a key, a folder or ""."""
        ...

    @property
    def url(self) -> str:
        return self._store.url

    @property
    def traits(self) -> Traits:
        return self._store.traits

    def list(self, prefix: str, start_after: str = "", limit: int = 1000) -> Page:
        return self._call("list", prefix, lambda: self._store.list(prefix, start_after, limit))

    def folders(self) -> tuple[str, ...]:
        return self._call("folders", "", self._store.folders)

    def read(self, key: str, limit_bytes: int, *, from_end: bool = False, start: int = 0) -> Blob | None:
        return self._call("read", key, lambda: self._store.read(key, limit_bytes, from_end=from_end, start=start))

    def write(self, key: str, body: bytes, expect: Expect | str = Expect.ANYTHING) -> str:
        return self._call("write", key, lambda: self._store.write(key, body, expect))

    def delete(self, key: str) -> None:
        self._call("delete", key, lambda: self._store.delete(key))

    def clear(self, prefix: str, *, keep: str = "", limit: int = 1000) -> Cleared:
        return self._call("clear", prefix, lambda: self._store.clear(prefix, keep=keep, limit=limit))

    def clock(self) -> datetime:
        return self._call("clock", "", self._store.clock)
