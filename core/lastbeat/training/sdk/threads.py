"""The threads of this process: their frames, forks that wait for lastbeat's own, and exceptions that end training's.

A child forked in the middle of an import inherits the module's lock from a thread that it does not have. If it imports
that module too, it waits for ever: a DataLoader worker would hang. The same holds for the buffer of a stream that a
line is being written to, which Python flushes when the child ends. So a fork waits for the beat thread's imports, which
happen only when a run begins, and for its log lines. Both take milliseconds.

Training may survive a dead thread, such as a logger's, and the end of the process decides the outcome of the run. But
the dead thread may be why training hangs, or exits with a status, an hour later. So the first such exception is kept as
text, and reported with every heartbeat and with the end.
"""

import gc
import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from lastbeat.training.sdk.safe_log import safe_log
from lastbeat.training.sdk.values import as_text, error_text

if TYPE_CHECKING:
    from lastbeat.training.sdk.run import Run


def current_frames() -> dict[int, FrameType]:
    """Thread ident → its innermost frame. For this thread, the caller's frame.

    ``sys._current_frames`` holds a lock of the interpreter while it allocates. A garbage collection in that moment may
    drop a ``threading.local``, which waits for the same lock with the GIL held: the process would hang for good
    (gh-106883; Python 3.11.7 still does). So no collection runs meanwhile.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        frames = sys._current_frames()  # noqa: SLF001 - it has no other name, and is documented
    finally:
        if collects:
            gc.enable()
    frames[threading.get_ident()] = sys._getframe(1)  # noqa: SLF001 - likewise
    return frames


_FORK_WAIT_S = 0.5
_UNSAFE = ("<frozen importlib._bootstrap>", logging.__file__)
"""Files of the code that holds such locks."""
_threads: "list[threading.Thread]" = []


def start_thread(name: str, work: Callable[..., object], *args: object) -> threading.Thread | None:
    """Do ``work`` in a daemon thread. None if no thread can start: the process is at its limit, or ends.

    Every fork of this process waits while the thread imports or logs, for ``_FORK_WAIT_S`` at most.
    """
    if not _threads and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_wait)
    thread = threading.Thread(target=work, args=args, name=name, daemon=True)
    _threads[:] = [*(each for each in _threads if each.is_alive()), thread]
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread


def _wait() -> None:
    deadline = time.monotonic() + _FORK_WAIT_S
    while _unsafe() and time.monotonic() < deadline:
        time.sleep(0.0005)


def _unsafe() -> bool:
    frames = current_frames()
    return any(_holds_locks(frames.get(thread.ident or 0)) for thread in _threads)


def _holds_locks(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename in _UNSAFE:
            return True
        frame = frame.f_back
    return False


OWN_THREADS = "lastbeat"
"""Prefix of the names of lastbeat's own threads."""
_NAME_CHARS = 60
_LINE_CHARS = 200
_TEXT_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class ThreadError:
    """The exception that ended a thread, as text. The exception itself would keep the objects in its frames alive."""

    line: str
    """Thread and message on one line."""
    text: str
    """Thread and traceback."""


class _ExceptHook:
    """Stands in for ``threading.excepthook``, and calls the hook that it replaces."""

    def __init__(self, runs: "list[weakref.ref[Run]]") -> None:
        self.pid = os.getpid()
        self._runs = runs
        self._before = threading.excepthook

    def __call__(self, args: threading.ExceptHookArgs, /) -> Any:
        try:
            if os.getpid() == self.pid and args.exc_value is not None and not _is_ignored(args):
                self._report(args)
        except Exception as fault:  # noqa: BLE001 - training's own thread class may raise when asked for its name
            safe_log(logging.DEBUG, "the exception of a thread cannot be reported: %s", type(fault).__name__)
        finally:
            self._before(args)

    def _report(self, args: threading.ExceptHookArgs) -> None:
        error: ThreadError | None = None
        for run in filter(None, (reference() for reference in self._runs)):
            if run.ended or run.thread_error is not None:
                continue
            error = error or _thread_error(args)
            run.thread_died(error)

    def watch(self, run: "Run") -> None:
        """Report to ``run`` too from now on."""
        self._runs = [reference for reference in self._runs if (known := reference()) is not None and not known.ended]
        self._runs.append(weakref.ref(run))

    def reinstalled(self) -> "_ExceptHook":
        """A new hook for the same runs, in front of the present hook. A forked child drops the runs, which belong to
        its parent."""
        return _ExceptHook(self._runs if os.getpid() == self.pid else [])


def _is_ignored(args: threading.ExceptHookArgs) -> bool:
    """Whether the thread only asked for its own end, or is one of lastbeat's."""
    return issubclass(args.exc_type, SystemExit) or _name(args).startswith(OWN_THREADS)


def _thread_error(args: threading.ExceptHookArgs) -> ThreadError:
    name, trace = _name(args), error_text(args.exc_value)
    line = " ".join(f"{name}: {trace.partition(chr(10))[0]}".split())[:_LINE_CHARS]
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return ThreadError(line, f"Thread {name} of this process ended with an exception at {at}:\n{trace[:_TEXT_CHARS]}")


def _name(args: threading.ExceptHookArgs) -> str:
    return (as_text(args.thread.name) or "")[:_NAME_CHARS] if args.thread is not None else "of unknown name"


_hook: _ExceptHook | None = None


def watch_threads(run: "Run") -> None:
    """Report to ``run`` the first exception that ends one of this process's threads from now on."""
    global _hook  # noqa: PLW0603 - a process has one such hook
    # If Python's own hook is back, other code has removed this one. Otherwise this one may be part of a chain, and
    # stays.
    if _hook is None or _hook.pid != os.getpid() or threading.excepthook is threading.__excepthook__:
        _hook = _ExceptHook([]) if _hook is None else _hook.reinstalled()
        threading.excepthook = _hook
    _hook.watch(run)
