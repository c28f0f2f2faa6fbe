"""What a process prints, kept in passing: for training whose log is no file.

The streams stay the very objects that they were: only their ``write`` is stood in front of, so ``fileno``, ``isatty``,
``encoding``, buffering and every logging handler that holds them go on as before, and what is printed is printed first.
Nothing here waits, locks or raises, and a write costs well under a microsecond more.

Not seen is what goes round Python's text streams: C and C++ libraries and child processes (they write to the file
descriptor), ``sys.stdout.buffer``, and whatever is printed while ``sys.stdout`` is replaced (``redirect_stdout``). A
copy of the file descriptors would see it, at the price that a full pipe stops training; to see everything give a
``log_file``, or start training with ``lastbeat exec``.
"""

import logging
import os
import sys
import threading
import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lastbeat.sdk.saying import say, why
from lastbeat.sdk.values import shown

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_CHARS = 256 * 1024
_PIECES = 65_536


class Capture:
    """What was printed and not yet taken, at most about ``2 * LIMIT_CHARS`` of it, the newest."""

    def __init__(self) -> None:
        self._pieces: deque[str] = deque(maxlen=_PIECES)
        self._size = 0
        self._lost = False
        self._trimming = threading.Lock()
        self._undo: list[Callable[[], None]] = []
        self.on = True
        _captures.add(self)

    def start(self) -> "Capture":
        """Stand before the ``write`` of ``sys.stdout`` and ``sys.stderr``."""
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is None or (name == "stderr" and stream is sys.stdout):
                continue
            try:
                self._stand_before(stream)
            except Exception as error:  # noqa: BLE001 - a stream may be any object of training's
                say(logging.WARNING, "lastbeat cannot capture sys.%s, %s: %s", name, shown(stream), why(error))
        return self

    def _stand_before(self, stream: Any) -> None:
        before, own = stream.write, vars(stream).get("write")
        add = self.add

        def write(text: Any, /) -> Any:
            done = before(text)
            add(text)
            return done

        stream.write = write

        def undo() -> None:
            # Whoever stood before us since then keeps its place, and calls a write that only passes on.
            if vars(stream).get("write") is not write:
                return
            if own is None:
                del stream.write
            else:
                stream.write = own

        self._undo.append(undo)

    def add(self, text: Any) -> None:
        """Keep ``text``, if it is one. Safe from any thread and from signal handlers."""
        if not self.on or not issubclass(type(text), str):
            return
        if type(text) is not str:
            # Whatever a subclass makes of len() must not matter here.
            text = "".join((text,))
        if len(text) > LIMIT_CHARS:
            text, self._lost = text[-LIMIT_CHARS:], True
        self._pieces.append(text)
        # Two threads may lose an addition to each other here; trimming counts anew.
        self._size += len(text)
        if self._size > 2 * LIMIT_CHARS and self._trimming.acquire(blocking=False):
            try:
                self._trim()
            finally:
                self._trimming.release()

    def _trim(self) -> None:
        pieces = self._pieces
        size = sum(map(len, pieces.copy()))
        # The beat thread may take them meanwhile.
        with suppress(IndexError):
            while size > LIMIT_CHARS:
                self._lost = True
                size -= len(pieces.popleft())
        self._size = size

    def take(self) -> tuple[str, bool]:
        """What was printed since the last time, oldest first, and whether something before it was lost."""
        lost, self._lost = self._lost or len(self._pieces) == _PIECES, False
        taken = []
        with suppress(IndexError):
            while True:
                taken.append(self._pieces.popleft())
        self._size = 0
        return "".join(taken), lost

    def stop(self) -> None:
        """Give the streams back."""
        self.on = False
        for undo in self._undo:
            undo()
        self._undo.clear()
        self._pieces.clear()


_captures: "weakref.WeakSet[Capture]" = weakref.WeakSet()


def _in_child() -> None:
    """A forked child has nobody who takes what it prints, so it keeps nothing."""
    for each in list(_captures):
        each.on = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
