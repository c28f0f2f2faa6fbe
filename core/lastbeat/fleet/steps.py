"""What a pass does once, beside its looks, and what must not take longer than there is time."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

log = logging.getLogger(__name__)


def half_until(deadline: float) -> float:
    """The end of the first half of what is left until ``deadline``; both are times of ``time.monotonic()``."""
    now = time.monotonic()
    return now + max(0.0, deadline - now) / 2


class Steps:
    """Takes steps that may hang in a store or a channel, and that raise nothing. One that does not end in time goes on
    alone, and is not taken again before it has ended."""

    def __init__(self) -> None:
        self._open: dict[str, threading.Thread] = {}

    def take(self, name: str, step: Callable[[], T], until: float) -> T | None:
        """What ``step`` gives; None where that was not to be had by ``until``, a time of ``time.monotonic()``."""
        if until == float("inf"):
            return step()
        earlier = self._open.get(name)
        if earlier is not None:
            earlier.join(max(0.0, until - time.monotonic()))
            if earlier.is_alive():
                return None
        gave: list[T] = []

        def take() -> None:
            try:
                gave.append(step())
            except Exception:
                # A fault of ours; what the step was to do is done by the next pass.
                log.exception("%s broke", name)

        thread = self._open[name] = threading.Thread(target=take, name="lastbeat-step", daemon=True)
        thread.start()
        thread.join(max(0.0, until - time.monotonic()))
        return gave[0] if gave else None
