"""Waiting while nothing of the command runs: a signal that asks for the end of this process is heard then, too."""

import signal
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from lastbeat.child.signal_queue import SignalQueue

T = TypeVar("T")

_STOPS: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
_POLL_S: Final = 0.05


class StoppedError(Exception):
    """A signal asked for the end of this process."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.number = number


class _Work(Generic[T]):
    """Some work and what came of it."""

    def __init__(self, work: Callable[[], T], otherwise: T) -> None:
        self._work, self.found, self.over = work, otherwise, threading.Event()

    def do(self) -> None:
        """Do it. Whatever it raises is its own affair."""
        try:
            self.found = self._work()
        finally:
            self.over.set()


class Attention:
    """Waits, and hears signals meanwhile."""

    def __init__(self, signals: SignalQueue) -> None:
        self._signals = signals

    def pause(self, seconds: float) -> None:
        """Wait so long. Raises :class:`StoppedError`."""
        deadline = time.monotonic() + seconds
        while (left_s := deadline - time.monotonic()) > 0:
            received = self._signals.wait(min(left_s, 1.0))
            if received is not None and received.number in _STOPS:
                raise StoppedError(received.number)

    def until(self, done: Callable[[], bool], limit_s: float) -> bool:
        """Wait until ``done``; False if it is not after ``limit_s``. Raises :class:`StoppedError`."""
        deadline = time.monotonic() + limit_s
        while not done():
            if time.monotonic() >= deadline:
                return False
            self.pause(_POLL_S)
        return True

    def while_doing(self, work: Callable[[], T], limit_s: float, otherwise: T) -> T:
        """What ``work`` returns, in a thread of its own; ``otherwise`` where it raised or was not done within
        ``limit_s``. Raises :class:`StoppedError`."""
        doing = _Work(work, otherwise)
        threading.Thread(target=_quietly, args=(doing.do,), name="lastbeat-in-place-work", daemon=True).start()
        return doing.found if self.until(doing.over.is_set, limit_s) else otherwise


def _quietly(do: Callable[[], None]) -> None:
    import logging  # noqa: PLC0415 - only where it goes wrong

    try:
        do()
    except Exception:
        logging.getLogger("lastbeat").debug("work between two starts went wrong", exc_info=True)
