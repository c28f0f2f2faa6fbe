"""The beat thread: writes the reports of training, and retries each failed write until it succeeds."""

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
from lastbeat.model.runid import rank_error_key
from lastbeat.model.times import backoff_s
from lastbeat.stores.port import ConflictError, DeniedError, Expect, Store, StoreError
from lastbeat.training.sdk.beat_tasks import Beat, BeatStep, BeatTask, BeatTasks
from lastbeat.training.sdk.documents import (
    AttemptIdentity,
    ClockOffset,
    ProgressHistory,
    attempt_of,
    encode,
    iso_time,
    metadata_document,
    next_attempt,
    process_fields,
    start_time_of,
)
from lastbeat.training.sdk.first_error import is_leftover, leftovers, started_at, write_if_first
from lastbeat.training.sdk.instance import Instance
from lastbeat.training.sdk.ranks import (
    FollowingRank,
    LateMark,
    Rank,
    RankZeroHeartbeat,
    is_late,
    late_in_s,
    rank_zero_fields,
    with_rank,
)
from lastbeat.training.sdk.run import Run, remember
from lastbeat.training.sdk.safe_log import WarnOnce, fault_text, safe_log
from lastbeat.training.sdk.sections import SectionLimits, reports_late
from lastbeat.training.sdk.threads import delay_unsafe_forks
from lastbeat.training.sdk.value_reader import ValueReader
from lastbeat.training.sdk.values import as_bool

if TYPE_CHECKING:
    from lastbeat.model.in_place import InPlace
    from lastbeat.training.node.gpus import GpuMonitor
    from lastbeat.training.node.resources import ResourceMeter
    from lastbeat.training.sdk.learning import Learning
    from lastbeat.training.sdk.raising import AlertWriter
    from lastbeat.training.sdk.ranks import NodeMark
    from lastbeat.training.sdk.stragglers import StragglerWatch
    from lastbeat.training.sdk.time_limit import StopTime

_RETRY_S = 1.0
_RETRY_CAP_S = 30.0
_STOP_S = 1.0
"""Most time in s that the end of the process waits for the beat thread of a run that has not ended."""
_HOLD_S = 5.0
"""Most time in s that the sentinel waits for heartbeats that the store may accept on a retry. Their other faults do not
delay it."""
_METADATA_LIMIT_BYTES = 64 * 1024
_LATE_S = 0.25
"""Re-check for overrun sections at most this many s after their limit."""


class Guard:
    """Receives the state of the run, so that another process can report an end that this one cannot. No method raises.

    This base class does nothing; see :class:`lastbeat.training.guardian.start.GuardianClient`.
    """

    def begin(self, rank: Rank, started_unix: float, started_monotonic: float) -> None:
        """Called when reporting begins."""

    def beat(self, *, begun: bool) -> None:
        """Called after each heartbeat, written or failed. ``begun`` says whether this attempt's metadata.json is in the
        store."""

    def ending(self, sentinel: str, text: str) -> None:
        """Called when the run has ended, before its sentinel is written."""

    def over(self) -> None:
        """Called when the sentinel is written."""


class HealthSource(Protocol):
    """Samples the health of a node, for the beat thread: see :class:`lastbeat.training.node.sampler.NodeSampler`."""

    gpus: "GpuMonitor"

    @property
    def wait_s(self) -> float:
        """Seconds until the next sample is due."""
        ...

    def sample(self, run: Run) -> Mapping[str, Any] | None:
        """The field ``health`` of metadata.json."""
        ...

    def close(self) -> None:
        """Release all resources: the run is over."""
        ...


@dataclass(frozen=True, slots=True)
class RunEnvironment:
    """The store that a run reports to, the machine it reports from, and its settings."""

    store: Store
    instance_id: str
    restarts: int = 0
    """How often a scheduler has restarted this job."""
    beat_s: float = 30.0
    own_limits: Mapping[str, float | str | None] = field(default_factory=dict)
    """Name in metadata.json → a limit that the run sets for itself, in minutes."""
    stop_s: float | None = None
    """Time in s between two checks for a stop request; None for no checks."""
    owner: str | None = None
    """Owner of the run."""
    team: str | None = None
    ignored: tuple[str, ...] = ()
    """Invalid settings that keep their default, such as ``LASTBEAT_LEARN='banana'``."""
    sections: SectionLimits = field(default_factory=SectionLimits)
    """The time limits of training's sections."""
    version: str = ""
    """Version of lastbeat."""
    find_instance: Callable[[], Instance] | None = None
    """Finds out more about this machine. Called once, after the first heartbeat."""
    tasks: tuple[BeatTask, ...] = ()
    """Tasks of each beat besides its heartbeats."""
    rank: Rank = field(default_factory=Rank)
    """This process's rank in distributed training. Only rank 0 writes the run's documents."""
    rank_beat_s: float = 60.0
    """Time between two heartbeats of a rank; 0 means none."""
    guard: Guard = field(default_factory=Guard)
    on_entered: tuple[Callable[[Run], None], ...] = ()
    """Called once each before the first beat; they return at once. For example, one polls the cloud's notices and asks
    training to stop before the machine goes."""
    time_limit: "StopTime | None" = None
    """When to ask training to stop, before its job's time limit; None without a limit."""
    learning: "Learning | None" = None
    """Learns the limits of sections; None if limits are not learned."""
    stragglers: "StragglerWatch | None" = None
    """Finds slow ranks; None if stragglers are not detected."""
    on_begun: Callable[[], None] | None = None
    """Called once on rank 0, after its first metadata.json is written."""
    in_place: "InPlace | None" = None
    """Identifies this start if ``exec --max-restarts`` restarts training in place, both in training and in ``exec``."""
    started_by_other: bool = False
    """Whether this process is training below ``exec --max-restarts``, not ``exec`` itself."""
    health: "HealthSource | None" = None
    """Samples this process's node; None if another rank samples it, or health is off."""
    yields: Callable[[], bool] = bool
    """In ``exec``: whether training reports itself now, so that ``exec`` writes no heartbeats."""


class Reporter:
    """Beats for one run, in a daemon thread. Each outage is logged once, and everything is tried again.

    No failure ends the thread, and only the store's failures delay the sentinel. ``prepare`` runs in the thread,
    because it connects to the store and inspects the machine.
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
        """Whether the end will never be written, because the settings name no usable store."""
        self._thread: threading.Thread | None = None
        self._identity: AttemptIdentity | None = None
        self._version = ""
        """The version of metadata.json that this process wrote last; empty unless training writes the file too."""
        self._begun = False
        """Whether this attempt's first metadata.json is written, and the last attempt's sentinels are gone."""
        self._failing = False
        self._failures = 0
        """Failed beats in a row."""
        self._fault = ""
        """The fault of the last failed beat."""
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
        """Whether the last metadata.json reports an overrun section."""
        self._health: Mapping[str, Any] | None = None
        """The last sample of this node's health."""
        self._node_mark: NodeMark | None = None
        self._left = False
        """Whether this reporter has left the run to another attempt, which has a reporter of its own."""

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
            began = time.monotonic()
            self._look_at_time(run)
            run.announce_stop()
            try:
                self._beat(run)
                if not (self._end_written or self._given_up):
                    self._wait(run, time.monotonic() + self._pause_s(time.monotonic() - began))
            except BaseException as fault:  # noqa: BLE001 - only the end of its run ends this thread
                safe_log(logging.WARNING, "lastbeat had an unexpected fault and beats on: %s", fault_text(fault))
                time.sleep(_RETRY_S)
        if self._end_written or self._given_up or self._left:
            self._close()

    def _look_at_time(self, run: Run) -> None:
        """Ask training to stop if its job's time limit is near."""
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
        """Pause in s after a beat that took ``spent_s``, cut short by the job's stop time."""
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
            if self._run.announcement is not None:
                wait_s = min(wait_s, self._run.announcement.poll_s)
            return max(0.05, wait_s if health is None else min(wait_s, health.wait_s))
        return max(0.05, beat_s - spent_s)

    def _beat(self, run: Run) -> None:
        """Beat once, and log the first failure and the recovery. After the end of the run, write the sentinel too."""
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
        """Write everything that one beat writes.

        1. Prepare the environment (store, rank, further tasks) unless that has worked before. This makes no request to
           the store, so after the end of the run it is tried only once, unless its fault may pass.
        2. Rank 0 takes the steps of :meth:`_steps`; any other rank takes those that precede its heartbeat.
        3. If the store may accept a failed write on a retry, leave the rest to the next beat. After the end of the run
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
        """Set up the run, once, as soon as the environment is known."""
        run.sections.limits = environment.sections
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
        """Take ``steps`` in order and return their faults. A fault ends them only if it concerns the rest too.

        1. Stop when the sentinel becomes more urgent.
        2. Stop after a fault that may pass: the store would fail the rest too, and each would take as long.
        3. Stop if the store refuses the step that probes it. At the end of the run, try all steps.
        """
        faults: list[BaseException] = []
        began = time.monotonic()
        for step in steps:
            if _sentinel_is_urgent(run, ending, began + _HOLD_S):
                break
            try:
                step.do()
            except BaseException as fault:  # noqa: BLE001 - no fault of a step may skip the others
                faults.append(fault)
                if _may_pass(fault) or (step.probes_store and ending is None and isinstance(fault, StoreError)):
                    break
        return faults

    def _held_back(self, ending: tuple[str, str] | None, faults: list[BaseException]) -> bool:
        """Whether the rest of this beat waits, because a failed step may work on a retry."""
        waited_s = time.monotonic() - self._ending_since if self._ending_since is not None else 0.0
        return any(map(_may_pass, faults)) and (ending is None or waited_s < _HOLD_S)

    def _steps(self, run: Run, environment: RunEnvironment, ending: tuple[str, str] | None) -> Iterator[BeatStep]:
        """The steps of a beat of rank 0, without the sentinel.

        1. The first beat begins the attempt, which includes metadata.json.
        2. Any later beat and the last one write metadata.json. In distributed training the first one does too, to show
           the other ranks that the attempt has begun.
        3. Write progress.json, if the step advanced.
        4. Run the tasks.
        5. After the first heartbeat, which must not wait for it, identify this machine.
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
        """The step that writes the alerts that training has raised, if any wait."""
        raised = run.raised
        if raised is None or not raised.waiting:
            return
        if self._alerts is None:
            from lastbeat.training.sdk.raising import AlertWriter  # noqa: PLC0415 - few runs raise any

            self._alerts = AlertWriter(ValueReader(warnings=self._warnings))
        writer, rank = self._alerts, environment.rank.number
        yield BeatStep(lambda: writer.write(environment.store, run.run_id, raised, rank, attempt))

    def _sampled(self, run: Run, environment: RunEnvironment) -> Mapping[str, Any] | None:
        """A sample of this node's health, or the last one if sampling fails. No figure is worth a heartbeat."""
        try:
            return self._health if environment.health is None else environment.health.sample(run)
        except Exception as fault:  # noqa: BLE001 - a failed sample must not cost the heartbeat
            self._warnings.warn("health", "lastbeat cannot sample the health of this node: %s", fault_text(fault))
            return self._health

    def _health_steps(
        self, run: Run, environment: RunEnvironment, attempt: int | None, ending: tuple[str, str] | None
    ) -> Iterator[BeatStep]:
        """The step that updates this node's health mark, by which a listing shows that it has conditions."""
        conditions = list((self._health or {}).get("conditions", ())) if ending is None else []
        if self._node_mark is None:
            if not conditions:
                return
            from lastbeat.training.sdk.ranks import NodeMark  # noqa: PLC0415 - most nodes are well

            self._node_mark = NodeMark(environment.rank.number)
        mark = self._node_mark
        about = {"rank": environment.rank.number, "host": environment.rank.host or None, "attempt": attempt}
        yield BeatStep(lambda: mark.set(environment.store, f"{run.run_id}/", conditions, about))

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
        self._late = reports_late(document)
        fields["longest_gap_s"] = round(self._longest_gap_s, 1) or None
        key, body = f"{run.run_id}/{runid.METADATA}", encode(document | fields)
        if not self._version or run.ending is not None:
            self._offset.write(environment.store, key, body)
        else:
            try:
                self._version = self._offset.write(environment.store, key, body, self._version)
            except ConflictError:
                if environment.yields():
                    # Training has begun to report itself since the first check.
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
            from lastbeat.training.node.resources import ResourceMeter  # noqa: PLC0415 - so that training does not wait for it

            health = self._environment.health if self._environment is not None else None
            self._meter = ResourceMeter(gpus=health.gpus if health is not None else None)
        return self._meter.measure(quick=quick)

    def _write_progress(self, run: Run, store: Store, folder: str, now: float, *, last: bool) -> None:
        """Write progress.json, if the step advanced."""
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
        3. Write it again with its own time, which readers can now correct by the offset.
        4. Delete the last attempt's sentinels. In distributed training some may already belong to this attempt, so only
           those older than this process are deleted.

        ``exec --max-restarts`` overwrites only the version that it has read, because training may begin the attempt
        first.
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
        """Write the attempt's first metadata.json, twice, over the version ``there``. Raises :class:`ConflictError` if
        that has changed."""
        assert self._identity is not None  # noqa: S101 - it has just been chosen
        used = self._used(quick=True)
        fields = rank_zero_fields(environment.rank, begun=False, beat_s=environment.rank_beat_s)
        fields |= _in_place_fields(environment) | self._wrapped_fields()
        document = metadata_document(run, self._identity, None, used, self._reader)
        version = self._offset.write(environment.store, key, encode(document | fields), there)
        document = metadata_document(run, self._identity, time.time(), used, self._reader, self._offset.seconds)
        # Without permission to read there is no version to make the write conditional on.
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
        """This attempt's number, its start as Unix time, and the version that its metadata.json may overwrite.

        The last is None if training has begun the attempt itself. Training continues an attempt that ``exec`` has begun
        for it. Every try to begin calls this again.
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
            # This process wrote it, and the answer was lost.
            return self._identity.attempt, self._started_unix, anything
        if blob is not None and environment.in_place is not None:
            from lastbeat.training.sdk.exec_in_place import adopted, reported_by_training  # noqa: PLC0415 - few runs restart

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
        """Start of this run, by the store's clock."""
        return started_at(store, time.monotonic() - self._started_monotonic)

    def _was_preempted(self, run: Run, store: Store) -> bool:
        """Whether another process has written ``_preempted`` since this attempt began."""
        try:
            there = store.read(f"{run.run_id}/{runid.PREEMPTED}", 0)
        except DeniedError:
            return False
        return there is not None and not is_leftover(there.modified, self._started(store))

    def _wrapped_fields(self) -> dict[str, Any]:
        """In ``lastbeat exec``: the fields that identify the process that trains, in place of its own. Otherwise
        empty."""
        if self._meter is None or not self._meter.wraps:
            return {}
        if self._meter.root is None:
            return {"process": None, "process_mark": None, "wraps": True}
        return process_fields(self._meter.root, wraps=True)

    def _wraps(self, environment: RunEnvironment) -> bool:
        """Whether another process trains, which may report the run too."""
        if environment.in_place is not None:
            return not environment.started_by_other
        return self._meter is not None and self._meter.root is not None

    def _write_sentinel(self, run: Run, environment: RunEnvironment, ending: tuple[str, str]) -> None:
        """Write the sentinel of rank 0.

        1. In distributed training, an error is the run's ``_error`` only if no other rank of this attempt was first;
           otherwise it goes to ``ranks/0.error``.
        2. Otherwise the sentinel is created only if none exists, because the first of several errors is the cause.
        3. In both cases a sentinel of an earlier attempt, which could not be deleted, is overwritten.
        """
        store, attempt = environment.store, self._identity.attempt if self._identity is not None else None
        key = f"{run.run_id}/{ending[0]}"
        if self._wraps(environment) and self._was_preempted(run, store):
            # The wrapped training has reported this itself; the exit of its process adds nothing.
            return
        # _preempted is a document, so its lines have to stay where they are.
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
    """The extra fields of metadata.json if ``exec --max-restarts`` restarts training in place. ``wraps`` distinguishes
    the documents of ``exec`` from training's, from the first one on."""
    if environment.in_place is None:
        return {}
    return environment.in_place.fields() | ({} if environment.started_by_other else {"wraps": True})


def _shares_metadata(environment: RunEnvironment) -> bool:
    """Whether this is ``exec --max-restarts``. Training below it may write metadata.json too, and has precedence."""
    return environment.in_place is not None and not environment.started_by_other


def _defers(environment: RunEnvironment) -> bool:
    """Whether ``exec --max-restarts`` handles a failure of this process."""
    if not environment.started_by_other:
        return False
    from lastbeat.training.sdk.exec_in_place import decides  # noqa: PLC0415 - as above

    return decides(environment.in_place)


def _may_pass(fault: BaseException) -> bool:
    """Whether the store may accept the request on a retry."""
    return isinstance(fault, StoreError) and fault.retryable


def _sentinel_is_urgent(run: Run, ending: tuple[str, str] | None, deadline: float) -> bool:
    """Whether the sentinel outranks the rest of a beat: the run has ended meanwhile, or the sentinel has waited enough.

    ``ending`` is the run's ending when the beat began; ``deadline`` is by the monotonic clock.
    """
    return run.ending is not None if ending is None else time.monotonic() > deadline
