"""Passes one output stream of a child on, byte by byte as it comes, and shows each chunk to an observer."""

import errno
import fcntl
import logging
import os
import select
import sys
import termios
import threading
import time
from collections.abc import Callable

from lastbeat.training.exec.child.descriptors import pipe

log = logging.getLogger("lastbeat")

_CHUNK_BYTES = 64 * 1024


class OutputPump(threading.Thread):
    """Reads ``source`` and writes to ``target`` until the source ends.

    A slow reader of ``target`` slows the child down, as it would without us. When that reader goes away, the source is
    closed, so the child gets the SIGPIPE that it would have got. After :meth:`child_exited` the child's remaining
    output is still passed on, and descendants that hold the source open may write for ``grace_s`` more.
    """

    def __init__(self, source: int, target: int, observe: Callable[[bytes], None], *, grace_s: float = 2.0) -> None:
        super().__init__(name=f"lastbeat-output-{target}", daemon=True)
        self._source = source
        self._target = target
        self._observe = observe
        self._grace_s = grace_s
        self._wake_read, self._wake_write = pipe()
        self._exited_at: float | None = None
        self._remaining: int | None = None
        """Upper bound of the bytes that the child left behind when it exited."""
        self._dropping = False
        self.drained = threading.Event()
        """Set once everything that the child wrote before its exit has been passed on."""

    def child_exited(self) -> None:
        """Note the child's death. Call this once all of its output is in the source."""
        self._exited_at = time.monotonic()
        os.write(self._wake_write, b"\0")

    def run(self) -> None:
        """Pass output on until the source ends or the grace time is over."""
        try:
            while chunk := self._next():
                self._observe(chunk)
                if not self._pass_on(chunk):
                    break
        finally:
            self.drained.set()
            os.close(self._source)

    def _next(self) -> bytes:
        """The next chunk; empty at the end.

        1. While the child runs, wait for output or for :meth:`child_exited`.
        2. After its exit, ask how many bytes the source still holds: some may have come just before the exit.
        3. Once those are read, only descendants can write: report ``drained``, and stop after ``grace_s``.
        """
        ready = select.poll()
        ready.register(self._source, select.POLLIN | select.POLLHUP)
        ready.register(self._wake_read, select.POLLIN)
        while True:
            readable = {descriptor for descriptor, _ in ready.poll(self._timeout_ms())}
            if self._exited_at is None:
                if self._source in readable:
                    return self._read()
                continue
            if self._remaining is None:
                ready.unregister(self._wake_read)
                self._remaining = _readable_bytes(self._source)
                continue
            if self._remaining <= 0 or self._source not in readable:
                self.drained.set()
                if time.monotonic() - self._exited_at >= self._grace_s:
                    return b""
            if self._source in readable:
                return self._read()

    def _timeout_ms(self) -> float | None:
        if self._exited_at is None:
            return None
        if not self.drained.is_set():
            return 0
        return max(0.0, self._exited_at + self._grace_s - time.monotonic()) * 1000 + 1

    def _read(self) -> bytes:
        try:
            chunk = os.read(self._source, _CHUNK_BYTES)
        except OSError as error:
            if error.errno == errno.EIO:
                # The end of file of a pseudo-terminal: no process holds its other end any more.
                return b""
            raise
        if self._remaining is not None:
            self._remaining -= len(chunk)
        return chunk

    def _pass_on(self, chunk: bytes) -> bool:
        """Write all of ``chunk``. Returns False if its reader is gone."""
        rest = memoryview(chunk)
        while rest:
            written = self._write(rest)
            if written is None:
                return False
            rest = rest[written:]
        return True

    def _write(self, data: memoryview) -> int | None:
        """Number of bytes that were written or dropped; None if the reader went away."""
        try:
            written = os.write(self._target, data)
        except BlockingIOError:
            # Another process that shares this descriptor made it non-blocking.
            select.select([], [self._target], [])
            return 0
        except BrokenPipeError:
            return None
        except OSError as error:
            # A full disk, or a terminal that is gone. Neither may end training.
            if not self._dropping:
                log.warning("lastbeat cannot pass output on and drops it: %s", error.strerror)
            self._dropping = True
            return len(data)
        self._dropping = False
        return written


def _readable_bytes(source: int) -> int:
    """Upper bound of the bytes that ``source`` holds now."""
    if os.isatty(source):
        # FIONREAD on a terminal reports less than it holds.
        return _CHUNK_BYTES
    return int.from_bytes(fcntl.ioctl(source, termios.FIONREAD, bytes(4)), sys.byteorder)
