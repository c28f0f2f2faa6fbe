"""Makes calls that may hang or raise anything in another thread, with a time limit.

Reading a value from training runs training's code (``__float__``, ``__str__``, ``__fspath__``, …), and a file may
lie on a file system that hangs. In a thread of its own, such a call can neither block its caller nor raise into it, not
even SystemExit or KeyboardInterrupt.
"""

import _thread
import queue
import threading
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class _Call(Generic[T]):
    """One call and its result."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._done = threading.Lock()
        self._done.acquire()
        self._value: T | None = None
        self.fault: BaseException | None = None

    def make(self) -> None:
        try:
            self._value = self._call()
        except BaseException as fault:  # noqa: BLE001 - in this thread nothing but the call itself raises
            self.fault = fault
        self._done.release()

    def wait(self, limit_s: float) -> bool:
        """Wait for the call up to ``limit_s``. Returns whether it is done."""
        if not self._done.acquire(timeout=max(0.0, limit_s)):
            return False
        self._done.release()
        return True

    def result(self) -> T:
        """The result of the call, once it is done. Raises what the call raised."""
        if self.fault is not None:
            raise self.fault
        return self._value  # type: ignore[return-value]  # it has returned


def call_with_timeout(call: Callable[[], T], limit_s: float, default: T) -> T:
    """The result of ``call``; ``default`` if it raised or did not return within ``limit_s``.

    Safe in signal handlers: takes no lock that the interrupted code may hold.
    """
    made = _Call(call)
    try:
        _thread.start_new_thread(made.make, ())
    except RuntimeError:  # No thread can start: the process is at its limit, or ends.
        made.make()
    return made.result() if made.wait(limit_s) and made.fault is None else default


class CallThread(Generic[T]):
    """A thread that makes one call at a time. It starts with the first call, because none can start at exit."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[_Call[T] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pending: _Call[T] | None = None
        # An owner may be dropped without closing it.
        weakref.finalize(self, self._calls.put, None).atexit = False

    @property
    def busy(self) -> bool:
        """Whether a call that timed out is still running."""
        return self._pending is not None and not self._pending.wait(0.0)

    def call(self, call: Callable[[], T], limit_s: float) -> T:
        """The result of ``call``.

        Raises what it raised. Raises TimeoutError if it did not return within ``limit_s``, or an earlier call still
        runs, and RuntimeError if no thread can be started.
        """
        if self.busy:
            raise TimeoutError
        if self._thread is None or not self._thread.is_alive():
            thread = threading.Thread(target=_work, args=(self._calls,), name=self._name, daemon=True)
            thread.start()
            self._thread = thread
        made = self._pending = _Call(call)
        self._calls.put(made)
        if not made.wait(limit_s):
            raise TimeoutError
        self._pending = None
        return made.result()

    def close(self) -> None:
        """Let the thread end after its current call."""
        if self._thread is not None:
            self._calls.put(None)
            self._thread = None


def _work(calls: "queue.SimpleQueue[_Call[T] | None]") -> None:
    while (made := calls.get()) is not None:
        made.make()
        # It may hold one of training's tensors.
        del made
