"""Keeps a copy of what a process prints, for training whose log is not a file.

``sys.stdout`` and ``sys.stderr`` stay the same objects; only their ``write`` is wrapped. So ``fileno``, ``isatty``,
``encoding``, buffering and logging handlers work as before, and text is printed before it is kept. Nothing here waits,
locks or raises, and a write takes well under a microsecond longer.

Output that bypasses Python's text streams is not seen: C and C++ libraries and child processes, which write to the file
descriptor; ``sys.stdout.buffer``; and whatever is printed while ``sys.stdout`` is replaced (``redirect_stdout``).
Replacing the file descriptors by pipes would see all of it, but a full pipe would stop training. To ship everything,
give a ``log_file``, or start training with ``lastbeat exec``.
"""

import logging
import os
import sys
import threading
import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lastbeat.training.sdk.curves import emptied
from lastbeat.training.sdk.safe_log import fault_text, safe_log
from lastbeat.training.sdk.values import value_label

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_CHARS = 256 * 1024  # Most characters of printed text that are kept.
_PIECES = 65_536


class Capture:
    """The newest text that was printed and not yet taken, at most about ``2 * LIMIT_CHARS``."""

    def __init__(self) -> None:
        self._pieces: deque[str] = deque(maxlen=_PIECES)
        self._size = 0
        self._lost = False
        self._trimming = threading.Lock()
        self._undo: list[Callable[[], None]] = []
        self.on = True
        _all_captures.add(self)

    def start(self) -> "Capture":
        """Wrap the ``write`` of ``sys.stdout`` and ``sys.stderr``."""
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is None or (name == "stderr" and stream is sys.stdout):
                continue
            try:
                self._wrap(stream)
            except Exception as error:  # noqa: BLE001 - a stream may be any object that training put there
                safe_log(
                    logging.WARNING,
                    "lastbeat cannot capture sys.%s, %s: %s",
                    name,
                    value_label(stream),
                    fault_text(error),
                )
        return self

    def _wrap(self, stream: Any) -> None:
        before, own = stream.write, vars(stream).get("write")
        add = self.add

        def write(text: Any, /) -> Any:
            done = before(text)
            add(text)
            return done

        stream.write = write

        def undo() -> None:
            # If another wrapper encloses this one, this one stays and only passes text on.
            if vars(stream).get("write") is not write:
                return
            if own is None:
                del stream.write
            else:
                stream.write = own

        self._undo.append(undo)

    def add(self, text: Any) -> None:
        """Keep ``text`` if it is a str. Safe in any thread and in signal handlers."""
        if not self.on or not issubclass(type(text), str):
            return
        if type(text) is not str:
            # A subclass may override len().
            text = "".join((text,))
        if len(text) > LIMIT_CHARS:
            text, self._lost = text[-LIMIT_CHARS:], True
        self._pieces.append(text)
        # Two threads may race here and lose an addition; trimming counts again.
        self._size += len(text)
        if self._size > 2 * LIMIT_CHARS and self._trimming.acquire(blocking=False):
            try:
                self._trim()
            finally:
                self._trimming.release()

    def _trim(self) -> None:
        pieces = self._pieces
        size = sum(map(len, pieces.copy()))
        # The beat thread may take pieces meanwhile.
        with suppress(IndexError):
            while size > LIMIT_CHARS:
                self._lost = True
                size -= len(pieces.popleft())
        self._size = size

    def take(self) -> tuple[str, bool]:
        """The text since the last call, oldest first, and whether text before it was lost."""
        lost, self._lost = self._lost or len(self._pieces) == _PIECES, False
        taken = "".join(emptied(self._pieces))
        self._size = 0
        return taken, lost

    def stop(self) -> None:
        """Unwrap the streams, and drop what is kept."""
        self.on = False
        for undo in self._undo:
            undo()
        self._undo.clear()
        self._pieces.clear()


_all_captures: "weakref.WeakSet[Capture]" = weakref.WeakSet()


def _stop_in_child() -> None:
    """In a forked child nothing takes the text, so keep none."""
    for each in list(_all_captures):
        each.on = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_stop_in_child)
