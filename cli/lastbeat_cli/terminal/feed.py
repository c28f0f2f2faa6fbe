"""What a live screen shows is asked for in a thread of its own, so that a slow store never holds up a key."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from lastbeat.stores.port import StoreError
from lastbeat_cli.loop import next_due

T = TypeVar("T")


class Feed(Generic[T]):
    """Calls ``look`` every ``interval_s``, and ``changed`` after each call; what it found stands until the next."""

    def __init__(self, look: Callable[[], T], interval_s: float, changed: Callable[[], None]) -> None:
        self.value: T | None = None
        self.seen_at = 0.0
        """When ``value`` was found, by ``time.monotonic()``."""
        self.fault: StoreError | None = None
        """Why the last call found nothing."""
        self.fault_since = 0.0
        self.broken: Exception | None = None
        """A defect, which ended the feed."""
        self._look = look
        self._interval_s = interval_s
        self._changed = changed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lastbeat-feed", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, patience_s: float = 0.0) -> bool:
        """Ask no more; whether it came to its end within ``patience_s``."""
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
        except Exception as defect:  # noqa: BLE001 - it is raised again where people are told
            self.broken = defect
        if not self._stop.is_set():
            self._changed()
