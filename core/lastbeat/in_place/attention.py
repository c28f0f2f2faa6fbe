"""Waiting while nothing of the command runs: a signal that asks for the end of this process is heard then, too."""

import logging
import signal
import threading
import time
from collections.abc import Callable, Collection
from typing import Final, Generic, TypeVar

from lastbeat.child.signal_queue import SignalQueue
from lastbeat.model.stop_request import StopRequest

log = logging.getLogger("lastbeat")
T = TypeVar("T")

_STOPS: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
_POLL_S: Final = 0.05


class StoppedError(Exception):
    """A signal asked for the end of this process."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.number = number


class AskedToEndError(Exception):
    """A person asked for the end of the run while nothing of it ran."""

    def __init__(self, request: StopRequest) -> None:
        super().__init__(request.summary)
        self.request = request


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

    def __init__(self, signals: SignalQueue, more: Collection[int] = ()) -> None:
        """``more``: what else asks for the end of this process."""
        self._signals = signals
        self._stops = _STOPS | set(more)

    def pause(self, seconds: float) -> None:
        """Wait so long. Raises :class:`StoppedError`."""
        deadline = time.monotonic() + seconds
        while (left_s := deadline - time.monotonic()) > 0:
            received = self._signals.wait(min(left_s, 1.0))
            if received is not None and received.number in self._stops:
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
        if not begin_thread(doing.do, "lastbeat-in-place-work"):
            return otherwise
        return doing.found if self.until(doing.over.is_set, limit_s) else otherwise


def begin_thread(work: Callable[[], object], name: str) -> bool:
    """Do ``work`` in a thread that nobody waits for. Whether one could be started: where the machine has none left, the
    command goes on without it."""
    try:
        threading.Thread(target=_quietly, args=(work,), name=name, daemon=True).start()
    except RuntimeError as fault:
        log.warning("lastbeat does less than it should: %s", fault)
        return False
    return True


def _quietly(work: Callable[[], object]) -> None:
    try:
        work()
    except Exception:
        log.debug("work between two starts went wrong", exc_info=True)
