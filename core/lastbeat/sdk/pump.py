"""One stream of a child's output, passed on byte by byte as it comes, and looked at in passing."""

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

from lastbeat.sdk.descriptors import pipe

log = logging.getLogger("lastbeat")

_CHUNK_BYTES = 64 * 1024


class Pump(threading.Thread):
    """Reads ``source`` and writes to ``target`` until the source ends.

    A slow reader of ``target`` slows the child down, as it would without us; when that reader goes away the source is
    closed, so that the child gets the SIGPIPE that it would have got. After :meth:`child_died` what the child left in
    the source is still passed on; descendants of it that hold the source open are listened to for ``grace_s`` more.
    """

    def __init__(self, source: int, target: int, look: Callable[[bytes], None], *, grace_s: float = 2.0) -> None:
        super().__init__(name=f"lastbeat-output-{target}", daemon=True)
        self._source = source
        self._target = target
        self._look = look
        self._grace_s = grace_s
        self._woken, self._wake = pipe()
        self._died_at: float | None = None
        self._left: int | None = None
        """Bytes that the child may have left behind when it died."""
        self._losing = False
        self.drained = threading.Event()
        """Set once all that the child wrote before it died has been passed on."""

    def child_died(self) -> None:
        """Everything that the child ever wrote is in the source by now."""
        self._died_at = time.monotonic()
        os.write(self._wake, b"\0")

    def run(self) -> None:
        """Pass on until the end of the source, or of the grace."""
        try:
            while chunk := self._next():
                self._look(chunk)
                if not self._pass_on(chunk):
                    break
        finally:
            self.drained.set()
            os.close(self._source)

    def _next(self) -> bytes:
        """What comes next; empty at the end."""
        ready = select.poll()
        ready.register(self._source, select.POLLIN | select.POLLHUP)
        ready.register(self._woken, select.POLLIN)
        while True:
            found = {descriptor for descriptor, _ in ready.poll(self._patience_ms())}
            if self._died_at is None:
                if self._source in found:
                    return self._read()
                continue
            if self._left is None:
                # Asked again: it may have been written to just before the death that we now know of.
                ready.unregister(self._woken)
                self._left = _waiting(self._source)
                continue
            if self._left <= 0 or self._source not in found:
                # Nothing of the child's is left; from now on only descendants can write.
                self.drained.set()
                if time.monotonic() - self._died_at >= self._grace_s:
                    return b""
            if self._source in found:
                return self._read()

    def _patience_ms(self) -> float | None:
        if self._died_at is None:
            return None
        if not self.drained.is_set():
            return 0
        return max(0.0, self._died_at + self._grace_s - time.monotonic()) * 1000 + 1

    def _read(self) -> bytes:
        try:
            chunk = os.read(self._source, _CHUNK_BYTES)
        except OSError as error:
            if error.errno == errno.EIO:
                # How a pseudo-terminal says that nobody holds its other side any more.
                return b""
            raise
        if self._left is not None:
            self._left -= len(chunk)
        return chunk

    def _pass_on(self, chunk: bytes) -> bool:
        """Write all of ``chunk``; whether anybody still reads."""
        rest = memoryview(chunk)
        while rest:
            written = self._write(rest)
            if written is None:
                return False
            rest = rest[written:]
        return True

    def _write(self, data: memoryview) -> int | None:
        """How many bytes are done with; None when the reader went away."""
        try:
            written = os.write(self._target, data)
        except BlockingIOError:
            # Whoever shares this descriptor made it so.
            select.select([], [self._target], [])
            return 0
        except BrokenPipeError:
            return None
        except OSError as error:
            # A full disk, a terminal that is gone. Training must not end for that.
            if not self._losing:
                log.warning("lastbeat cannot pass output on, and drops it: %s", error.strerror)
            self._losing = True
            return len(data)
        self._losing = False
        return written


def _waiting(source: int) -> int:
    """How many bytes can be read from ``source`` by now, at most."""
    if os.isatty(source):
        # A terminal says less than it holds.
        return _CHUNK_BYTES
    return int.from_bytes(fcntl.ioctl(source, termios.FIONREAD, bytes(4)), sys.byteorder)
