"""The latest part of the training log, shipped with every beat that finds it changed."""

import codecs
import logging
import os
import stat
from pathlib import Path
from typing import Protocol

from lastbeat.model import runid
from lastbeat.sdk.aside import Aside, once
from lastbeat.sdk.capture import Capture
from lastbeat.sdk.extra import Beat
from lastbeat.sdk.saying import say
from lastbeat.sdk.values import shown
from lastbeat.sdk.window import LIMIT_BYTES, Window

_CHUNK_BYTES = 64 * 1024
LIMIT_S = 2.0
"""How long a beat waits for the source, and a start for the name of its file: either may lie on a file system that
hangs."""


class Source(Protocol):
    """Where the log comes from."""

    def read_into(self, window: Window) -> None:
        """Feed what is new. Raises OSError where it cannot be read."""
        ...

    def close(self) -> None:
        """The run is over."""
        ...


class LogFile:
    """A file that training, or whoever started it, writes: appended to, truncated, rotated, or not there yet."""

    def __init__(self, path: Path) -> None:
        # Training may change its folder later.
        self.path = path.absolute()
        self._file: tuple[int, int] | None = None
        self._offset = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read_into(self, window: Window) -> None:
        # A FIFO would hold up whoever opens it, and be emptied by whoever reads it.
        try:
            file = os.open(self.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        except FileNotFoundError:
            return
        try:
            self._read(file, window)
        finally:
            os.close(file)

    def _read(self, file: int, window: Window) -> None:
        known = os.fstat(file)
        if not stat.S_ISREG(known.st_mode):
            raise OSError(f"log_file={str(self.path)!r} is no regular file; give the file that training logs to")
        if self._file != (known.st_dev, known.st_ino) or known.st_size < self._offset:
            # The first time, rotated, or truncated.
            window.break_line()
            self._file, self._offset = (known.st_dev, known.st_ino), 0
            self._decoder.reset()
        if known.st_size - self._offset > LIMIT_BYTES + 1:
            # One more, which is the end of the line before if a line begins there.
            self._offset = known.st_size - LIMIT_BYTES - 1
            self._decoder.reset()
            window.skip()
        os.lseek(file, self._offset, os.SEEK_SET)
        while self._offset < known.st_size:
            chunk = os.read(file, min(_CHUNK_BYTES, known.st_size - self._offset))
            if not chunk:
                break
            self._offset += len(chunk)
            window.feed(self._decoder.decode(chunk))

    def close(self) -> None:
        if self._file is None:
            what = "lastbeat found no log_file=%r to ship; give the file that training logs to"
            say(logging.WARNING, what, str(self.path))


class Printed:
    """What this process prints; see :mod:`lastbeat.sdk.capture`."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture

    def read_into(self, window: Window) -> None:
        text, lost = self._capture.take()
        if lost:
            window.skip()
        window.feed(text)

    def close(self) -> None:
        self._capture.stop()


class TrainingLog:
    """Extra: ships the last 256 KB of ``source``."""

    def __init__(self, source: Source, *, limit_s: float = LIMIT_S) -> None:
        self._source = source
        self._limit_s = limit_s
        self._aside: Aside[None] = Aside("lastbeat-log")
        self._window = Window()
        self._shipped: bytes | None = None

    def write(self, beat: Beat) -> None:
        try:
            self._read()
        finally:
            # Also what was read before the source failed; not while it is still being read.
            if not self._aside.busy:
                self._ship(beat, self._window.shown(ending=beat.ending is not None))

    def _read(self) -> None:
        try:
            self._aside.ask(lambda: self._source.read_into(self._window), self._limit_s)
        except TimeoutError:
            raise OSError(f"the log could not be read within {self._limit_s:g} s; its file system may hang") from None
        except RuntimeError:
            # No more threads: the process is at its limit, or at its end.
            self._source.read_into(self._window)

    def _ship(self, beat: Beat, latest: bytes) -> None:
        key = beat.folder + runid.LOG
        if latest and latest != self._shipped:
            beat.store.write(key, latest)
            self._shipped = latest
        elif self._shipped is None:
            # An earlier attempt's log says nothing about this one. One try, for not every policy lets training delete.
            self._shipped = b""
            beat.store.delete(key)

    def close(self) -> None:
        self._aside.close()
        self._source.close()


def training_log(log_file: object, *, capture: bool) -> tuple[TrainingLog, ...]:
    """What ships the log, to be given to the reporter; nothing where neither is wanted. Never raises."""
    if log_file is not None:
        if capture:
            say(logging.WARNING, "lastbeat ships one log: that of log_file, and not what is captured")
        path = once(lambda: Path(os.fsdecode(log_file)).absolute(), LIMIT_S, None)  # type: ignore[arg-type]
        if path is None:
            say(logging.WARNING, "lastbeat ships no log: log_file=%s is no path", shown(log_file))
            return ()
        return (TrainingLog(LogFile(path)),)
    return (TrainingLog(Printed(Capture().start())),) if capture else ()
