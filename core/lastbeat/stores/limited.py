"""A store whose calls are given up after a time that whoever asks chooses, whatever the store's own limits are."""

import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from lastbeat.stores.kind import Traits
from lastbeat.stores.port import Blob, Cleared, Expect, Page, Store, UnreachableError

T = TypeVar("T")

_MOST_HANGING = 64
_room = threading.BoundedSemaphore(_MOST_HANGING)
"""A call that hangs keeps its thread; a process has only so many of them."""


class LimitedStore:
    """``store``, each call of which fails with :class:`UnreachableError` after ``limit_s`` seconds.

    A call that was given up goes on alone, and a write may still happen then: only one with a condition does no harm.
    """

    def __init__(self, store: Store, limit_s: float) -> None:
        self._store = store
        self._limit_s = limit_s

    @property
    def url(self) -> str:
        return self._store.url

    @property
    def traits(self) -> Traits:
        return self._store.traits

    def list(self, prefix: str, start_after: str = "", limit: int = 1000) -> Page:
        return self._within(f"list {prefix}", lambda: self._store.list(prefix, start_after, limit))

    def folders(self) -> tuple[str, ...]:
        return self._within("list the folders", self._store.folders)

    def read(self, key: str, limit_bytes: int, *, from_end: bool = False, start: int = 0) -> Blob | None:
        return self._within(f"read {key}", lambda: self._store.read(key, limit_bytes, from_end=from_end, start=start))

    def write(self, key: str, body: bytes, expect: Expect | str = Expect.ANYTHING) -> str:
        return self._within(f"write {key}", lambda: self._store.write(key, body, expect))

    def delete(self, key: str) -> None:
        self._within(f"delete {key}", lambda: self._store.delete(key))

    def clear(self, prefix: str, *, keep: str = "", limit: int = 1000) -> Cleared:
        return self._within(f"clear {prefix}", lambda: self._store.clear(prefix, keep=keep, limit=limit))

    def clock(self) -> datetime:
        return self._store.clock()

    def _within(self, doing: str, call: Callable[[], T]) -> T:
        return _given_up(self.url, doing, call, self._limit_s)


class TimelyStore(LimitedStore):
    """``store``, whose answers are waited for until :attr:`until` and no longer, the one to its time among them."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, float("inf"))
        self.until = float("inf")
        """A time of ``time.monotonic()``, for calls from now on."""

    def clock(self) -> datetime:
        return self._within("ask for its time", self._store.clock)

    def _within(self, doing: str, call: Callable[[], T]) -> T:
        until = self.until
        if until == float("inf"):
            return call()
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise UnreachableError(f"{self.url}: cannot {doing}: no time was left for it")
        return _given_up(self.url, doing, call, left_s)


def _given_up(url: str, doing: str, call: Callable[[], T], limit_s: float) -> T:
    """What ``call`` gives within ``limit_s``."""
    if not _room.acquire(blocking=False):
        raise UnreachableError(f"{url}: cannot {doing} now: {_MOST_HANGING} calls have not come back")
    answers: list[T] = []
    faults: list[BaseException] = []

    def ask() -> None:
        try:
            answers.append(call())
        except BaseException as fault:  # noqa: BLE001 - whatever it is, it is raised where the call was made
            faults.append(fault)
        finally:
            _room.release()

    # A daemon: a call that hangs must not keep the process from ending.
    thread = threading.Thread(target=ask, name="lastbeat-limited", daemon=True)
    thread.start()
    thread.join(limit_s)
    if faults:
        raise faults[0]
    if not answers:
        raise UnreachableError(f"{url}: cannot {doing}: no answer within {limit_s:.3g} s")
    return answers[0]
