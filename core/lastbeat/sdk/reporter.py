"""The beat thread: writes what training said, and keeps what could not be written until it can."""

import atexit
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from lastbeat.model import runid
from lastbeat.sdk.attempts import attempt_of, next_attempt, start_of
from lastbeat.sdk.clock_offset import ClockOffset
from lastbeat.sdk.documents import Identity, Pace, encode, metadata, now_text
from lastbeat.sdk.extra import Beat, Extra, Extras, Part
from lastbeat.sdk.first_error import leftovers, put, started_at
from lastbeat.sdk.forks import watch_over
from lastbeat.sdk.instance import Instance
from lastbeat.sdk.rank_beats import Follower, LeadBeats
from lastbeat.sdk.ranks import Rank, lead_facts, rank_error_key, told_by
from lastbeat.sdk.reading import Reader
from lastbeat.sdk.run import Run
from lastbeat.sdk.saying import Complaints, say, why
from lastbeat.sdk.values import truth
from lastbeat.stores.port import ConflictError, DeniedError, Expect, Store, StoreError

if TYPE_CHECKING:
    from lastbeat.sdk.resources import Meter

_RETRY_S = 1.0
_RETRY_CAP_S = 30.0
_STOP_S = 1.0
"""How long the end of the process waits for a thread whose run nobody ended."""
_HOLD_S = 5.0
"""How long the sentinel waits for heartbeats that a store does not take at once. What is wrong with them in any other
way does not hold it back."""
_METADATA_LIMIT_BYTES = 64 * 1024


class Guard(Protocol):
    """What sees the end of this process from outside; see :class:`lastbeat.guardian.start.Guard`. Never raises."""

    def begin(self, rank: Rank, began: float, began_monotonic: float) -> None:
        """The run is reported from ``began`` (unix time) on."""
        ...

    def beat(self, *, begun: bool) -> None:
        """It beats; ``begun`` says that its metadata is in the store."""
        ...

    def ending(self, sentinel: str, text: str) -> None:
        """The run is over, and its sentinel is about to be written."""
        ...

    def over(self) -> None:
        """It is written."""
        ...


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
    guard: Guard | None = None


class Reporter:
    """Beats for one run, from a daemon thread of its own. Every failure is logged, once an outage, and tried again.
    None ends the thread, and none but the store's keeps the sentinel back.

    ``prepare`` is called in that thread, for it reads settings, connects and may ask the machine who it is.
    """

    def __init__(
        self,
        prepare: Callable[[], Surroundings],
        extras: Iterable[Extra] = (),
        *,
        resume: object = False,
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
        self._complaints = Complaints()
        self._pace = Pace(reader=Reader(complaints=self._complaints))
        # Of its own: what is known of a phase must not wait for a tensor.
        self._reader = Reader(complaints=self._complaints)
        self._ending_since: float | None = None
        self._meter = meter
        self._failures = 0
        self._extras = Extras(extras)
        self._follower: Follower | None = None
        self._offset = ClockOffset()

    def start(self, run: Run) -> None:
        """Begin to beat for ``run``; returns at once."""
        self._began, self._began_monotonic = time.time(), time.monotonic()
        thread = threading.Thread(target=self._beat_on, args=(run,), name="lastbeat", daemon=True)
        watch_over(thread)
        try:
            thread.start()
        except RuntimeError as error:
            say(logging.ERROR, "lastbeat is off, nothing watches this training: %s", error)
            return
        self._process, self._thread = os.getpid(), thread
        # A run that nobody ends: its thread must not be in the store's client when the interpreter goes away.
        atexit.register(self._stop)

    def _stop(self) -> None:
        if self._thread is not None and os.getpid() == self._process:
            self._stopping = True
            self._wake.put(None)
            self._thread.join(_STOP_S)

    def soon(self) -> None:
        """Beat now, and not when it is due."""
        self._wake.put(None)

    def finish(self, until: float) -> bool:
        """Write the sentinel now; whether that was done before ``until``, by the monotonic clock."""
        self._wake.put(None)
        # Polled: a signal handler may interrupt the very wait that it would then deadlock with.
        while self.writing and time.monotonic() < until:
            time.sleep(0.005)
        return self._written

    @property
    def writing(self) -> bool:
        """Whether the sentinel is not yet written, and is still tried."""
        return not self._written and self._thread is not None and self._thread.is_alive()

    def _beat_on(self, run: Run) -> None:
        while not self._stopping and not self._written:
            self._round(run)
        if self._written:
            self._close()

    def _round(self, run: Run) -> None:
        """One beat, and the pause after it."""
        began = time.monotonic()
        try:
            self._beat(run)
            if not self._written:
                with suppress(queue.Empty):
                    self._wake.get(timeout=self._pause(time.monotonic() - began))
        except BaseException as fault:  # noqa: BLE001 - this thread ends with its run, and with nothing else
            say(logging.WARNING, "lastbeat stumbled and beats on: %s", why(fault))
            time.sleep(_RETRY_S)

    def _close(self) -> None:
        self._extras.close()
        for reader in (self._reader, self._pace.reader):
            reader.close()
        atexit.unregister(self._stop)

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
        if ending is not None and self._ending_since is None:
            self._ending_since = time.monotonic()
        try:
            self._write(run, ending)
        except BaseException as fault:  # noqa: BLE001 - whatever it is, training must not feel it and beating goes on
            self._failures += 1
            if not self._failing:
                cannot = "could not write its last" if self._written else "cannot write its"
                keeps = "" if self._written else " and keeps trying"
                say(logging.WARNING, f"lastbeat {cannot} heartbeat{keeps}: %s", why(fault))
            self._failing = True
        else:
            if self._failing:
                say(logging.INFO, "lastbeat can write again")
            self._failing, self._failures = False, 0

    def _write(self, run: Run, ending: tuple[str, str] | None) -> None:
        if self._surroundings is None:
            self._surroundings = self._prepare()
            self._extras.add(self._surroundings.extras)
            if self._surroundings.guard is not None:
                self._surroundings.guard.begin(self._surroundings.rank, self._began, self._began_monotonic)
        around = self._surroundings
        if ending is not None and around.guard is not None:
            around.guard.ending(*ending)
        if around.rank.leads:
            faults = self._tried(run, ending, self._leading(run, around, ending))
        else:
            follower = self._followed(run, around)
            faults = self._tried(run, ending, follower.opening(ending))
        if around.guard is not None:
            around.guard.beat(begun=self._begun)
        if self._held_back(ending, faults):
            raise faults[0]
        if ending is not None and around.rank.leads:
            if not self._begun and around.rank.world == 1:
                # What an attempt before said of its end would outrank what this one says.
                other = runid.COMPLETE if ending[0] == runid.ERROR else runid.ERROR
                faults += self._tried(run, ending, [Part(lambda: around.store.delete(f"{run.run_id}/{other}"))])
            self._end(run, around, ending)
        elif not around.rank.leads:
            follower.tell(ending)
            faults += self._tried(run, ending, follower.beat(run, ending))
        written = ending is not None and not self._held_back(ending, faults)
        if written and around.guard is not None:
            around.guard.over()
        # Only now, for then the process may end.
        self._written = written
        if faults:
            raise faults[0]

    def _tried(self, run: Run, ending: tuple[str, str] | None, parts: Iterable[Part]) -> list[BaseException]:
        """Do ``parts`` one after the other, as far as there is sense in it; what went wrong."""
        faults: list[BaseException] = []
        began = time.monotonic()
        for part in parts:
            if _enough(run, ending, began + _HOLD_S):
                break
            try:
                part.do()
            except BaseException as fault:  # noqa: BLE001 - as above
                faults.append(fault)
                # The store would not answer for the rest either, and take as long. At the end all is tried that may be.
                if _is_passing(fault) or (part.first and ending is None and isinstance(fault, StoreError)):
                    break
        return faults

    def _held_back(self, ending: tuple[str, str] | None, faults: list[BaseException]) -> bool:
        """Whether what else there is waits for what may be written in a moment."""
        waited_s = time.monotonic() - self._ending_since if self._ending_since is not None else 0.0
        return any(map(_is_passing, faults)) and (ending is None or waited_s < _HOLD_S)

    def _leading(self, run: Run, around: Surroundings, ending: tuple[str, str] | None) -> Iterator[Part]:
        """What a beat writes besides the sentinel, in its order."""
        first, last, now = not self._begun, ending is not None, time.time()
        folder = f"{run.run_id}/"
        if first:
            yield Part(lambda: self._begin(run, around), first=True)
        # At the start of a distributed training twice: the other ranks want to know that it has begun.
        if self._begun and (not first or last or around.rank.world > 1):
            yield Part(lambda: self._metadata(run, around, now, quick=first or last), first=True)
        yield Part(lambda: self._progress(run, around.store, folder, now, last=last))
        beat, late = Beat(run, around.store, folder, now, ending), time.monotonic() + _HOLD_S
        yield Part(lambda: self._extras.write(beat, lambda: _enough(run, ending, late)))
        if first and not last:
            # Only now, because it may take a second to find out that nobody answers.
            yield Part(lambda: self._ask(around))

    def _followed(self, run: Run, around: Surroundings) -> Follower:
        if self._follower is None:
            every_s, began = around.rank_beat_s, self._began_monotonic
            self._follower = Follower(around.store, run.run_id, around.rank, every_s, began, self._reader)
        return self._follower

    def _metadata(self, run: Run, around: Surroundings, now: float, *, quick: bool) -> None:
        assert self._identity is not None  # noqa: S101 - it has begun
        document = metadata(run, self._identity, now, self._used(quick=quick), self._reader, self._offset.seconds)
        facts = lead_facts(around.rank, begun=True)
        self._offset.write(around.store, f"{run.run_id}/{runid.METADATA}", encode(document | facts))

    def _ask(self, around: Surroundings) -> None:
        if around.ask is not None and self._identity is not None:
            self._identity = replace(self._identity, instance=around.ask())

    def _used(self, *, quick: bool) -> dict[str, Any] | None:
        if self._meter is None:
            from lastbeat.sdk.resources import Meter  # noqa: PLC0415 - here, so that training does not wait for it

            self._meter = Meter()
        return self._meter.measure(quick=quick)

    def _progress(self, run: Run, store: Store, folder: str, now: float, *, last: bool) -> None:
        """progress.json where the step advanced."""
        steps = run.steps
        if run.uncounted is not None:
            what = "lastbeat leaves tokens out: a value of type %s is no whole number at hand; give an int"
            self._complaints.once("tokens", what, run.uncounted)
        if steps == self._steps_told:
            return
        document = self._pace.document(run, now)
        if document is not None and (last or document["step"] != self._step_told):
            store.write(folder + runid.PROGRESS, encode(document))
            self._step_told = document["step"]
        self._steps_told = steps

    def _begin(self, run: Run, around: Surroundings) -> None:
        """A new attempt: its number follows the last one's, and the last one's sentinels go."""
        store, key = around.store, f"{run.run_id}/{runid.METADATA}"
        number = self._number(store, key, around)
        self._identity = Identity(
            run.run_id, number, self._began, Instance(around.instance_id), os.getpid(), around.version
        )
        # The start time first: from then on the old sentinels are older than the attempt, deleted or not.
        used, facts = self._used(quick=True), lead_facts(around.rank, begun=False)
        # Its own time is left out until it is known how far this machine's clock is off: nobody must think it old.
        document = metadata(run, self._identity, None, used, self._reader)
        self._offset.write(store, key, encode(document | facts))
        document = metadata(run, self._identity, time.time(), used, self._reader, self._offset.seconds)
        store.write(key, encode(document | facts))
        if around.rank.world > 1:
            for left in leftovers(store, run.run_id, self._started(store)):
                self._clear(store, left)
            beats = LeadBeats(around.rank, around.rank_beat_s, self._began_monotonic, self._identity.attempt)
            self._extras.add([beats])
        else:
            for name in (runid.ERROR, runid.COMPLETE):
                self._clear(store, f"{run.run_id}/{name}")
        self._begun = True

    def _number(self, store: Store, key: str, around: Surroundings) -> int:
        """Which attempt this is, by the metadata that lies there; asked again with every try to begin."""
        try:
            blob = store.read(key, _METADATA_LIMIT_BYTES)
        except DeniedError as error:
            # Some policies let training write and not read, and S3 then refuses to say that a key is not there.
            say(logging.DEBUG, "the last attempt cannot be read: %s", error)
            blob = None
        if blob is not None and self._identity is not None and start_of(blob.body) == now_text(self._began):
            # Our own, from a try whose answer was lost.
            return self._identity.attempt
        before = attempt_of(blob.body) if blob is not None else None
        resume, *_ = self._reader.told([("resume", self._resume, truth)])
        return next_attempt(before, around.restarts, resume=bool(resume))

    def _clear(self, store: Store, key: str) -> None:
        try:
            store.delete(key)
        except StoreError as error:
            if error.retryable:
                raise
            # It is older than this attempt, so that no reader counts it, and gives way to our own.
            say(logging.DEBUG, "the last attempt's %s stays: %s", key, error)
            self._left_behind.add(key)

    def _started(self, store: Store) -> datetime:
        """When this run did, by the store's clock."""
        return started_at(store, time.monotonic() - self._began_monotonic)

    def _end(self, run: Run, around: Surroundings, ending: tuple[str, str]) -> None:
        """Write the sentinel."""
        store, attempt = around.store, self._identity.attempt if self._identity is not None else None
        name = f"{run.run_id}/{ending[0]}"
        body = told_by(ending[1], around.rank, attempt).encode("utf-8", "replace")
        # Whether one of an attempt before may still lie there.
        left = name in self._left_behind or not self._begun
        if ending[0] == runid.ERROR and around.rank.world > 1:
            # One that could not be deleted gives way, if no other rank has replaced it.
            if not put(store, name, body, self._started(store) if left else None):
                store.write(f"{run.run_id}/{rank_error_key(0)}", body)
            return
        try:
            # Create only: of several errors the first one is the cause.
            store.write(name, body, Expect.ANYTHING if left else Expect.NOTHING)
        except ConflictError:
            say(logging.DEBUG, "%s is there already", name)


def _is_passing(fault: BaseException) -> bool:
    """Whether the store may take it in a moment."""
    return isinstance(fault, StoreError) and fault.retryable


def _enough(run: Run, ending: tuple[str, str] | None, late: float) -> bool:
    """Whether the sentinel is more urgent than what else there is to write: it has been said meanwhile, or has waited
    until ``late``."""
    return run.ending is not None if ending is None else time.monotonic() > late
