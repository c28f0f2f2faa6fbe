"""The beat thread: writes what training said, and keeps what could not be written until it can."""

import atexit
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lastbeat.model import runid
from lastbeat.sdk.attempts import attempt_of, next_attempt, start_of
from lastbeat.sdk.documents import Identity, Pace, encode, metadata, now_text
from lastbeat.sdk.extra import Beat, Extra, Extras
from lastbeat.sdk.first_error import leftovers, put, started_at
from lastbeat.sdk.forks import watch_over
from lastbeat.sdk.instance import Instance
from lastbeat.sdk.rank_beats import Follower, LeadBeats
from lastbeat.sdk.ranks import Rank, lead_facts, rank_error_key, told_by
from lastbeat.sdk.run import Run
from lastbeat.stores.port import ConflictError, DeniedError, Expect, Store, StoreError

if TYPE_CHECKING:
    from lastbeat.sdk.resources import Meter

log = logging.getLogger("lastbeat")

_RETRY_S = 1.0
_RETRY_CAP_S = 30.0
_STOP_S = 1.0
"""How long the end of the process waits for a thread whose run nobody ended."""
_METADATA_LIMIT_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a run reports to and from."""

    store: Store
    instance_id: str
    restarts: int = 0
    """How often a scheduler has restarted this job."""
    beat_s: float = 30.0
    version: str = ""
    """Of lastbeat."""
    ask: Callable[[], Instance] | None = None
    """Finds out more about this machine; called once, after the first heartbeat."""
    extras: tuple[Extra, ...] = ()
    """What each beat writes besides."""
    rank: Rank = field(default_factory=Rank)
    """Which process of a distributed training this is; only rank 0 writes the run's documents."""
    rank_beat_s: float = 60.0
    """Between two beats of a rank; 0 is never."""


class Reporter:
    """Beats for one run, from a daemon thread of its own. Every failure is logged, once an outage, and tried again.

    ``prepare`` is called in that thread, for it reads settings, connects and may ask the machine who it is.
    """

    def __init__(
        self,
        prepare: Callable[[], Surroundings],
        extras: Iterable[Extra] = (),
        *,
        resume: bool = False,
        meter: "Meter | None" = None,
    ) -> None:
        self._prepare = prepare
        self._surroundings: Surroundings | None = None
        self._resume = resume
        # A queue, because a signal handler may interrupt the very call that it makes itself, and put() allows that.
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._stopping = False
        self._written = False
        self._thread: threading.Thread | None = None
        self._identity: Identity | None = None
        self._begun = False
        self._failing = False
        self._steps_told = 0
        self._step_told: object = None
        self._left_behind: set[str] = set()
        """Sentinels of an earlier attempt that could not be deleted."""
        self._pace = Pace()
        self._meter = meter
        self._failures = 0
        self._extras = Extras(extras)
        self._follower: Follower | None = None

    def start(self, run: Run) -> None:
        """Begin to beat for ``run``; returns at once."""
        self._began, self._began_monotonic = time.time(), time.monotonic()
        thread = threading.Thread(target=self._beat_on, args=(run,), name="lastbeat", daemon=True)
        watch_over(thread)
        try:
            thread.start()
        except RuntimeError as error:
            log.error("lastbeat is off, nothing watches this training: %s", error)  # noqa: TRY400 - a trace says no more
            return
        self._process, self._thread = os.getpid(), thread
        # A run that nobody ends: its thread must not be in the store's client when the interpreter goes away.
        atexit.register(self._stop)

    def _stop(self) -> None:
        if self._thread is not None and os.getpid() == self._process:
            self._stopping = True
            self._wake.put(None)
            self._thread.join(_STOP_S)

    def finish(self, wait_s: float) -> bool:
        """Write the sentinel now; whether that was done within ``wait_s``."""
        self._wake.put(None)
        # Polled: a signal handler may interrupt the very wait that it would then deadlock with.
        deadline = time.monotonic() + wait_s
        while not self._written and time.monotonic() < deadline and self._alive():
            time.sleep(0.005)
        return self._written

    def _alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _beat_on(self, run: Run) -> None:
        while not self._stopping:
            began = time.monotonic()
            self._beat(run)
            if self._written:
                self._extras.close()
                atexit.unregister(self._stop)
                return
            with suppress(queue.Empty):
                self._wake.get(timeout=self._pause(time.monotonic() - began))

    def _pause(self, spent_s: float) -> float:
        beat_s = self._surroundings.beat_s if self._surroundings is not None else _RETRY_CAP_S
        if self._failures:
            return min(_RETRY_S * 2.0 ** min(self._failures - 1, 10), max(_RETRY_S, beat_s), _RETRY_CAP_S)
        if self._follower is not None:
            return max(0.05, self._follower.wait_s)
        return max(0.05, beat_s - spent_s)

    def _beat(self, run: Run) -> None:
        """One beat. Once the run has ended it is the one that writes the sentinel."""
        ending = run.ending
        try:
            self._write(run, ending)
        except StoreError as error:
            self._failed(f"{error}")
        except Exception as error:  # noqa: BLE001 - whatever it is, training must not feel it and beating goes on
            self._failed(f"{type(error).__name__}: {error}")
        else:
            if self._failing:
                log.info("lastbeat can write again")
            self._failing, self._failures = False, 0
            self._written = ending is not None

    def _failed(self, what: str) -> None:
        self._failures += 1
        if not self._failing:
            log.warning("lastbeat cannot write its heartbeat and keeps trying: %s", what)
        self._failing = True

    def _write(self, run: Run, ending: tuple[str, str] | None) -> None:
        if self._surroundings is None:
            self._surroundings = self._prepare()
            self._extras.add(self._surroundings.extras)
        if not self._surroundings.rank.leads:
            self._follow(run, self._surroundings, ending)
            return
        store, first = self._surroundings.store, not self._begun
        who = self._begin(run, self._surroundings) if self._identity is None or first else self._identity
        now = time.time()
        folder = f"{run.run_id}/"
        rank = self._surroundings.rank
        # At the start of a distributed training twice: the other ranks want to know that it has begun.
        if not first or ending is not None or rank.world > 1:
            used = self._used(quick=first or ending is not None)
            store.write(folder + runid.METADATA, encode(metadata(run, who, now, used) | lead_facts(rank, begun=True)))
        fault = self._progress(run, store, folder, now, last=ending is not None)
        self._extras.write(Beat(run, store, folder, now, ending))
        if ending is not None:
            self._end(store, folder, ending, told_by(ending[1], rank, who.attempt))
            self._written = True
        if fault is not None:
            raise fault
        if ending is None and first and self._surroundings.ask is not None:
            # Only now, because it may take a second to find out that nobody answers.
            self._identity = replace(who, instance=self._surroundings.ask())

    def _used(self, *, quick: bool) -> dict[str, Any] | None:
        if self._meter is None:
            from lastbeat.sdk.resources import Meter  # noqa: PLC0415 - here, so that training does not wait for it

            self._meter = Meter()
        return self._meter.measure(quick=quick)

    def _progress(self, run: Run, store: Store, folder: str, now: float, *, last: bool) -> StoreError | None:
        """progress.json where the step advanced. What is wrong with that file alone must not keep the sentinel back,
        so it is returned; a store that cannot be reached at all is raised."""
        steps = run.steps
        if steps == self._steps_told:
            return None
        document = self._pace.document(run, now)
        if document is not None and (last or document["step"] != self._step_told):
            try:
                store.write(folder + runid.PROGRESS, encode(document))
            except StoreError as error:
                if error.retryable:
                    raise
                return error
            self._step_told = document["step"]
        self._steps_told = steps
        return None

    def _begin(self, run: Run, around: Surroundings) -> Identity:
        """A new attempt: its number follows the last one's, and the last one's sentinels go."""
        store, key = around.store, f"{run.run_id}/{runid.METADATA}"
        number = self._number(store, key, around)
        self._identity = Identity(
            run.run_id, number, self._began, Instance(around.instance_id), os.getpid(), around.version
        )
        # The start time first: from then on the old sentinels are older than the attempt, deleted or not.
        document = metadata(run, self._identity, time.time(), self._used(quick=True))
        store.write(key, encode(document | lead_facts(around.rank, begun=False)))
        if around.rank.world > 1:
            for left in leftovers(store, run.run_id, self._started(store)):
                self._clear(store, left)
            beats = LeadBeats(around.rank, around.rank_beat_s, self._began_monotonic, self._identity.attempt)
            self._extras.add([beats])
        else:
            for name in (runid.ERROR, runid.COMPLETE):
                self._clear(store, f"{run.run_id}/{name}")
        self._begun = True
        return self._identity

    def _number(self, store: Store, key: str, around: Surroundings) -> int:
        """Which attempt this is, by the metadata that lies there; asked again with every try to begin."""
        try:
            blob = store.read(key, _METADATA_LIMIT_BYTES)
        except DeniedError as error:
            # Some policies let training write and not read, and S3 then refuses to say that a key is not there.
            log.debug("the last attempt cannot be read: %s", error)
            blob = None
        if blob is not None and self._identity is not None and start_of(blob.body) == now_text(self._began):
            # Our own, from a try whose answer was lost.
            return self._identity.attempt
        before = attempt_of(blob.body) if blob is not None else None
        return next_attempt(before, around.restarts, resume=self._resume)

    def _clear(self, store: Store, key: str) -> None:
        try:
            store.delete(key)
        except StoreError as error:
            if error.retryable:
                raise
            # It is older than this attempt, so that no reader counts it, and gives way to our own.
            log.debug("the last attempt's %s stays: %s", key, error)
            self._left_behind.add(key)

    def _started(self, store: Store) -> datetime:
        """When this run did, by the store's clock."""
        return started_at(store, time.monotonic() - self._began_monotonic)

    def _follow(self, run: Run, around: Surroundings, ending: tuple[str, str] | None) -> None:
        if self._follower is None:
            self._follower = Follower(around.store, run.run_id, around.rank, around.rank_beat_s, self._began_monotonic)
        self._follower.beat(run, ending)

    def _end(self, store: Store, folder: str, ending: tuple[str, str], text: str) -> None:
        name, body = folder + ending[0], text.encode("utf-8", "replace")
        if ending[0] == runid.ERROR and self._surroundings is not None and self._surroundings.rank.world > 1:
            # One that could not be deleted gives way, if no other rank has replaced it.
            if not put(store, name, body, self._started(store) if name in self._left_behind else None):
                store.write(folder + rank_error_key(0), body)
            return
        try:
            # Create only: of several errors the first one is the cause.
            store.write(name, body, Expect.ANYTHING if name in self._left_behind else Expect.NOTHING)
        except ConflictError:
            log.debug("%s is there already", name)
