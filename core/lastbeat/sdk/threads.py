"""Exceptions that end a thread of training.

A thread that dies is not training that dies: it may have been a logger's, and how the process ends decides what becomes
of the run. But it may be why training hangs, or exits with a status, an hour later. So the first one is kept as text,
and told with every heartbeat and with the end.
"""

import logging
import os
import threading
import time
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lastbeat.sdk.describing import describe
from lastbeat.sdk.saying import say
from lastbeat.sdk.values import text

if TYPE_CHECKING:
    from lastbeat.sdk.run import Run

OWN = "lastbeat"
"""How the names of our own threads begin."""
_NAME_CHARS = 60
_LINE_CHARS = 200
_TEXT_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class ThreadError:
    """What ended a thread. Not the exception itself, which would keep alive whatever its frames hold."""

    line: str
    """Thread and message, in one line."""
    text: str
    """Thread and trace, for people."""


class _Hook:
    """Stands before the hook that was there, and calls it."""

    def __init__(self, runs: "list[weakref.ref[Run]]") -> None:
        self.process = os.getpid()
        self._runs = runs
        self._before = threading.excepthook

    def __call__(self, args: threading.ExceptHookArgs, /) -> Any:
        try:
            if os.getpid() == self.process and args.exc_value is not None and not _leaves(args):
                self._note(args)
        except Exception as fault:  # noqa: BLE001 - a thread's own class may say what it likes of itself
            say(logging.DEBUG, "what ended a thread cannot be told: %s", type(fault).__name__)
        finally:
            self._before(args)

    def _note(self, args: threading.ExceptHookArgs) -> None:
        error: ThreadError | None = None
        for run in filter(None, (known() for known in self._runs)):
            if run.ended or run.thread_error is not None:
                continue
            error = error or _told(args)
            run.thread_died(error)

    def watch(self, run: "Run") -> None:
        """Tell ``run`` from now on."""
        self._runs = [known for known in self._runs if (one := known()) is not None and not one.ended]
        self._runs.append(weakref.ref(run))

    def again(self) -> "_Hook":
        """The same before whatever hook is there now; in a forked child without the runs, which are not its own."""
        return _Hook(self._runs if os.getpid() == self.process else [])


def _leaves(args: threading.ExceptHookArgs) -> bool:
    """Whether the thread only asked for its own end, or is none of training's."""
    return issubclass(args.exc_type, SystemExit) or _name(args).startswith(OWN)


def _told(args: threading.ExceptHookArgs) -> ThreadError:
    name, told = _name(args), describe(args.exc_value)
    line = " ".join(f"{name}: {told.partition(chr(10))[0]}".split())[:_LINE_CHARS]
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return ThreadError(line, f"Thread {name} of this process ended with an exception at {at}:\n{told[:_TEXT_CHARS]}")


def _name(args: threading.ExceptHookArgs) -> str:
    return (text(args.thread.name) or "")[:_NAME_CHARS] if args.thread is not None else "of unknown name"


_hook: _Hook | None = None


def watch_threads(run: "Run") -> None:
    """Have ``run`` know the first exception that ends one of this process's threads from now on."""
    global _hook  # noqa: PLW0603 - a process has one such hook
    # Where Python's own is back, somebody has thrown ours away. Otherwise it may be part of somebody's chain.
    if _hook is None or _hook.process != os.getpid() or threading.excepthook is threading.__excepthook__:
        _hook = _Hook([]) if _hook is None else _hook.again()
        threading.excepthook = _hook
    _hook.watch(run)
