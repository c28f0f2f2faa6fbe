"""A store that retries operations for which a retry is safe."""

import os
import time
from collections.abc import Callable
from typing import Final, TypeVar

from lastbeat.model.data import dataclass
from lastbeat.model.times import backoff_s
from lastbeat.stores.port import Expect, Store, StoreError
from lastbeat.stores.wrapped import Operation, WrappedStore

T = TypeVar("T")
_REPEATED: Final = frozenset[Operation]({"list", "folders", "read", "write", "delete", "clear"})
"""Operations that may be repeated. :meth:`RetryingStore.write` keeps conditional writes out of them."""


def _fraction() -> float:
    """A random number between 0 and 1, without the 4 ms for importing ``random``."""
    return int.from_bytes(os.urandom(4), "big") / 2**32


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits of retries: at most ``tries`` attempts, none of which begins later than ``total_s`` seconds after the
    first. The n-th pause is drawn evenly from 0 to ``base_s * 2 ** (n - 1)`` seconds ("full jitter", from M. Brooker's
    "Exponential Backoff And Jitter"), so that many watchers of one store do not return all at once."""

    tries: int = 3
    base_s: float = 0.3
    total_s: float = 15.0


class RetryingStore(WrappedStore):
    """``store`` with retries by ``patience`` while its errors are retryable.

    A conditional write is never repeated. If its answer is lost, it is unknown whether it happened, and its own first
    success would refuse the repetition. The writer has to read the key instead.
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
        super().__init__(store)
        self._patience = patience
        self._sleep = sleep
        self._fraction = fraction
        self._steady = steady

    def write(self, key: str, body: bytes, expect: Expect | str = Expect.ANYTHING) -> str:
        if expect is not Expect.ANYTHING:
            return self._store.write(key, body, expect)
        return super().write(key, body)

    def _call(self, operation: Operation, key: str, function: Callable[[], T]) -> T:  # noqa: ARG002 - the face of the base
        if operation not in _REPEATED:
            return function()
        began = self._steady()
        tried = 0
        while True:
            try:
                return function()
            except StoreError as error:
                tried += 1
                pause_s = self._fraction() * backoff_s(tried, self._patience.base_s)
                late = self._steady() - began + pause_s > self._patience.total_s
                if not error.retryable or tried >= self._patience.tries or late:
                    raise
            self._sleep(pause_s)
