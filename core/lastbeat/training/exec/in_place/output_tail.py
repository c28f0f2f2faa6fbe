"""Keeps the tail of a command's output, to find the cause of its end."""

import threading
from collections import deque
from typing import Final

LIMIT_BYTES: Final = 1 << 20


class OutputTail:
    """The tail of the output, of about ``limit_bytes`` at most. Safe to use from two threads."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._lock = threading.Lock()

    def add(self, chunk: bytes) -> None:
        """Add output."""
        with self._lock:
            self._chunks.append(chunk)
            self._size += len(chunk)
            while self._size > self._limit and len(self._chunks) > 1:
                self._size -= len(self._chunks.popleft())

    def text(self) -> bytes:
        """The kept tail."""
        with self._lock:
            return b"".join(self._chunks)[-self._limit :]
