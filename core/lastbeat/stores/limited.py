"""A store whose calls are given up after a time that whoever asks chooses, whatever the store's own limits are."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from lastbeat.stores.port import Store, UnreachableError
from lastbeat.stores.wrapped import Operation, WrappedStore

T = TypeVar("T")

_MOST_HANGING = 64
_room = threading.BoundedSemaphore(_MOST_HANGING)
"""A call that hangs keeps its thread; a process has only so many of them."""


class LimitedStore(WrappedStore):
    """``store``, each call of which but the one to its clock fails with :class:`UnreachableError` after ``limit_s``
    seconds.

    A call that was given up goes on alone, and a write may still happen then: only one with a condition does no harm.
    """

    def __init__(self, store: Store, limit_s: float) -> None:
        super().__init__(store)
        self._limit_s = limit_s

    def _call(self, operation: Operation, key: str, function: Callable[[], T]) -> T:
        if operation == "clock":
            return function()
        return _given_up(self.url, _doing(operation, key), function, self._limit_s)


class TimelyStore(WrappedStore):
    """``store``, whose answers are waited for until :attr:`until` and no longer, the one to its time among them."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.until = float("inf")
        """A time of ``time.monotonic()``, for calls from now on."""

    def _call(self, operation: Operation, key: str, function: Callable[[], T]) -> T:
        until = self.until
        if until == float("inf"):
            return function()
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise UnreachableError(f"{self.url}: cannot {_doing(operation, key)}: no time was left for it")
        return _given_up(self.url, _doing(operation, key), function, left_s)


def _doing(operation: Operation, key: str) -> str:
    return {"folders": "list the folders", "clock": "ask for its time"}.get(operation, f"{operation} {key}")


def _given_up(url: str, doing: str, call: Callable[[], T], limit_s: float) -> T:
    """What ``call`` gives within ``limit_s``."""
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

    # A daemon: a call that hangs must not keep the process from ending.
    thread = threading.Thread(target=ask, name="lastbeat-limited", daemon=True)
    thread.start()
    thread.join(limit_s)
    if faults:
        raise faults[0]
    if not answers:
        raise UnreachableError(f"{url}: cannot {doing}: no answer within {limit_s:.3g} s")
    return answers[0]
