"""Reading many documents at once, from a bounded number of threads that end with the reading."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from lastbeat.model import runid
from lastbeat.model.heartbeat import DOCUMENT_LIMIT_BYTES
from lastbeat.stores.port import Blob, Store, StoreError
from lastbeat.views.known_run import DocumentRequest
from lastbeat.watch.observe.run import ERROR_LIMIT_BYTES
from lastbeat.watch.record.codec import RECORD_LIMIT_BYTES

_IN_A_ROW: Final = 3
"""Reads in a row without an answer after which the store counts as unreachable."""
_LIMITS: Final = {runid.RECORD: RECORD_LIMIT_BYTES, runid.ERROR: ERROR_LIMIT_BYTES}


@dataclass
class Fetching:
    """Reads ``requests`` until ``until`` (``time.monotonic()``), or until the store does not answer any more.

    ``take`` gets each answer, and ``refuse`` why there is none; both in the thread that read.
    """

    store: Store
    threads: int
    take: Callable[[DocumentRequest, Blob | None], None]
    refuse: Callable[[DocumentRequest, StoreError], None]
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
        with ThreadPoolExecutor(threads, "lastbeat-look") as pool:
            try:
                for done, _ in enumerate(pool.map(self._one, requests), 1):
                    _tell(on_progress, done, len(requests))
            finally:
                # Whatever ended this, Ctrl-C perhaps: nothing that waits is begun any more.
                self._over = True

    @property
    def _ended(self) -> bool:
        return self._over or self.trouble is not None or time.monotonic() >= self.until

    def _one(self, request: DocumentRequest) -> None:
        if self._ended:
            return
        with self._lock:
            self.asked += 1
        entry, limit = request.entry, _LIMITS.get(request.name, DOCUMENT_LIMIT_BYTES)
        try:
            if entry.size_bytes:
                blob = self.store.read(entry.key, limit)
            else:
                blob = Blob(b"", 0, entry.modified, entry.version)
        except StoreError as error:
            self.refuse(request, error)
            self._note(error)
            return
        self.take(request, blob)
        self._note(None)

    def _note(self, error: StoreError | None) -> None:
        with self._lock:
            if error is None or not error.retryable:
                self._failed = 0
                return
            self._failed += 1
            if self._failed >= _IN_A_ROW:
                self.trouble = error


def _tell(on_progress: Callable[[int, int], None] | None, done: int, total: int) -> None:
    if on_progress is not None:
        on_progress(done, total)
