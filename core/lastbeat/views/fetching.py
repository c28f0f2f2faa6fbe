"""Reading many documents at once, from a bounded number of threads that end with the reading."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from lastbeat.stores.port import Blob, Store, StoreError
from lastbeat.views.judging import LIMITS
from lastbeat.views.known_run import DocumentRequest

_IN_A_ROW: Final = 3
"""Reads in a row without an answer after which the store counts as unreachable."""
_TASK_MOST: Final = 16
"""Most documents that one task of a thread reads, one after another."""
Answer = Blob | StoreError | None
"""The content of a document, or why it cannot be read; None: it is gone."""


@dataclass
class Fetching:
    """Reads documents until ``until`` (``time.monotonic()``), or until the store does not answer any more. ``take``
    gets each answer, in the thread that read it."""

    store: Store
    threads: int
    take: Callable[[DocumentRequest, Answer], None]
    until: float = float("inf")
    asked: int = 0
    trouble: StoreError | None = None
    """Why the store does not answer."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _failed: int = 0
    _over: bool = False

    def fetch(self, requests: Sequence[DocumentRequest], on_progress: Callable[[int, int], None] | None = None) -> None:
        """All of ``requests``, in their order as far as threads keep one."""
        threads = min(self.threads, len(requests))
        if threads < 2:
            for done, request in enumerate(requests, 1):
                self._one(request)
                _tell(on_progress, done, len(requests))
            return
        # Of thousands, several a task: a task of its own would cost more than to read a small file.
        size = min(_TASK_MOST, max(1, len(requests) // (threads * 8)))
        tasks = [requests[start : start + size] for start in range(0, len(requests), size)]
        with ThreadPoolExecutor(threads, "lastbeat-look") as pool:
            try:
                for done, _ in enumerate(pool.map(self._some, tasks), 1):
                    _tell(on_progress, min(done * size, len(requests)), len(requests))
            finally:
                # Whatever ended this, Ctrl-C perhaps: nothing that waits is begun any more.
                self._over = True

    @property
    def _ended(self) -> bool:
        return self._over or self.trouble is not None or time.monotonic() >= self.until

    def _some(self, requests: Sequence[DocumentRequest]) -> None:
        for request in requests:
            self._one(request)

    def _one(self, request: DocumentRequest) -> None:
        if self._ended:
            return
        with self._lock:
            self.asked += 1
        answer = self._read(request)
        self.take(request, answer)
        with self._lock:
            self._failed = self._failed + 1 if isinstance(answer, StoreError) and answer.retryable else 0
            if isinstance(answer, StoreError) and self._failed >= _IN_A_ROW:
                self.trouble = answer

    def _read(self, request: DocumentRequest) -> Answer:
        entry = request.entry
        if not entry.size_bytes:
            return Blob(b"", 0, entry.modified, entry.version)
        try:
            return self.store.read(entry.key, LIMITS[request.name])
        except StoreError as error:
            return error


def _tell(on_progress: Callable[[int, int], None] | None, done: int, total: int) -> None:
    if on_progress is not None:
        on_progress(done, total)
