"""Live screens: whether the terminal can show one, the thread that reads their data, and how they end."""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from lastbeat.stores.clock import next_due
from lastbeat.stores.port import StoreError
from lastbeat.views.lines import paint

T = TypeVar("T")
_ENDS_WITHIN_S: Final = 0.3


def possible() -> bool:
    """Whether stdout is a terminal to draw on, and stdin one to read keys from."""
    return paint.capable(sys.stdout) and sys.stdin is not None and sys.stdin.isatty()


@contextmanager
def quiet() -> Iterator[None]:
    """Turn off logs on the terminal: they would damage the picture, which shows errors itself."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def leave(feed: "Feed[T]", status: int) -> int:
    """Stop ``feed`` and return ``status``. If a read hangs in the store, end the process at once."""
    ended = feed.stop(_ENDS_WITHIN_S)
    if feed.broken is not None:
        raise feed.broken
    if not ended:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(status)
    return status


class Feed(Generic[T]):
    """Calls ``look`` every ``interval_s`` and keeps its result, and calls ``changed`` after each call."""

    def __init__(self, look: Callable[[], T], interval_s: float, changed: Callable[[], None]) -> None:
        self.value: T | None = None
        self.seen_at = 0.0
        """When ``value`` was read, by ``time.monotonic()``."""
        self.fault: StoreError | None = None
        """The error of the last call, or None."""
        self.fault_since = 0.0
        self.broken: Exception | None = None
        """The defect that ended the feed, or None."""
        self._look = look
        self._interval_s = interval_s
        self._changed = changed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lastbeat-feed", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, patience_s: float = 0.0) -> bool:
        """Stop the feed. Returns whether its thread ended within ``patience_s``."""
        self._stop.set()
        self._thread.join(patience_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            self._once()
            if self.broken is not None:
                return
            due = next_due(due, time.monotonic(), self._interval_s)
            self._stop.wait(due - time.monotonic())

    def _once(self) -> None:
        try:
            self.value, self.seen_at = self._look(), time.monotonic()
            self.fault = None
        except StoreError as fault:
            if self.fault is None:
                self.fault_since = time.monotonic()
            self.fault = fault
        except Exception as defect:  # noqa: BLE001 - raised again in the main thread
            self.broken = defect
        if not self._stop.is_set():
            self._changed()
