"""What failures cost, for all browsers: read on request, at most once in five minutes."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from lastbeat.stores.port import StoreError, UnreachableError
from lastbeat.views.served.answer import Body, json_body

log = logging.getLogger(__name__)

GOOD_FOR_S: Final = 300.0
PATIENCE_S: Final = 20.0
"""Longest time, in seconds, that a request waits for a read. The read goes on, and a later request gets its result."""
_WAITING: Final = 2
"""Most requests that wait at the same time; further ones are answered at once. Each holds one of few server threads."""


class LossLooks:
    """Serves the document that ``read`` returns. ``read`` may be slow, and raises :class:`StoreError`."""

    def __init__(
        self,
        read: Callable[[], Mapping[str, object]],
        *,
        patience_s: float = PATIENCE_S,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._patience_s = patience_s
        self._steady = steady
        self._lock = threading.Lock()
        """Guards every attribute below except ``_seats``."""
        self._seats = threading.BoundedSemaphore(_WAITING)
        self._known: Body | None = None
        self._fault: StoreError | None = None
        self._read_at = float("-inf")
        self._reading: threading.Thread | None = None

    def document(self) -> Body:
        """The document: at most five minutes old, except while a new one is read. Raises :class:`StoreError`."""
        with self._lock:
            if self._steady() - self._read_at >= GOOD_FOR_S and (self._reading is None or not self._reading.is_alive()):
                self._reading = threading.Thread(target=self._look, name="lastbeat-losses", daemon=True)
                self._reading.start()
            reading = self._reading
        if reading is not None and reading.is_alive() and self._seats.acquire(blocking=False):
            try:
                reading.join(self._patience_s)
            finally:
                self._seats.release()
        with self._lock:
            if self._fault is not None:
                raise self._fault
            if self._known is None:
                raise UnreachableError("the records of this fleet are still being read", "ask again in a moment")
            return self._known

    def _look(self) -> None:
        known: Body | None = None
        fault: StoreError | None = None
        try:
            known = json_body(self._read())
        except StoreError as error:
            fault = error
        except Exception as error:
            log.exception("what failures cost could not be read")
            what = f"what failures cost could not be told: {type(error).__name__}"
            fault = StoreError(what, "This is a defect of lastbeat; the dashboard's own output says more.")
        with self._lock:
            self._known, self._fault = known or self._known, fault
            # After a failure the next request reads again at once.
            self._read_at = self._steady() if fault is None else float("-inf")
