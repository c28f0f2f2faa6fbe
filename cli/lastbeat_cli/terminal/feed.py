"""Reads the data of a live screen in a thread of its own, so that a slow store never delays a key."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from lastbeat.stores.clock import next_due
from lastbeat.stores.port import StoreError

T = TypeVar("T")


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
