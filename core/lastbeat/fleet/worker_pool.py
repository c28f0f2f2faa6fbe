"""Threads that work on many runs at once, so that a slow run delays no other."""

import logging
import queue
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

THREADS = 16
_WAITING = 256
_IDLE_S = 5.0


class WorkerPool:
    """Does one task per run at a time. A task that does not end in time goes on in its thread, and its run gets no
    other until it has ended."""

    def __init__(self, threads: int = THREADS) -> None:
        self._threads = threads
        self._tasks: queue.Queue[tuple[str, Callable[[], None]]] = queue.Queue(_WAITING)
        self._changed = threading.Condition()
        self._open: set[str] = set()
        self._idle = 0
        self._running = 0

    def is_busy(self, run_id: str) -> bool:
        """Whether a task of the run has not ended."""
        with self._changed:
            return run_id in self._open

    def submit(self, run_id: str, task: Callable[[], None], until: float) -> bool | None:
        """Queue ``task``. Returns True if it was queued, None if the run is busy with an earlier task, and False if the
        queue was full until ``until`` (``time.monotonic()``)."""
        with self._changed:
            if run_id in self._open:
                return None
            self._open.add(run_id)
            if self._idle <= self._tasks.qsize() and self._running < self._threads:
                self._start()
        try:
            self._tasks.put((run_id, task), timeout=max(0.0, min(until - time.monotonic(), 1e6)))
        except queue.Full:
            self._end(run_id)
            return False
        with self._changed:
            # The last idle thread may have just ended.
            if not self._running:
                self._start()
        return True

    def finish(self, mine: set[str], until: float, tell: Callable[[], None]) -> tuple[frozenset[str], frozenset[str]]:
        """Wait for the tasks of the runs ``mine``, at most until ``until``. Tasks that have not begun by then are
        cancelled. Returns the runs with unfinished tasks, and those with cancelled tasks. ``tell`` is called now and
        then."""
        while True:
            with self._changed:
                rest_s = max(0.0, min(until - time.monotonic(), 0.5))
                self._changed.wait_for(lambda: self._open.isdisjoint(mine), timeout=rest_s)
                left = frozenset(self._open & mine)
            tell()
            if not left or time.monotonic() >= until:
                break
        given_up = set()
        while left:
            try:
                run_id, _ = self._tasks.get_nowait()
            except queue.Empty:
                break
            given_up.add(run_id)
            self._end(run_id)
        return left - given_up, frozenset(given_up)

    def _start(self) -> None:
        self._running += 1
        # A daemon thread, because a task that hangs in a library must not keep the process from ending.
        threading.Thread(target=self._work, name="lastbeat-look", daemon=True).start()

    def _next(self) -> tuple[str, Callable[[], None]] | None:
        with self._changed:
            self._idle += 1
        while (task := self._wait()) is None:
            with self._changed:
                # A task may just have come from a thread that saw this one idle.
                if self._tasks.empty():
                    self._idle -= 1
                    self._running -= 1
                    return None
        with self._changed:
            self._idle -= 1
        return task

    def _wait(self) -> tuple[str, Callable[[], None]] | None:
        try:
            return self._tasks.get(timeout=_IDLE_S)
        except queue.Empty:
            return None

    def _work(self) -> None:
        while (task_of := self._next()) is not None:
            run_id, task = task_of
            try:
                task()
            except Exception:
                # Tasks handle their own errors; an exception here must not end the thread.
                log.exception("the task of %s broke", run_id)
            self._end(run_id)

    def _end(self, run_id: str) -> None:
        with self._changed:
            self._open.discard(run_id)
            self._changed.notify_all()
