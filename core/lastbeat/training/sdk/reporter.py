"""The beat thread: writes the reports of training, and retries each failed write until it succeeds."""

import atexit
import logging
import os
import queue
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from lastbeat.model.times import backoff_s
from lastbeat.training.sdk.beat_tasks import HOLD_S, BeatTask, BeatTasks, RunEnvironment, RunStart, may_pass, take_steps
from lastbeat.training.sdk.rank_zero import RankZero
from lastbeat.training.sdk.ranks import FollowingRank, is_late, late_in_s
from lastbeat.training.sdk.run import Run, remember
from lastbeat.training.sdk.safe_log import fault_text, safe_log
from lastbeat.training.sdk.threads import start_thread

if TYPE_CHECKING:
    import threading

_RETRY_S = 1.0
_RETRY_CAP_S = 30.0
_STOP_S = 1.0
"""Most time in s that the end of the process waits for the beat thread of a run that has not ended."""
_LEAST_PAUSE_S = 0.05
_LATE_S = 0.25
"""Re-check for overrun sections at most this many s after their limit."""


class Reporter:
    """Beats for one run, in a daemon thread. Each outage is logged once, and everything is tried again.

    No failure ends the thread, and only the store's failures delay the sentinel. ``prepare`` runs in the thread,
    because it connects to the store and inspects the machine. ``tasks`` are those that are ready before.
    """

    def __init__(self, prepare: Callable[[], RunEnvironment], tasks: Iterable[BeatTask] = ()) -> None:
        self._prepare = prepare
        self._tasks = BeatTasks(tasks)
        self._rank: RankZero | FollowingRank | None = None
        """Writes for this process's rank; None until its environment is prepared."""
        self._beat_s = _RETRY_CAP_S
        # A SimpleQueue, because its put() may be interrupted by a signal handler that calls put() as well.
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._left = False
        """Whether this reporter has left the run to another attempt, which has a reporter of its own."""
        self._ending_since: float | None = None
        self._end_written = False
        self._given_up = False
        """Whether the end will never be written, because the settings name no usable store."""
        self._failures = 0
        """Failed beats in a row."""
        self._fault = ""
        """The fault of the last failed beat."""

    # Called by training's threads.

    def start(self, run: Run) -> None:
        """Start beating for ``run``. Returns at once."""
        self._started_unix, self._started_monotonic = time.time(), time.monotonic()
        self._run = run
        remember(run)
        self._pid, self._thread = os.getpid(), start_thread("lastbeat", self._beat_until_end, run)
        if self._thread is None:
            safe_log(logging.ERROR, "lastbeat is off, nothing watches this training: no thread can start")
            return
        # For a run that is never ended: the thread must not be inside the store's client when the interpreter exits.
        atexit.register(self._stop)

    def _stop(self) -> None:
        if self._thread is not None and os.getpid() == self._pid:
            self._stopping = True
            self._wake.put(None)
            self._thread.join(_STOP_S)
            if self._run.ended and not (self._end_written or self._given_up):
                what = "lastbeat could not write the end of this run before its process ended: %s"
                safe_log(logging.ERROR, what, self._fault or "the store did not answer in time")

    def beat_now(self) -> None:
        """Beat at once instead of when the next beat is due."""
        self._wake.put(None)

    def add_task(self, task: BeatTask) -> None:
        """Let each beat do ``task``, too, from the next one on."""
        self._tasks.add(task)

    def leave(self, wait_s: float = _STOP_S) -> None:
        """Stop beating without an end: the run goes on with another attempt. Waits for a beat that is under way, but
        no longer than ``wait_s``."""
        self._left = self._stopping = True
        self._wake.put(None)
        if self._thread is not None:
            self._thread.join(wait_s)

    @property
    def begun(self) -> bool:
        """Whether this attempt's first metadata.json is written."""
        return self._rank is not None and self._rank.begun

    def finish(self, deadline: float) -> bool:
        """Write the sentinel now. Returns whether it was written before ``deadline``, by the monotonic clock."""
        self._wake.put(None)
        # Polled, because a signal handler may interrupt this wait, and would deadlock on a lock held here.
        while self.end_pending and time.monotonic() < deadline:
            time.sleep(0.005)
        return self._end_written

    @property
    def end_pending(self) -> bool:
        """Whether the sentinel is not written yet and is still being tried."""
        return not (self._end_written or self._given_up) and self._thread is not None and self._thread.is_alive()

    # Called by the beat thread alone.

    def _beat_until_end(self, run: Run) -> None:
        """The beat thread's loop.

        1. Beat: write all news. A failed beat is logged, and never ends the loop.
        2. Wait until the next beat is due, or sooner after a failure. :meth:`beat_now`, :meth:`finish` and a section
           that takes too long cut the wait short.
        3. Once training has ended the run, the beat also writes the sentinel. It is repeated until that works, or until
           the settings turn out to name no usable store.
        4. Release the resources of the tasks and readers.
        """
        while not (self._stopping or self._end_written or self._given_up):
            # The ending comes first, so that no beat writes an end that the tasks have not seen.
            began, ending = time.monotonic(), run.ending
            self._tasks.look(run)
            run.announce_stop()
            try:
                self._beat(run, ending)
                if not (self._end_written or self._given_up):
                    pause_s = min(self._pause_s(time.monotonic() - began), max(_LEAST_PAUSE_S, self._tasks.look(run)))
                    self._wait(run, time.monotonic() + pause_s)
            except BaseException as fault:  # noqa: BLE001 - only the end of its run ends this thread
                safe_log(logging.WARNING, "lastbeat had an unexpected fault and beats on: %s", fault_text(fault))
                time.sleep(_RETRY_S)
        if self._end_written or self._given_up or self._left:
            self._close()

    def _close(self) -> None:
        self._tasks.close()
        if self._rank is not None:
            self._rank.close()
        atexit.unregister(self._stop)

    def _wait(self, run: Run, until: float) -> None:
        """Wait until ``until`` by the monotonic clock, or until a wake-up or a newly late section cuts the wait short.

        Lateness is checked from the open sections alone, without a beat, because steps may be frequent.
        """
        knows_late = is_late(run)
        while (left_s := until - time.monotonic()) > 0:
            late_in = late_in_s(run)
            with suppress(queue.Empty):
                self._wake.get(timeout=left_s if late_in is None else min(left_s, late_in + _LATE_S))
                return
            if is_late(run) and not knows_late:
                return

    def _pause_s(self, spent_s: float) -> float:
        """Pause in s after a beat that took ``spent_s``."""
        if self._failures or self._rank is None:
            return backoff_s(self._failures, _RETRY_S, min(max(_RETRY_S, self._beat_s), _RETRY_CAP_S))
        return max(_LEAST_PAUSE_S, self._rank.pause_s(spent_s))

    def _beat(self, run: Run, ending: tuple[str, str] | None) -> None:
        """Beat once, and log the first failure and the recovery. After the end of the run, write the sentinel too."""
        if ending is not None and self._ending_since is None:
            self._ending_since = time.monotonic()
        try:
            self._write(run, ending)
        except BaseException as fault:  # noqa: BLE001 - whatever it is, training must not feel it and beating goes on
            self._failures += 1
            self._fault = fault_text(fault)
            if self._given_up:
                what = "lastbeat gives up, and the end of this run is not written: %s"
                safe_log(logging.ERROR, what, self._fault)
            elif self._failures == 1:
                failure = "could not write its last heartbeat" if self._end_written else "cannot write its heartbeat"
                keeps_trying = "" if self._end_written else " and keeps trying"
                safe_log(logging.WARNING, f"lastbeat {failure}{keeps_trying}: %s", self._fault)
        else:
            if self._failures:
                safe_log(logging.INFO, "lastbeat can write again")
            self._failures, self._fault = 0, ""

    def _write(self, run: Run, ending: tuple[str, str] | None) -> None:
        """Write everything that one beat writes.

        1. Prepare the environment (store, rank, tasks) unless that has worked before. This makes no request to the
           store, so after the end of the run it is tried only once, unless its fault may pass.
        2. Rank 0 writes its heartbeats and lets the tasks write. Any other rank does what precedes its heartbeat.
        3. If the store may accept a failed write on a retry, leave the rest to the next beat. After the end of the run
           this holds the sentinel back for ``HOLD_S`` at most.
        4. Rank 0 writes the sentinel if the run has ended. Any other rank writes its own error, then its heartbeat, and
           lets the tasks follow.
        5. Note whether the end is written, so that the loop may stop. Then raise the first fault of any step.
        """
        rank = self._rank or self._enter(run, ending)
        self._tasks.begin_added()
        faults = take_steps(run, ending, rank.first_steps(ending))
        self._tasks.beaten(begun=rank.begun)
        if self._held_back(ending, faults):
            raise faults[0]
        if ending is not None:
            faults += take_steps(run, ending, rank.end_steps(ending))
            rank.write_end(ending)
        for steps in rank.last_steps(ending):
            faults += take_steps(run, ending, steps)
        end_written = ending is not None and not self._held_back(ending, faults)
        if end_written:
            self._tasks.over()
        # Last, because the process may end as soon as this is set.
        self._end_written = end_written
        if faults:
            raise faults[0]

    def _enter(self, run: Run, ending: tuple[str, str] | None) -> RankZero | FollowingRank:
        """Prepare the environment, begin the tasks, and return what writes for this process's rank."""
        try:
            environment = self._prepare()
        except BaseException as fault:
            self._given_up = ending is not None and not may_pass(fault)
            raise
        start = RunStart(run, environment, self._started_unix, self._started_monotonic)
        self._beat_s = environment.identity.beat_s
        self._rank = RankZero(start, self._tasks) if start.rank.leads else FollowingRank(start, self._tasks)
        self._tasks.begin(environment.tasks, start)
        # The end of the run may be known already.
        self._tasks.look(run)
        return self._rank

    def _held_back(self, ending: tuple[str, str] | None, faults: list[BaseException]) -> bool:
        """Whether the rest of this beat waits, because a failed step may work on a retry."""
        waited_s = time.monotonic() - self._ending_since if self._ending_since is not None else 0.0
        return any(map(may_pass, faults)) and (ending is None or waited_s < HOLD_S)
