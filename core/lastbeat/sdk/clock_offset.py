"""How far the store's clock is ahead of this machine's, learned from what was written.

    write ──► the store stamps it ──► read its stamp back: store's time at that instant
                                      carried on by a clock that nobody sets; minus this machine's clock

So whoever watches need not wonder whether a time that lags is a slow clock or an old document.
"""

import logging
import math
import time
from collections.abc import Callable
from typing import Final

from lastbeat.sdk.saying import say
from lastbeat.stores.clock import steady
from lastbeat.stores.port import Store, StoreError

LEAST_S: Final = 2.0
"""Stores stamp whole seconds and requests take a moment: less than this is no offset at all."""
_AGAIN_S: Final = 3600.0
"""Two clocks drift apart by seconds a day: learned anew after this long."""
_SOON_S: Final = 60.0
"""The same where it could not be learned."""


class ClockOffset:
    """From one machine to one store. For one thread."""

    def __init__(self, wall: Callable[[], float] = time.time, steadily: Callable[[], float] = steady) -> None:
        self._wall = wall
        self._steadily = steadily
        self._base: float | None = None
        """Store's time minus the steady clock."""
        self._due = -math.inf

    @property
    def seconds(self) -> float | None:
        """Store's clock minus this machine's, now; None where it is not known."""
        if self._base is None:
            return None
        offset_s = self._base + self._steadily() - self._wall()
        return 0.0 if abs(offset_s) < LEAST_S else round(offset_s, 1)

    def write(self, store: Store, key: str, body: bytes) -> None:
        """Write ``key``, and learn from it if that is due. Raises :class:`StoreError` when it could not be written."""
        began = self._steadily()
        store.write(key, body)
        now = self._steadily()
        if now < self._due:
            return
        try:
            blob = store.read(key, 1)
        except StoreError as error:
            # Some policies let training write and not read.
            say(logging.DEBUG, "how far the store's clock is off is not known: %s", error)
            blob = None
        if blob is None:
            self._due = now + _SOON_S
            return
        # Stamps are cut to whole seconds, by half of one on average.
        stamp = blob.modified.timestamp() + (0.0 if blob.modified.microsecond else 0.5)
        self._base = stamp - (began + now) / 2
        self._due = now + _AGAIN_S
