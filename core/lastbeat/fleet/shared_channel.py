"""A channel shared by many looks: sends one alert at a time, with a circuit breaker for failures."""

import logging
import threading
import time
from collections.abc import Callable

from lastbeat.alerts.port import Channel, DeliveryError, Receipt
from lastbeat.model.alert import Message

log = logging.getLogger(__name__)

_MOST_FAILURES = 2
_PAUSE_S = 30.0
_LONGEST_PAUSE_S = 900.0


class SharedChannel:
    """``channel`` for one sweep, with counts of deliveries. An alert waits for its turn for ``wait_s`` at most.

    After two failures in a row, or when the channel asks for a pause, alerts fail at once for a while, with the time
    of the next try. Each run's outbox keeps its own alerts.
    """

    def __init__(self, channel: Channel, wait_s: float, steady: Callable[[], float] = time.monotonic) -> None:
        self._channel = channel
        self._wait_s = wait_s
        self._steady = steady
        self._lock = threading.Lock()
        self._failures = 0
        self._until = 0.0
        self.sent = 0
        self.failed = 0

    @property
    def identity(self) -> str:
        return self._channel.identity

    @property
    def describe(self) -> str:
        return self._channel.describe

    def preview(self, message: Message) -> str:
        return self._channel.preview(message)

    def check(self) -> str:
        return self._channel.check()

    def send(self, message: Message, receipt: Receipt | None = None) -> Receipt | None:
        # After a timeout the caller counts the alert as unsent, so it must not be sent later.
        if not self._lock.acquire(timeout=self._wait_s):
            raise DeliveryError("other alerts are being sent", retryable=True, retry_after_s=1.0)
        try:
            rest_s = self._until - self._steady()
            if rest_s > 0:
                self.failed += 1
                raise DeliveryError("it is left alone for a while after failures", retryable=True, retry_after_s=rest_s)
            try:
                kept = self._channel.send(message, receipt)
            except DeliveryError as error:
                self._failed(error)
                raise
            self._failures = 0
            self.sent += 1
            return kept
        finally:
            self._lock.release()

    def _failed(self, error: DeliveryError) -> None:
        self.failed += 1
        if not error.retryable:
            return  # A fault of this alert, not of the channel.
        self._failures += 1
        if error.retry_after_s is not None:
            self._until = self._steady() + min(error.retry_after_s, _LONGEST_PAUSE_S)
        elif self._failures >= _MOST_FAILURES:
            self._until = self._steady() + _PAUSE_S
            self._failures = 0
