"""The latest part of the training log, shipped with every beat that finds it changed."""

import codecs
import logging
import os
import stat
from collections import deque
from pathlib import Path
from typing import Protocol

from lastbeat.model import runid
from lastbeat.model.secrets import mask_tokens
from lastbeat.stores.timed_calls import CallThread, call_with_timeout
from lastbeat.training.sdk.beat_tasks import Beat, BeatTask
from lastbeat.training.sdk.capture import Capture
from lastbeat.training.sdk.safe_log import safe_log
from lastbeat.training.sdk.values import value_label

LIMIT_BYTES = 256 * 1024
LIMIT_S = 2.0
"""Time limit in s for a beat to read the log, and for a start to resolve its path. The file system may hang."""
_CHUNK_BYTES = 64 * 1024
_LINE_LIMIT_CHARS = 16 * 1024
_SHOWN_LIMIT_CHARS = 8 * 1024
_LONGEST_SECRET_CHARS = 4096


class LogWindow:
    """The last ``limit_bytes`` of a log as it may leave the machine: whole lines, secrets masked, progress bars folded.

    Each line is masked once, at its end, because masking holds the interpreter lock and so delays training.
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._open = ""
        """The text after the last newline."""
        self._open_before = ""
        self._cut = False

    def skip(self) -> None:
        """Note that text is missing here. The next line is dropped, because it may begin in the middle of a secret."""
        self._open, self._cut = "", True

    def break_line(self) -> None:
        """End the line: the next text comes from another file."""
        if self._open and not self._cut:
            self._add(self._open)
        self._open, self._cut = "", False

    def feed(self, text: str) -> None:
        """Add more of the log."""
        if self._cut and text:
            self._cut = False
            _, newline, after = text.partition("\n")
            text = after if newline else text[_LONGEST_SECRET_CHARS:]
        *ended, rest = text.split("\n")
        for line in ended:
            self._add(_truncated(self._open + line))
            self._open = ""
        self._open = _truncated(self._open + rest)

    def _add(self, line: str) -> None:
        self._lines.append(_shippable(line) + b"\n")
        self._size += len(self._lines[-1])
        while self._size > self._limit:
            self._size -= len(self._lines.popleft())

    def content(self, *, ending: bool = False) -> bytes:
        """The window as UTF-8.

        A line without its end is included only at the end of the run, or if it has not grown since the last call:
        otherwise it may be cut in the middle of a secret. For a progress bar, its previous state is included.
        """
        line, before = self._open, self._open_before
        self._open_before = line
        if not ending and line != before:
            line = line.rpartition("\r")[0]
        tail = _shippable(line) if line else b""
        size = self._size + len(tail)
        lines = list(self._lines)
        start = 0
        while size > self._limit and start < len(lines):
            size -= len(lines[start])
            start += 1
        return b"".join((*lines[start:], tail))


def _truncated(line: str) -> str:
    """An unfinished line of bounded length, with the last two states of a progress bar."""
    if "\r" not in line:
        return line[:_LINE_LIMIT_CHARS]
    before, _, now = line.rpartition("\r")
    return _as_displayed(before)[:_LINE_LIMIT_CHARS] + "\r" + now[:_LINE_LIMIT_CHARS]


def _as_displayed(line: str) -> str:
    """The line as a terminal would show it."""
    return line.rstrip("\r").rpartition("\r")[2]


def _shippable(line: str) -> bytes:
    masked = mask_tokens(_as_displayed(line))
    if len(masked) > _SHOWN_LIMIT_CHARS:
        masked = masked[:_SHOWN_LIMIT_CHARS] + "…"
    return masked.encode("utf-8", "replace")


class LogFeed(Protocol):
    """A source of log text."""

    def read_into(self, window: LogWindow) -> None:
        """Feed new text into ``window``. Raises OSError if it cannot be read."""

    def close(self) -> None:
        """Release all resources: the run is over."""


class FileFeed:
    """A log file: appended to, truncated, rotated, or not there yet."""

    def __init__(self, path: Path) -> None:
        # Training may change its current directory later.
        self.path = path.absolute()
        self._file: tuple[int, int] | None = None
        """Device and inode."""
        self._offset = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read_into(self, window: LogWindow) -> None:
        # Non-blocking, because opening a FIFO would wait for its writer.
        try:
            file = os.open(self.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        except FileNotFoundError:
            return
        try:
            self._read(file, window)
        finally:
            os.close(file)

    def _read(self, file: int, window: LogWindow) -> None:
        """Feed what was appended since the last time.

        1. Refuse anything but a regular file.
        2. If this is another file than before, or it has shrunk, start at its beginning.
        3. If more was appended than the window holds, skip to its last part. One byte more than the window tells
           whether a line begins right there.
        4. Feed the rest in chunks, up to the size that the file had in step 1.
        """
        known = os.fstat(file)
        if not stat.S_ISREG(known.st_mode):
            raise OSError(f"log_file={str(self.path)!r} is not a regular file; give the file that training logs to")
        if self._file != (known.st_dev, known.st_ino) or known.st_size < self._offset:
            window.break_line()
            self._file, self._offset = (known.st_dev, known.st_ino), 0
            self._decoder.reset()
        if known.st_size - self._offset > LIMIT_BYTES + 1:
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
            safe_log(logging.WARNING, what, str(self.path))


class CaptureFeed:
    """The output of this process; see :mod:`lastbeat.training.sdk.capture`."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture

    def read_into(self, window: LogWindow) -> None:
        text, lost = self._capture.take()
        if lost:
            window.skip()
        window.feed(text)

    def close(self) -> None:
        self._capture.stop()


class LogShipping(BeatTask):
    """Ships the last ``LIMIT_BYTES`` of ``feed``."""

    purpose = "ship the training log"

    def __init__(self, feed: LogFeed, *, limit_s: float = LIMIT_S) -> None:
        self._feed = feed
        self._limit_s = limit_s
        self._thread: CallThread[None] = CallThread("lastbeat-log")
        self._window = LogWindow()
        self._shipped: bytes | None = None

    def write(self, beat: Beat) -> None:
        try:
            self._read()
        finally:
            # What was read before a fault is shipped as well. But while the feed hangs, its thread uses the window.
            if not self._thread.busy:
                self._ship(beat, self._window.content(ending=beat.ending is not None))

    def _read(self) -> None:
        try:
            self._thread.call(lambda: self._feed.read_into(self._window), self._limit_s)
        except TimeoutError:
            raise OSError(f"it could not be read within {self._limit_s:g} s; its file system may hang") from None
        except RuntimeError:
            # No thread can start: the process is at its limit, or ends.
            self._feed.read_into(self._window)

    def _ship(self, beat: Beat, content: bytes) -> None:
        key = beat.folder + runid.LOG
        if content and content != self._shipped:
            beat.store.write(key, content)
            self._shipped = content
        elif self._shipped is None:
            # Delete an earlier attempt's log. Try once, because not every policy lets training delete.
            self._shipped = b""
            beat.store.delete(key)

    def close(self) -> None:
        self._thread.close()
        self._feed.close()


def log_tasks(log_file: object, *, capture: bool) -> tuple[LogShipping, ...]:
    """The beat task that ships the log, or none if neither is asked for. Never raises."""
    if log_file is not None:
        if capture:
            safe_log(logging.WARNING, "lastbeat ships one log: log_file, and not what capture would add")
        path = call_with_timeout(lambda: Path(os.fsdecode(log_file)).absolute(), LIMIT_S, None)  # type: ignore[arg-type]
        if path is None:
            safe_log(logging.WARNING, "lastbeat ships no log: log_file=%s is not a path", value_label(log_file))
            return ()
        return (LogShipping(FileFeed(path)),)
    return (LogShipping(CaptureFeed(Capture().start())),) if capture else ()
