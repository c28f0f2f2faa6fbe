"""Shares out the time of a pass, and makes calls that must not outlast it."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from lastbeat.fleet.ping import LIMITS

T = TypeVar("T")

log = logging.getLogger(__name__)

_CLOSING_S = 5.0
"""Time in s taken off the looks, to group alerts and to save the index."""
_MARK_S = 1.0
"""Time in s kept for the mark, which may take more if the sweep leaves more."""
_PAGE_S = 10.0
"""Time in s kept for the page of the fleet, which may also take more."""


def half_until(deadline: float) -> float:
    """The end of the first half of the time left until ``deadline``; both are times of ``time.monotonic()``."""
    now = time.monotonic()
    return now + max(0.0, deadline - now) / 2


@dataclass(frozen=True)
class PassTimes:
    """When each part of a pass has to end, by ``time.monotonic()``. Each property is computed as of now."""

    deadline: float = float("inf")
    marked: bool = False
    """Whether a mark follows the sweep."""
    pinged: bool = False
    """Whether a ping follows the mark."""
    paged: bool = False
    """Whether the page is written last."""

    @property
    def sweep(self) -> float:
        """End of the sweep, which gets at least three quarters of the time."""
        return self.deadline - min((_MARK_S if self.marked else 0.0) + self._after_mark_s, self.left_s / 4)

    @property
    def looks(self) -> float:
        """End of the looks of a sweep that has to end at ``deadline``."""
        return self.deadline - min(_CLOSING_S, self.left_s / 4)

    @property
    def mark(self) -> float:
        """End of the mark, which gets at least half of the time left."""
        return max(self.deadline - self._after_mark_s, half_until(self.deadline))

    @property
    def page(self) -> float:
        """End of the page, after which the mark may be written again."""
        return self.deadline - _MARK_S

    @property
    def left_s(self) -> float:
        """Seconds until the deadline."""
        return max(0.0, self.deadline - time.monotonic())

    @property
    def _after_mark_s(self) -> float:
        return (LIMITS.total_s if self.pinged else 0.0) + (_PAGE_S + _MARK_S if self.paged else 0.0)


class BoundedCalls:
    """Makes calls that may hang in a store or a channel. A call that does not return in time goes on in its thread, and
    is not made again before it has returned."""

    def __init__(self) -> None:
        self._open: dict[str, threading.Thread] = {}

    def call(self, name: str, function: Callable[[], T], until: float) -> T | None:
        """The result of ``function``; None if it raised or did not return by ``until``, a time of ``time.monotonic()``.
        An exception is a bug of lastbeat, and is logged with its traceback."""
        if until == float("inf"):
            return function()
        earlier = self._open.get(name)
        if earlier is not None:
            earlier.join(max(0.0, until - time.monotonic()))
            if earlier.is_alive():
                return None
        returned: list[T] = []

        def call() -> None:
            try:
                returned.append(function())
            except Exception:
                # The next pass repeats this call's work.
                log.exception("%s broke", name)

        thread = self._open[name] = threading.Thread(target=call, name="lastbeat-call", daemon=True)
        thread.start()
        thread.join(max(0.0, until - time.monotonic()))
        return returned[0] if returned else None
