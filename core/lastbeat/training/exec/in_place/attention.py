"""Waits between two starts of the command, and reacts to signals that end this process meanwhile."""

import logging
import signal
import threading
import time
from collections.abc import Callable, Collection
from typing import Final, TypeVar

from lastbeat.model.stop_request import StopRequest
from lastbeat.training.exec.child.signal_queue import SignalQueue
from lastbeat.training.sdk.threads import start_thread

log = logging.getLogger("lastbeat")
T = TypeVar("T")

_STOPS: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
_POLL_S: Final = 0.05


class StoppedError(Exception):
    """A signal has asked this process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.number = number


class AskedToEndError(Exception):
    """A user has asked the run to end between two starts."""

    def __init__(self, request: StopRequest) -> None:
        super().__init__(request.summary)
        self.request = request


class Attention:
    """Waits, and reacts to signals meanwhile."""

    def __init__(self, signals: SignalQueue, more: Collection[int] = ()) -> None:
        """``more`` are further signals that end this process."""
        self._signals = signals
        self._stops = _STOPS | set(more)

    def pause(self, seconds: float) -> None:
        """Wait for ``seconds``. Raises :class:`StoppedError`."""
        deadline = time.monotonic() + seconds
        while (left_s := deadline - time.monotonic()) > 0:
            received = self._signals.wait(min(left_s, 1.0))
            if received is not None and received.number in self._stops:
                raise StoppedError(received.number)

    def until(self, done: Callable[[], bool], limit_s: float) -> bool:
        """Wait until ``done`` returns True. Returns False after ``limit_s``. Raises :class:`StoppedError`."""
        deadline = time.monotonic() + limit_s
        while not done():
            if time.monotonic() >= deadline:
                return False
            self.pause(_POLL_S)
        return True

    def while_doing(self, work: Callable[[], T], limit_s: float, otherwise: T) -> T:
        """The result of ``work`` in a thread of its own; ``otherwise`` if it raised or was not done within ``limit_s``.
        Raises :class:`StoppedError`."""
        found, over = [otherwise], threading.Event()

        def do() -> None:
            try:
                found[0] = work()
            finally:
                over.set()

        if not begin_thread(do, "lastbeat-in-place-work"):
            return otherwise
        return found[0] if self.until(over.is_set, limit_s) else otherwise


def begin_thread(work: Callable[[], object], name: str) -> bool:
    """Do ``work`` in a thread without waiting for it. Returns whether a thread could be started; at the machine's limit
    of threads, the command goes on without it."""
    if start_thread(name, _quietly, work) is None:
        log.warning("lastbeat does less than it should: no thread can start")
        return False
    return True


def _quietly(work: Callable[[], object]) -> None:
    try:
        work()
    except Exception:
        log.debug("work between two starts went wrong", exc_info=True)
