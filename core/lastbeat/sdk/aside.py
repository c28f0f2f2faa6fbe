"""Calls that may hang or raise anything, made in a thread of their own: whoever asks waits for so long and no longer.

What training hands over runs code of training's when it is read (``__float__``, ``__str__``, ``__fspath__``, …), and a
file may lie on a file system that hangs. In a thread of their own such calls can neither hold up whoever asks nor raise
into it, not even SystemExit or KeyboardInterrupt.
"""

import _thread
import queue
import threading
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class _Answer(Generic[T]):
    """What became of one call."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._done = threading.Lock()
        self._done.acquire()
        self._value: T | None = None
        self._fault: BaseException | None = None

    def make(self) -> None:
        """Make the call."""
        try:
            self._value = self._call()
        except BaseException as fault:  # noqa: BLE001 - in this thread nothing but the call itself raises
            self._fault = fault
        self._done.release()

    def wait(self, limit_s: float) -> bool:
        """Whether it is done within ``limit_s``."""
        if not self._done.acquire(timeout=max(0.0, limit_s)):
            return False
        self._done.release()
        return True

    def get(self) -> T:
        """What the call returned, once it is done. Raises what it raised."""
        if self._fault is not None:
            raise self._fault
        return self._value  # type: ignore[return-value]  # it has returned

    def get_or(self, otherwise: T) -> T:
        """The same; ``otherwise`` where it raised."""
        return otherwise if self._fault is not None else self.get()


def once(call: Callable[[], T], limit_s: float, otherwise: T) -> T:
    """What ``call`` returns; ``otherwise`` where it raised, or was not done within ``limit_s``.

    Safe in signal handlers: it takes no lock that the code which was interrupted may hold.
    """
    answer = _Answer(call)
    try:
        _thread.start_new_thread(answer.make, ())
    except RuntimeError:  # No more threads: the process is at its limit, or at its end.
        answer.make()
    return answer.get_or(otherwise) if answer.wait(limit_s) else otherwise


class Aside(Generic[T]):
    """A thread that makes one call at a time. It begins with the first one, for at the end of a process none can."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[_Answer[T] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._asked: _Answer[T] | None = None
        # Nobody may be left to close it.
        weakref.finalize(self, self._calls.put, None).atexit = False

    @property
    def busy(self) -> bool:
        """Whether a call that nobody waits for any more is still under way."""
        return self._asked is not None and not self._asked.wait(0.0)

    def ask(self, call: Callable[[], T], limit_s: float) -> T:
        """What ``call`` returns. Raises what it raised, TimeoutError where it was not done within ``limit_s`` or one
        before it still is not, and RuntimeError where there can be no thread."""
        if self.busy:
            raise TimeoutError
        if self._thread is None or not self._thread.is_alive():
            thread = threading.Thread(target=_work, args=(self._calls,), name=self._name, daemon=True)
            thread.start()
            self._thread = thread
        answer = self._asked = _Answer(call)
        self._calls.put(answer)
        if not answer.wait(limit_s):
            raise TimeoutError
        self._asked = None
        return answer.get()

    def close(self) -> None:
        """Let the thread end, once its call has."""
        if self._thread is not None:
            self._calls.put(None)
            self._thread = None


def _work(calls: "queue.SimpleQueue[_Answer[T] | None]") -> None:
    while (answer := calls.get()) is not None:
        answer.make()
        # It may hold what training gave us, a tensor for example.
        del answer
