"""A store that tries again, where trying again cannot do harm."""

import os
import time
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from lastbeat.model.backoff import backoff_s
from lastbeat.model.data import dataclass
from lastbeat.stores.kind import Traits
from lastbeat.stores.port import Blob, Cleared, Expect, Page, Store, StoreError

T = TypeVar("T")


def _fraction() -> float:
    """Between 0 and 1, at random, without 4 ms of importing ``random``."""
    return int.from_bytes(os.urandom(4), "big") / 2**32


@dataclass(frozen=True, slots=True)
class Patience:
    """At most ``tries`` attempts, none of which begins later than ``total_s`` seconds after the first. The n-th
    pause is drawn evenly from 0 to ``base_s * 2 ** (n - 1)`` seconds ("full jitter", from M. Brooker's "Exponential
    Backoff And Jitter"), so that many watchers of one store do not come back all at once."""

    tries: int = 3
    base_s: float = 0.3
    total_s: float = 15.0


class RetryingStore:
    """``store``, tried again with ``patience`` while its errors are retryable.

    A conditional write is never repeated: with its answer lost nobody knows whether it happened, and the repetition
    would be refused by its own first success. Whoever wrote has to read what is there.
    """

    def __init__(
        self,
        store: Store,
        patience: Patience = Patience(),
        *,
        sleep: Callable[[float], None] = time.sleep,
        fraction: Callable[[], float] = _fraction,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._patience = patience
        self._sleep = sleep
        self._fraction = fraction
        self._steady = steady

    @property
    def url(self) -> str:
        return self._store.url

    @property
    def traits(self) -> Traits:
        return self._store.traits

    def list(self, prefix: str, start_after: str = "", limit: int = 1000) -> Page:
        return self._trying(lambda: self._store.list(prefix, start_after, limit))

    def folders(self) -> tuple[str, ...]:
        return self._trying(self._store.folders)

    def read(self, key: str, limit_bytes: int, *, from_end: bool = False, start: int = 0) -> Blob | None:
        return self._trying(lambda: self._store.read(key, limit_bytes, from_end=from_end, start=start))

    def write(self, key: str, body: bytes, expect: Expect | str = Expect.ANYTHING) -> str:
        if expect is not Expect.ANYTHING:
            return self._store.write(key, body, expect)
        return self._trying(lambda: self._store.write(key, body))

    def delete(self, key: str) -> None:
        self._trying(lambda: self._store.delete(key))

    def clear(self, prefix: str, *, keep: str = "", limit: int = 1000) -> Cleared:
        return self._trying(lambda: self._store.clear(prefix, keep=keep, limit=limit))

    def clock(self) -> datetime:
        return self._store.clock()

    def _trying(self, call: Callable[[], T]) -> T:
        began = self._steady()
        tried = 0
        while True:
            try:
                return call()
            except StoreError as error:
                tried += 1
                pause_s = self._fraction() * backoff_s(tried, self._patience.base_s)
                late = self._steady() - began + pause_s > self._patience.total_s
                if not error.retryable or tried >= self._patience.tries or late:
                    raise
            self._sleep(pause_s)
