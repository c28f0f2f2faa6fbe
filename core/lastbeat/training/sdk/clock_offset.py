"""How far the store's clock is ahead of this machine's, learned from the stamps of our own writes.

    write ──► the store stamps it ──► read the stamp back: the store's time at that instant,
                                      carried on by the monotonic clock; minus this machine's clock

So a watchdog can tell a slow clock from an old document.
"""

import logging
import math
import time
from collections.abc import Callable
from typing import Final

from lastbeat.stores.clock import steady
from lastbeat.stores.port import Expect, Store, StoreError
from lastbeat.training.sdk.safe_log import safe_log

LEAST_S: Final = 2.0
"""Smallest offset in s that counts. Stores stamp whole seconds, and requests take a moment."""
_REFRESH_S: Final = 3600.0
"""The offset is learned again after this many s, because clocks drift apart by seconds a day."""
_RETRY_S: Final = 60.0
"""The offset is tried again after this many s if it could not be learned."""


class ClockOffset:
    """The offset between one machine's clock and one store's. For use by one thread."""

    def __init__(self, wall: Callable[[], float] = time.time, steady_clock: Callable[[], float] = steady) -> None:
        self._wall = wall
        self._steady_clock = steady_clock
        self._base: float | None = None
        """The store's time minus the steady clock."""
        self._due = -math.inf

    @property
    def seconds(self) -> float | None:
        """The store's clock minus this machine's, now, in s; None if unknown."""
        if self._base is None:
            return None
        offset_s = self._base + self._steady_clock() - self._wall()
        return 0.0 if abs(offset_s) < LEAST_S else round(offset_s, 1)

    def write(self, store: Store, key: str, body: bytes, expect: Expect | str = Expect.ANYTHING) -> str:
        """Write ``key``, learn the offset from it if that is due, and return its new version. Raises
        :class:`StoreError` if the write fails."""
        began = self._steady_clock()
        version = store.write(key, body, expect)
        now = self._steady_clock()
        if now >= self._due:
            self._learn(store, key, began, now)
        return version

    def _learn(self, store: Store, key: str, began: float, now: float) -> None:
        try:
            blob = store.read(key, 1)
        except StoreError as error:
            # Some policies let training write but not read.
            safe_log(logging.DEBUG, "the offset of the store's clock is unknown: %s", error)
            blob = None
        if blob is None:
            self._due = now + _RETRY_S
            return
        # A stamp truncated to whole seconds is half a second early on average.
        stamp = blob.modified.timestamp() + (0.0 if blob.modified.microsecond else 0.5)
        self._base = stamp - (began + now) / 2
        self._due = now + _REFRESH_S
