"""Stores whose calls are given up after the caller's time limit, in addition to the store's own limits."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from lastbeat.stores.port import Store, UnreachableError
from lastbeat.stores.wrapped import Operation, WrappedStore

T = TypeVar("T")

_MOST_HANGING = 64
"""Most hanging calls of a process, because each keeps a thread."""
_room = threading.BoundedSemaphore(_MOST_HANGING)


class LimitedStore(WrappedStore):
    """``store`` with a limit of ``limit_s`` seconds on each call except the clock's. A later one raises
    :class:`UnreachableError`.

    A call that was given up goes on in its thread, so its write may still happen. Only a conditional write is safe
    then.
    """

    def __init__(self, store: Store, limit_s: float) -> None:
        super().__init__(store)
        self._limit_s = limit_s

    def _call(self, operation: Operation, key: str, function: Callable[[], T]) -> T:
        if operation == "clock":
            return function()
        return _given_up(self.url, _doing(operation, key), function, self._limit_s)


class TimelyStore(WrappedStore):
    """``store`` with the deadline :attr:`until` on all calls, including the clock's."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.until = float("inf")
        """Deadline of further calls, a time of ``time.monotonic()``."""

    def _call(self, operation: Operation, key: str, function: Callable[[], T]) -> T:
        until = self.until
        if until == float("inf"):
            return function()
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise UnreachableError(f"{self.url}: cannot {_doing(operation, key)}: no time was left for it")
        return _given_up(self.url, _doing(operation, key), function, left_s)


class ClosingStore(WrappedStore):
    """``store`` without calls that begin after ``until``, a time of ``time.monotonic()``. One that has begun goes on.

    For work whose caller stops waiting then: in a process that is frozen meanwhile it would go on much later.
    """

    def __init__(self, store: Store, until: float) -> None:
        super().__init__(store)
        self.until = until

    def _call(self, operation: Operation, key: str, function: Callable[[], T]) -> T:
        if time.monotonic() >= self.until:
            raise UnreachableError(f"{self.url}: cannot {_doing(operation, key)}: no time was left for it")
        return function()


def _doing(operation: Operation, key: str) -> str:
    return {"folders": "list the folders", "clock": "ask for its time"}.get(operation, f"{operation} {key}")


def _given_up(url: str, doing: str, call: Callable[[], T], limit_s: float) -> T:
    """The result of ``call``. Raises :class:`UnreachableError` if it takes longer than ``limit_s``."""
    if not _room.acquire(blocking=False):
        raise UnreachableError(f"{url}: cannot {doing} now: {_MOST_HANGING} calls have not come back")
    answers: list[T] = []
    faults: list[BaseException] = []

    def ask() -> None:
        try:
            answers.append(call())
        except BaseException as fault:  # noqa: BLE001 - whatever it is, it is raised where the call was made
            faults.append(fault)
        finally:
            _room.release()

    # A daemon thread, because a call that hangs must not keep the process from ending.
    thread = threading.Thread(target=ask, name="lastbeat-limited", daemon=True)
    thread.start()
    thread.join(limit_s)
    if faults:
        raise faults[0]
    if not answers:
        raise UnreachableError(f"{url}: cannot {doing}: no answer within {limit_s:.3g} s")
    return answers[0]
