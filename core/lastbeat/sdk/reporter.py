"""The beat thread: writes what training reported, and keeps what could not be written until it can be."""

import atexit
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from lastbeat.model import runid
from lastbeat.model.backoff import backoff_s
from lastbeat.sdk.attempts import attempt_of, next_attempt, start_time_of
from lastbeat.sdk.beat_tasks import Beat, BeatStep, BeatTask, BeatTasks
from lastbeat.sdk.clock_offset import ClockOffset
from lastbeat.sdk.documents import (
    AttemptIdentity,
    ProgressHistory,
    encode,
    iso_time,
    metadata_document,
    process_fields,
)
from lastbeat.sdk.first_error import is_leftover, leftovers, started_at, write_if_first
from lastbeat.sdk.fork_guard import delay_unsafe_forks
from lastbeat.sdk.instance import Instance
from lastbeat.sdk.late_mark import LateMark, is_late, late_in_s
from lastbeat.sdk.open_run import remember
from lastbeat.sdk.rank_beats import FollowingRank, RankZeroHeartbeat
from lastbeat.sdk.ranks import Rank, rank_error_key, rank_zero_fields, with_rank
from lastbeat.sdk.run import Run, RunPlace
from lastbeat.sdk.safe_log import WarnOnce, fault_text, safe_log
from lastbeat.sdk.sections import SectionLimits, tells_late
from lastbeat.sdk.value_reader import ValueReader
from lastbeat.sdk.values import as_bool
from lastbeat.stores.port import ConflictError, DeniedError, Expect, Store, StoreError

if TYPE_CHECKING:
    from lastbeat.model.in_place import InPlace
    from lastbeat.sdk.gpus import GpuMonitor
    from lastbeat.sdk.learning import Learning
    from lastbeat.sdk.node_mark import NodeMark
    from lastbeat.sdk.raising import AlertWriter
    from lastbeat.sdk.resources import ResourceMeter
    from lastbeat.sdk.stragglers import StragglerWatch
    from lastbeat.sdk.time_limit import StopTime

_RETRY_S = 1.0
_RETRY_CAP_S = 30.0
_STOP_S = 1.0
"""How long the end of the process waits for the thread of a run that nobody ended."""
_HOLD_S = 5.0
"""How long the sentinel waits for heartbeats that the store may take on another try. Any other fault of theirs does not
delay it."""
_METADATA_LIMIT_BYTES = 64 * 1024
_LATE_S = 0.25
"""So long after the limit of a section whoever is still in it is looked for, at the latest."""


class Guard:
    """Told how the run stands, so that somebody outside can report an end that this process cannot: see
    :class:`lastbeat.guardian.start.GuardianClient`. This one tells nobody. Nothing here raises."""

    def begin(self, rank: Rank, started_unix: float, started_monotonic: float) -> None:
        """The run is reported from now on."""

    def beat(self, *, begun: bool) -> None:
        """A heartbeat was written, or tried; ``begun`` says whether metadata.json of this attempt is in the store."""

    def ending(self, sentinel: str, text: str) -> None:
        """The run has ended, and its sentinel is about to be written."""

    def over(self) -> None:
        """The sentinel is written."""


class HealthSource(Protocol):
    """Samples how a node is, for the beat thread: see :class:`lastbeat.health.sampler.NodeSampler`."""

    gpus: "GpuMonitor"

    @property
    def wait_s(self) -> float:
        """Seconds until the next sample is due."""
        ...

    def sample(self, run: Run) -> Mapping[str, Any] | None:
        """``health`` of metadata.json."""
        ...

    def close(self) -> None:
        """The run is over: release what is held."""
        ...


@dataclass(frozen=True, slots=True)
class RunEnvironment:
    """What a run reports to, and from where."""

    store: Store
    instance_id: str
    restarts: int = 0
    """How often a scheduler has restarted this job."""
    beat_s: float = 30.0
    own_limits: Mapping[str, float | str | None] = field(default_factory=dict)
    """Limits of the run's own, by their name in metadata.json, in minutes."""
    stop_s: float | None = None
    """How often it looks for a request to end, in s. None: never."""
    owner: str | None = None
    """Whose run it is."""
    team: str | None = None
    ignored: tuple[str, ...] = ()
    """Settings that are wrong and left at their default, as ``LASTBEAT_LEARN='banana'``."""
    sections: SectionLimits = field(default_factory=SectionLimits)
    """How long training may be in each of its sections."""
    version: str = ""
    """Of lastbeat."""
    find_instance: Callable[[], Instance] | None = None
    """Finds out more about this machine. Called once, after the first heartbeat."""
    tasks: tuple[BeatTask, ...] = ()
    """What each beat does besides its heartbeats."""
    rank: Rank = field(default_factory=Rank)
    """Which process of a distributed training this is. Only rank 0 writes the run's documents."""
    rank_beat_s: float = 60.0
    """Time between two heartbeats of a rank; 0 means none."""
    guard: Guard = field(default_factory=Guard)
    on_entered: tuple[Callable[[Run], None], ...] = ()
    """Called once each, before the first beat; they return at once. One has training asked to stop when its cloud takes
    the machine away, for example."""
    time_limit: "StopTime | None" = None
    """When training is asked to stop, because its job's time is over soon."""
    learning: "Learning | None" = None
    """Learns how long its sections may last. None: nothing does."""
    stragglers: "StragglerWatch | None" = None
    """Looks which ranks are slow. None: nothing does."""
    on_begun: Callable[[], None] | None = None
    """Called once, by rank 0, when its first metadata.json is written."""
    in_place: "InPlace | None" = None
    """Of a training that is started again in its place when it fails: what it and who starts it say of that."""
    started_by_other: bool = False
    """This is such a training, and not who starts it."""
    health: "HealthSource | None" = None
    """Samples the node that this process is on. None: another rank does, or nobody."""
    yields: Callable[[], bool] = bool
    """Of who starts it: whether it reports itself at this moment, so that nothing more need be said."""


class Reporter:
    """Beats for one run, in a daemon thread. Each outage is logged once, and everything is tried again.

    No failure ends the thread, and only the store's failures delay the sentinel. ``prepare`` is called in the thread,
    because it connects to the store and looks at the machine.
    """

    def __init__(
        self,
        prepare: Callable[[], RunEnvironment],
        tasks: Iterable[BeatTask] = (),
        *,
        resume: object = False,
        meter: "ResourceMeter | None" = None,
    ) -> None:
        self._prepare = prepare
        self._environment: RunEnvironment | None = None
        self._resume = resume
        # A SimpleQueue, because its put() may be interrupted by a signal handler that calls put() as well.
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._stopping = False
        self._end_written = False
        self._given_up = False
        """Whether the end will never be written, because no store can be made of the settings."""
        self._thread: threading.Thread | None = None
        self._identity: AttemptIdentity | None = None
        self._version = ""
        """The version of metadata.json that this process wrote last; empty where training does not write it too."""
        self._begun = False
        """Whether this attempt's first metadata.json is written, and the last attempt's sentinels are gone."""
        self._failing = False
        self._failures = 0
        """Failed beats in a row."""
        self._fault = ""
        """What the last of them failed of."""
        self._written_steps = 0
        self._written_step: object = None
        self._undeleted: set[str] = set()
        """Sentinels of an earlier attempt that could not be deleted."""
        self._warnings = WarnOnce()
        self._history = ProgressHistory(reader=ValueReader(warnings=self._warnings))
        # A reader of its own: the phase must not wait for a tensor that hangs in the other one.
        self._reader = ValueReader(warnings=self._warnings)
        self._ending_since: float | None = None
        self._meter = meter
        self._tasks = BeatTasks(tasks)
        self._follower: FollowingRank | None = None
        self._alerts: AlertWriter | None = None
        self._offset = ClockOffset()
        self._late = False
        """Whether the last metadata.json says that a section takes too long."""
        self._health: Mapping[str, Any] | None = None
        """What the last sample said of this node."""
        self._node_mark: NodeMark | None = None
        self._left = False
        """Another attempt has begun, of which somebody else tells."""

    # Called by training's threads.

    def start(self, run: Run) -> None:
        """Start beating for ``run``. Returns at once."""
        self._started_unix, self._started_monotonic = time.time(), time.monotonic()
        self._beaten: float | None = None
        """When the last heartbeat was written, by the monotonic clock."""
        self._longest_gap_s = 0.0
        self._run = run
        remember(run)
        thread = threading.Thread(target=self._beat_until_end, args=(run,), name="lastbeat", daemon=True)
        delay_unsafe_forks(thread)
        try:
            thread.start()
        except RuntimeError as error:
            safe_log(logging.ERROR, "lastbeat is off, nothing watches this training: %s", error)
            return
        self._pid, self._thread = os.getpid(), thread
        # For a run that nobody ends: the thread must not be inside the store's client when the interpreter exits.
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
        return self._begun

    @property
    def attempt(self) -> int | None:
        """The number of this attempt, once it has begun."""
        return self._identity.attempt if self._begun and self._identity is not None else None

    def finish(self, deadline: float) -> bool:
        """Write the sentinel now. Whether it was written before ``deadline``, by the monotonic clock."""
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

        1. Beat: write what is new. A failed beat is logged, and never ends the loop.
        2. Wait until the next beat is due, or sooner after a failure. :meth:`beat_now`, :meth:`finish` and a section
           that takes too long cut the wait short.
        3. Once training has ended the run, the beat also writes the sentinel, and is repeated until that worked, or
           until it turns out that the settings make no store.
        4. Release what the tasks and readers hold.
        """
        while not (self._stopping or self._end_written or self._given_up):
            began = time.monotonic()
            self._look_at_time(run)
            run.announce_stop()
            try:
                self._beat(run)
                if not (self._end_written or self._given_up):
                    self._wait(run, time.monotonic() + self._pause_s(time.monotonic() - began))
            except BaseException as fault:  # noqa: BLE001 - this thread ends with its run, and for no other reason
                safe_log(logging.WARNING, "lastbeat had an unexpected fault and beats on: %s", fault_text(fault))
                time.sleep(_RETRY_S)
        if self._end_written or self._given_up or self._left:
            self._close()

    def _look_at_time(self, run: Run) -> None:
        """Ask training to stop, if its time is over soon."""
        limit = self._environment.time_limit if self._environment is not None else None
        if limit is not None and time.time() >= limit.stop_at:
            run.ask_to_stop(limit.why, f"The time limit of this job comes near: initiating graceful stop ({limit.why})")

    def _close(self) -> None:
        self._tasks.close()
        if self._environment is not None and self._environment.health is not None:
            self._environment.health.close()
        for reader in (self._reader, self._history.reader):
            reader.close()
        if self._follower is not None and self._follower.stragglers is not None:
            self._follower.stragglers.close()
        if self._alerts is not None:
            self._alerts.close()
        atexit.unregister(self._stop)

    def _wait(self, run: Run, until: float) -> None:
        """Wait until then, by the monotonic clock, or until somebody wakes this thread, or a section is late of which
        nobody knows yet. Whether one is costs a look at what is open, no beat: steps may be many."""
        knows_late = is_late(run)
        while (left_s := until - time.monotonic()) > 0:
            late_in = late_in_s(run)
            with suppress(queue.Empty):
                self._wake.get(timeout=left_s if late_in is None else min(left_s, late_in + _LATE_S))
                return
            if is_late(run) and not knows_late:
                return

    def _pause_s(self, spent_s: float) -> float:
        """How long to wait after a beat that took ``spent_s``, or until its time is over."""
        limit = self._environment.time_limit if self._environment is not None else None
        left_s = limit.stop_at - time.time() if limit is not None else -1.0
        pause_s = self._beat_pause_s(spent_s)
        return min(pause_s, max(0.05, left_s)) if left_s > 0 else pause_s

    def _beat_pause_s(self, spent_s: float) -> float:
        beat_s = self._environment.beat_s if self._environment is not None else _RETRY_CAP_S
        if self._failures:
            return backoff_s(self._failures, _RETRY_S, min(max(_RETRY_S, beat_s), _RETRY_CAP_S))
        if self._follower is not None:
            health = self._environment.health if self._environment is not None else None
            wait_s = self._follower.wait_s
            return max(0.05, wait_s if health is None else min(wait_s, health.wait_s))
        return max(0.05, beat_s - spent_s)

    def _beat(self, run: Run) -> None:
        """One beat, and what is logged of it. After the end of the run it writes the sentinel as well."""
        ending = run.ending
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
            elif not self._failing:
                failure = "could not write its last heartbeat" if self._end_written else "cannot write its heartbeat"
                keeps_trying = "" if self._end_written else " and keeps trying"
                safe_log(logging.WARNING, f"lastbeat {failure}{keeps_trying}: %s", self._fault)
            self._failing = True
        else:
            if self._failing:
                safe_log(logging.INFO, "lastbeat can write again")
            self._failing, self._failures, self._fault = False, 0, ""

    def _write(self, run: Run, ending: tuple[str, str] | None) -> None:
        """Everything that one beat writes.

        1. Unless that has worked before, prepare the environment: store, rank, further tasks. This asks no store for
           anything, so after the end of the run it is tried once and no more, unless its fault may pass.
        2. Rank 0 takes the steps of :meth:`_steps`; any other rank takes those that precede its heartbeat.
        3. If the store may take what failed on another try, leave the rest to the next beat. After the end of the run
           this holds the sentinel back for ``_HOLD_S`` at most.
        4. Rank 0 writes the sentinel if the run has ended. Any other rank writes its own error, then its heartbeat.
        5. Note whether the end is written, so that the loop may stop. Then raise the first fault of any step.
        """
        if self._environment is None:
            try:
                self._environment = self._prepare()
            except BaseException as fault:
                self._given_up = ending is not None and not _may_pass(fault)
                raise
            self._enter(run, self._environment, ending)
        environment = self._environment
        if ending is not None:
            environment.guard.ending(*ending)
        if environment.rank.leads:
            faults = self._take(run, ending, self._steps(run, environment, ending))
        else:
            follower = self._following_rank(run, environment)
            faults = self._take(run, ending, follower.first_steps(ending))
        environment.guard.beat(begun=self._begun)
        if self._held_back(ending, faults):
            raise faults[0]
        if ending is not None and environment.rank.leads:
            if not self._begun and environment.rank.world == 1:
                # The last attempt's other sentinels may still be there, and would contradict this one.
                others = [f"{run.run_id}/{name}" for name in runid.SENTINELS if name != ending[0]]
                faults += self._take(run, ending, [BeatStep(partial(environment.store.delete, key)) for key in others])
            self._write_sentinel(run, environment, ending)
        elif not environment.rank.leads:
            follower.write_error(ending, defers=_defers(environment))
            faults += self._take(run, ending, follower.heartbeat_steps(run, ending))
            faults += self._take(run, ending, self._alert_steps(run, environment, follower.attempt))
            if ending is None:
                self._health = self._sampled(run, environment)
            faults += self._take(run, ending, self._health_steps(run, environment, follower.attempt, ending))
        end_written = ending is not None and not self._held_back(ending, faults)
        if end_written:
            environment.guard.over()
        # Last, because the process may end as soon as this is set.
        self._end_written = end_written
        if faults:
            raise faults[0]

    def _enter(self, run: Run, environment: RunEnvironment, ending: tuple[str, str] | None) -> None:
        """What is done once, as soon as the environment is known."""
        run.sections.limits = environment.sections
        run.place = RunPlace(environment.store, environment.rank, self._started_monotonic)
        if environment.learning is not None:
            environment.learning.begin(run)
        if environment.stragglers is not None:
            environment.stragglers.begin(run)
        self._tasks.add(environment.tasks)
        if environment.health is not None and self._meter is not None:
            environment.health.gpus = self._meter.gpus
        environment.guard.begin(environment.rank, self._started_unix, self._started_monotonic)
        for call in environment.on_entered if ending is None else ():
            call(run)

    def _take(self, run: Run, ending: tuple[str, str] | None, steps: Iterable[BeatStep]) -> list[BaseException]:
        """Take ``steps`` in order and return their faults. A fault ends them only where it concerns the rest too.

        1. Stop where the sentinel has become more urgent.
        2. Stop after a fault that may pass: the store would not answer for the rest either, and take as long.
        3. Stop where the store refuses the step that probes it, except at the end of the run: then all is tried.
        """
        faults: list[BaseException] = []
        began = time.monotonic()
        for step in steps:
            if _sentinel_is_urgent(run, ending, began + _HOLD_S):
                break
            try:
                step.do()
            except BaseException as fault:  # noqa: BLE001 - whatever it is, the other steps are taken
                faults.append(fault)
                if _may_pass(fault) or (step.probes_store and ending is None and isinstance(fault, StoreError)):
                    break
        return faults

    def _held_back(self, ending: tuple[str, str] | None, faults: list[BaseException]) -> bool:
        """Whether what comes next in this beat waits, because a failed step may work on another try."""
        waited_s = time.monotonic() - self._ending_since if self._ending_since is not None else 0.0
        return any(map(_may_pass, faults)) and (ending is None or waited_s < _HOLD_S)

    def _steps(self, run: Run, environment: RunEnvironment, ending: tuple[str, str] | None) -> Iterator[BeatStep]:
        """What rank 0 writes in a beat besides the sentinel.

        1. The first beat begins the attempt, which includes metadata.json.
        2. Any later beat and the last one write metadata.json. So does the first one of a distributed training, to tell
           the other ranks that the attempt has begun.
        3. progress.json, if the step advanced.
        4. The tasks.
        5. After the first heartbeat, which must not wait for it: ask which machine this is.
        """
        first, last, now = not self._begun, ending is not None, time.time()
        folder = f"{run.run_id}/"
        if first:
            yield BeatStep(lambda: self._begin_attempt(run, environment), probes_store=True)
        if self._begun and (not first or last or environment.rank.world > 1):
            yield BeatStep(lambda: self._write_metadata(run, environment, now, quick=first or last), probes_store=True)
        if not environment.yields():
            yield BeatStep(lambda: self._write_progress(run, environment.store, folder, time.time(), last=last))
        attempt = self._identity.attempt if self._identity is not None else None
        yield from self._alert_steps(run, environment, attempt)
        yield from self._health_steps(run, environment, attempt, ending)
        deadline = time.monotonic() + _HOLD_S
        yield BeatStep(
            lambda: self._tasks.write(
                self._beat_of(run, environment, now, ending), lambda: _sentinel_is_urgent(run, ending, deadline)
            )
        )
        if first and not last:
            yield BeatStep(lambda: self._find_instance(environment))

    def _alert_steps(self, run: Run, environment: RunEnvironment, attempt: int | None) -> Iterator[BeatStep]:
        """What training has raised."""
        raised = run.raised
        if raised is None or not raised.waiting:
            return
        if self._alerts is None:
            from lastbeat.sdk.raising import AlertWriter  # noqa: PLC0415 - few trainings raise any

            self._alerts = AlertWriter(ValueReader(warnings=self._warnings))
        writer, rank = self._alerts, environment.rank.number
        yield BeatStep(lambda: writer.write(environment.store, run.run_id, raised, rank, attempt))

    def _sampled(self, run: Run, environment: RunEnvironment) -> Mapping[str, Any] | None:
        """How this node is. No figure is worth a heartbeat: where it cannot be found out, what was known stands."""
        try:
            return self._health if environment.health is None else environment.health.sample(run)
        except Exception as fault:  # noqa: BLE001 - as said
            self._warnings.warn("health", "lastbeat cannot tell how this node is: %s", fault_text(fault))
            return self._health

    def _health_steps(
        self, run: Run, environment: RunEnvironment, attempt: int | None, ending: tuple[str, str] | None
    ) -> Iterator[BeatStep]:
        """The mark by which a listing shows that this node has conditions."""
        told = list((self._health or {}).get("conditions", ())) if ending is None else []
        if self._node_mark is None:
            if not told:
                return
            from lastbeat.sdk.node_mark import NodeMark  # noqa: PLC0415 - most nodes are well

            self._node_mark = NodeMark(environment.rank.number)
        mark = self._node_mark
        about = {"rank": environment.rank.number, "host": environment.rank.host or None, "attempt": attempt}
        yield BeatStep(lambda: mark.set(environment.store, f"{run.run_id}/", told, about))

    def _beat_of(self, run: Run, environment: RunEnvironment, now: float, ending: tuple[str, str] | None) -> Beat:
        who = self._identity
        start_time, attempt = (iso_time(who.start_time), who.attempt) if who is not None else (None, None)
        return Beat(run, environment.store, f"{run.run_id}/", now, ending, start_time, attempt, self._late)

    def _following_rank(self, run: Run, environment: RunEnvironment) -> FollowingRank:
        if self._follower is None:
            every_s, started = environment.rank_beat_s, self._started_monotonic
            self._follower = FollowingRank(
                environment.store, run.run_id, environment.rank, every_s, started, self._reader
            )
            self._follower.learning = environment.learning
            self._follower.stragglers = environment.stragglers
        return self._follower

    def _write_metadata(self, run: Run, environment: RunEnvironment, now: float, *, quick: bool) -> None:
        assert self._identity is not None  # noqa: S101 - the attempt has begun
        if run.ending is None and environment.yields():
            return
        used = self._used(quick=quick)
        document = metadata_document(run, self._identity, now, used, self._reader, self._offset.seconds)
        fields = rank_zero_fields(environment.rank, begun=True, beat_s=environment.rank_beat_s)
        fields |= _in_place_fields(environment)
        if environment.stragglers is not None:
            fields |= environment.stragglers.run_fields()
        if not quick:
            self._health = self._sampled(run, environment)
        fields["health"] = self._health
        fields |= self._wrapped_fields()
        self._late = tells_late(document)
        fields["longest_gap_s"] = round(self._longest_gap_s, 1) or None
        key, body = f"{run.run_id}/{runid.METADATA}", encode(document | fields)
        if not self._version or run.ending is not None:
            self._offset.write(environment.store, key, body)
        else:
            try:
                self._version = self._offset.write(environment.store, key, body, self._version)
            except ConflictError:
                if environment.yields():
                    # Training has begun to report itself since it was asked.
                    return
                self._version = self._offset.write(environment.store, key, body)
        beaten, self._beaten = self._beaten, time.monotonic()
        if beaten is not None:
            self._longest_gap_s = max(self._longest_gap_s, self._beaten - beaten)

    def _find_instance(self, environment: RunEnvironment) -> None:
        if environment.find_instance is not None and self._identity is not None:
            self._identity = replace(self._identity, instance=environment.find_instance())

    def _used(self, *, quick: bool) -> dict[str, Any] | None:
        """The resources in use. ``quick`` does not wait for the GPUs."""
        if self._meter is None:
            from lastbeat.sdk.resources import ResourceMeter  # noqa: PLC0415 - so that training does not wait for it

            health = self._environment.health if self._environment is not None else None
            self._meter = ResourceMeter(gpus=health.gpus if health is not None else None)
        return self._meter.measure(quick=quick)

    def _write_progress(self, run: Run, store: Store, folder: str, now: float, *, last: bool) -> None:
        """progress.json, if the step advanced."""
        steps = run.steps
        if run.unread_tokens is not None:
            what = (
                "lastbeat leaves tokens out: a value of type %s cannot be counted without waiting for it; give an int"
            )
            self._warnings.warn("tokens", what, run.unread_tokens)
        if steps == self._written_steps:
            return
        document = self._history.document(run, now)
        if document is not None and (last or document["step"] != self._written_step):
            store.write(folder + runid.PROGRESS, encode(document))
            self._written_step = document["step"]
        self._written_steps = steps

    def _begin_attempt(self, run: Run, environment: RunEnvironment, *, tries: int = 2) -> None:
        """Begin a new attempt.

        1. Choose its number, which follows the last attempt's.
        2. Write metadata.json without its own time, and learn the clock offset from the store's stamp. From here on the
           old sentinels are older than the attempt, whether they can be deleted or not.
        3. Write it again with its own time, which nobody can misjudge now.
        4. Delete the last attempt's sentinels. In a distributed training some may already be this attempt's, so only
           what is older than this process goes.

        ``exec --max-restarts`` writes only over what it has read: training may have begun the attempt before it.
        """
        store, key = environment.store, f"{run.run_id}/{runid.METADATA}"
        number, started_unix, there = self._attempt(store, key, environment)
        instance = Instance(environment.instance_id)
        self._identity = AttemptIdentity(
            run.run_id,
            number,
            started_unix,
            instance,
            os.getpid(),
            environment.version,
            environment.beat_s,
            environment.own_limits,
            environment.owner,
            environment.team,
            environment.stop_s,
            environment.ignored,
        )
        if there is not None:
            try:
                self._write_first(run, environment, key, there)
            except ConflictError:
                if tries == 1:
                    raise
                return self._begin_attempt(run, environment, tries=tries - 1)
            self._delete_leftovers(run, environment)
        if environment.rank.world > 1:
            heartbeat = RankZeroHeartbeat(environment.rank, environment.rank_beat_s, self._started_monotonic, number)
            self._tasks.add([heartbeat, LateMark(0)])
        else:
            self._tasks.add([LateMark(0)])
        if environment.learning is not None:
            self._tasks.add([environment.learning])
        if environment.stragglers is not None:
            self._tasks.add([environment.stragglers])
        self._begun = True
        if environment.on_begun is not None:
            environment.on_begun()
        return None

    def _write_first(self, run: Run, environment: RunEnvironment, key: str, there: Expect | str) -> None:
        """Write the attempt's first metadata.json, twice, over what is ``there``. Raises :class:`ConflictError` if it
        has changed."""
        assert self._identity is not None  # noqa: S101 - it has just been chosen
        used = self._used(quick=True)
        fields = rank_zero_fields(environment.rank, begun=False, beat_s=environment.rank_beat_s)
        fields |= _in_place_fields(environment) | self._wrapped_fields()
        document = metadata_document(run, self._identity, None, used, self._reader)
        version = self._offset.write(environment.store, key, encode(document | fields), there)
        document = metadata_document(run, self._identity, time.time(), used, self._reader, self._offset.seconds)
        # Where it cannot be read, nothing can be written on a condition, either.
        guarded = there is not Expect.ANYTHING
        version = environment.store.write(key, encode(document | fields), version if guarded else Expect.ANYTHING)
        self._version = version if guarded else ""

    def _delete_leftovers(self, run: Run, environment: RunEnvironment) -> None:
        store = environment.store
        if environment.rank.world > 1:
            for leftover in leftovers(store, run.run_id, self._started(store)):
                self._delete(store, leftover)
        else:
            for name in runid.SENTINELS:
                self._delete(store, f"{run.run_id}/{name}")

    def _attempt(self, store: Store, key: str, environment: RunEnvironment) -> tuple[int, float, Expect | str | None]:
        """This attempt's number, its start as Unix time, and what its metadata.json may overwrite.

        The last is None if training has begun the attempt itself. An attempt that ``exec`` has begun for this training
        is its own. Asked again with every try to begin.
        """
        anything: Expect | str = Expect.ANYTHING
        try:
            blob = store.read(key, _METADATA_LIMIT_BYTES)
        except DeniedError as error:
            # Some policies let training write but not read, and S3 then does not say that a key is missing.
            safe_log(logging.DEBUG, "the last attempt cannot be read: %s", error)
            blob = None
        else:
            if _shares_metadata(environment):
                anything = Expect.NOTHING if blob is None else blob.version
        if blob is not None and self._identity is not None and start_time_of(blob.body) == iso_time(self._started_unix):
            # It is ours, from a write whose answer was lost.
            return self._identity.attempt, self._started_unix, anything
        if blob is not None and environment.in_place is not None:
            from lastbeat.sdk.exec_in_place import adopted, reported_by_training  # noqa: PLC0415 - as it says

            begun = adopted(blob.body, environment.in_place)
            if begun is not None and environment.started_by_other:
                return *begun, anything
            if begun is not None and reported_by_training(blob.body, environment.in_place):
                return *begun, None
        before = attempt_of(blob.body) if blob is not None else None
        if blob is not None and environment.learning is not None:
            environment.learning.died_in(blob.body)
        resume, *_ = self._reader.read([("resume", self._resume, as_bool)])
        return next_attempt(before, environment.restarts, resume=bool(resume)), self._started_unix, anything

    def _delete(self, store: Store, key: str) -> None:
        try:
            store.delete(key)
        except StoreError as error:
            if error.retryable:
                raise
            # It is older than this attempt, so no reader counts it, and this attempt's sentinel will overwrite it.
            safe_log(logging.DEBUG, "the last attempt's %s stays: %s", key, error)
            self._undeleted.add(key)

    def _started(self, store: Store) -> datetime:
        """When this run started, by the store's clock."""
        return started_at(store, time.monotonic() - self._started_monotonic)

    def _was_preempted(self, run: Run, store: Store) -> bool:
        """Whether somebody has written ``_preempted`` since this attempt began."""
        try:
            there = store.read(f"{run.run_id}/{runid.PREEMPTED}", 0)
        except DeniedError:
            return False
        return there is not None and not is_leftover(there.modified, self._started(store))

    def _wrapped_fields(self) -> dict[str, Any]:
        """Of ``lastbeat exec``: which process it is that trains. Its own is none."""
        if self._meter is None or not self._meter.wraps:
            return {}
        if self._meter.root is None:
            return {"process": None, "process_mark": None, "wraps": True}
        return process_fields(self._meter.root, wraps=True)

    def _wraps(self, environment: RunEnvironment) -> bool:
        """Whether another process trains, which may report itself, too."""
        if environment.in_place is not None:
            return not environment.started_by_other
        return self._meter is not None and self._meter.root is not None

    def _write_sentinel(self, run: Run, environment: RunEnvironment, ending: tuple[str, str]) -> None:
        """Write the sentinel of rank 0.

        1. In a distributed training, an error is the run's ``_error`` only if no other rank of this attempt was first;
           otherwise it goes to ``ranks/0.error``.
        2. Otherwise the sentinel is created only if none is there, because the first of several errors is the cause.
        3. In both cases one of an earlier attempt, which could not be deleted, is overwritten.
        """
        store, attempt = environment.store, self._identity.attempt if self._identity is not None else None
        key = f"{run.run_id}/{ending[0]}"
        if self._wraps(environment) and self._was_preempted(run, store):
            # What really trains has said so itself; how its process then ended says no more.
            return
        # A document, whose lines are not ours to move.
        text = ending[1] if ending[0] == runid.PREEMPTED else with_rank(ending[1], environment.rank, attempt)
        body = text.encode("utf-8", "replace")
        if ending[0] == runid.ERROR and _defers(environment):
            store.write(f"{run.run_id}/{rank_error_key(0)}", body)
            return
        maybe_leftover = key in self._undeleted or not self._begun
        if ending[0] == runid.ERROR and environment.rank.world > 1:
            if not write_if_first(store, key, body, self._started(store) if maybe_leftover else None):
                store.write(f"{run.run_id}/{rank_error_key(0)}", body)
            return
        try:
            store.write(key, body, Expect.ANYTHING if maybe_leftover else Expect.NOTHING)
        except ConflictError:
            safe_log(logging.DEBUG, "%s is already there", key)


def _in_place_fields(environment: RunEnvironment) -> dict[str, Any]:
    """The further fields of metadata.json where training is started again in its place. Who starts it says so from the
    first one on, by which the two are told apart."""
    if environment.in_place is None:
        return {}
    return environment.in_place.fields() | ({} if environment.started_by_other else {"wraps": True})


def _shares_metadata(environment: RunEnvironment) -> bool:
    """Whether this is ``exec --max-restarts``. Training below it may write metadata.json too, and its word stands."""
    return environment.in_place is not None and not environment.started_by_other


def _defers(environment: RunEnvironment) -> bool:
    """Whether somebody else decides what becomes of a failure."""
    if not environment.started_by_other:
        return False
    from lastbeat.sdk.exec_in_place import decides  # noqa: PLC0415 - as above

    return decides(environment.in_place)


def _may_pass(fault: BaseException) -> bool:
    """Whether the store may take it on another try."""
    return isinstance(fault, StoreError) and fault.retryable


def _sentinel_is_urgent(run: Run, ending: tuple[str, str] | None, deadline: float) -> bool:
    """Whether the sentinel outranks the rest of a beat: the run has ended meanwhile, or it has waited long enough.

    ``ending`` is what the beat began with; ``deadline`` is by the monotonic clock.
    """
    return run.ending is not None if ending is None else time.monotonic() > deadline
