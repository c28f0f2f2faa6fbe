"""What a run is reported with, and what a beat does: each feature of the SDK is one :class:`BeatTask`.

    begin ──► each beat: look ──► fields ──► write (rank 0) or follow (another rank) ──► beaten
          ──► at the end of the run: the sentinel ──► over ──► close

What a task fails to do costs no heartbeat, no sentinel and no other task.
"""

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lastbeat.stores.port import Store, StoreError
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.safe_log import fault_text, safe_log

if TYPE_CHECKING:
    from lastbeat.training.sdk.documents import RunIdentity
    from lastbeat.training.sdk.ranks import Rank

T = TypeVar("T")
HOLD_S: Final = 5.0
"""Most time in s that the sentinel waits for heartbeats that the store may accept on a retry. Their other faults do not
delay it."""
BUDGET_S: Final = 2.0
"""Time in s after which a beat stops reading heartbeats; the next beat continues."""


class RunSharing:
    """How this process shares its run with another one that may report it. Here there is none."""

    has_precedence = True
    """Whether this process may overwrite what the other one has written in metadata.json."""

    @property
    def wraps(self) -> bool:
        """Whether the other process trains, and this one only watches it, as ``lastbeat exec`` does."""
        return False

    def fields(self) -> Mapping[str, Any]:
        """The fields of metadata.json by which the two recognize each other."""
        return {}

    def yields(self) -> bool:
        """Whether the other process reports the run now, so that this one writes no heartbeats. Raises
        :class:`StoreError`."""
        return False

    def begun(self, metadata: bytes) -> tuple[int, float] | None:  # noqa: ARG002 - for those who override it
        """Number and start (Unix time in s) of the attempt that the other process has begun for both; None if the
        metadata.json in ``metadata`` belongs to another one."""
        return None

    def defers(self) -> bool:
        """Whether the other process handles a failure of this one, so that it writes no ``_error``."""
        return False


@dataclass(frozen=True, slots=True)
class RunEnvironment:
    """What a process reports its run to, as what, and with which features."""

    store: Store
    identity: "RunIdentity"
    rank: "Rank"
    """This process's rank in distributed training. Only rank 0 writes the run's documents."""
    rank_beat_s: float = 60.0
    """Time in s between two heartbeats of a rank; 0 means none."""
    restarts: int = 0
    """How often a scheduler has restarted this job."""
    resume: object = False
    """Whether there was an earlier attempt even if nothing of it is left, as training gave it."""
    tasks: tuple["BeatTask", ...] = ()
    """The features of the SDK that this run uses, in the order of a beat."""
    sharing: RunSharing = field(default_factory=RunSharing)


@dataclass(frozen=True, slots=True)
class RunStart:
    """A run as this process begins to report it."""

    run: Run
    environment: RunEnvironment
    unix: float
    """When the report began, in Unix time. An attempt that begins now has this start."""
    monotonic: float
    """The same by the monotonic clock."""

    @property
    def rank(self) -> "Rank":
        return self.environment.rank

    @property
    def started(self) -> datetime:
        """The same by the store's clock."""
        return self.environment.store.clock() - timedelta(seconds=time.monotonic() - self.monotonic)

    @property
    def folder(self) -> str:
        """The run's folder in the store, with its slash: ``my-run/``."""
        return f"{self.run.run_id}/"


@dataclass(frozen=True, slots=True)
class Beat:
    """One beat, as its tasks see it. Its heartbeats are written by then."""

    run: Run
    store: Store
    folder: str
    """The run's folder in the store, as in :class:`RunStart`."""
    now: float
    """Unix time in s, by this machine's clock."""
    ending: tuple[str, str] | None = None
    """The sentinel and its text if this is the last beat. Rank 0 writes the sentinel after the tasks."""
    start_time: str | None = None
    """Start of this attempt, as in its metadata.json, and ``attempt`` its number; None until it has begun."""
    attempt: int | None = None
    late: bool = False
    """Its metadata.json says that training has overrun the limit of a section."""
    has_heartbeat: bool = True
    """Whether it has written a heartbeat. Another rank than 0 beats more often than it writes one."""


@dataclass(frozen=True, slots=True)
class BeatStep:
    """One step of a beat. The steps run in order."""

    do: Callable[[], None]
    probes_store: bool = False
    """Whether a store that refuses this step would refuse the rest of the beat as well."""


def take_steps(run: Run, ending: tuple[str, str] | None, steps: Iterable[BeatStep]) -> list[BaseException]:
    """Take ``steps`` in order and return their faults. A fault ends them only if it concerns the rest too.

    ``ending`` is the run's ending when the beat began.

    1. Stop when the sentinel becomes more urgent.
    2. Stop after a fault that may pass: the store would fail the rest too, and each would take as long.
    3. Stop if the store refuses the step that probes it. At the end of the run, try all steps.
    """
    faults: list[BaseException] = []
    deadline = time.monotonic() + HOLD_S
    for step in steps:
        if is_end_urgent(run, ending, deadline):
            break
        try:
            step.do()
        except BaseException as fault:  # noqa: BLE001 - no fault of a step may skip the others
            faults.append(fault)
            if may_pass(fault) or (step.probes_store and ending is None and isinstance(fault, StoreError)):
                break
    return faults


def may_pass(fault: BaseException) -> bool:
    """Whether the store may accept the request on a retry."""
    return isinstance(fault, StoreError) and fault.retryable


def is_end_urgent(run: Run, ending: tuple[str, str] | None, deadline: float) -> bool:
    """Whether the sentinel outranks the rest of a beat: the run has ended meanwhile, or the sentinel has waited enough.

    ``ending`` is the run's ending when the beat began; ``deadline`` is by the monotonic clock.
    """
    return run.ending is not None if ending is None else time.monotonic() > deadline


def go_on(work: Iterator[object]) -> bool:
    """Go on with ``work`` that is spread over beats, for up to ``BUDGET_S``. Returns whether it is done."""
    until = time.monotonic() + BUDGET_S
    return not any(time.monotonic() > until for _ in work)


class BeatTask:
    """A feature of the SDK. The beat thread alone calls its methods; each of them does nothing here.

    An exception is logged, and costs neither a heartbeat nor the sentinel nor another task. Only those of :meth:`write`
    with :attr:`counts`, and those of :meth:`follow`, count as the beat's: the beat is then repeated sooner, and a fault
    that may pass holds the sentinel back for a while.
    """

    purpose = ""
    """What it does, for the log: ``ship the training log``."""
    counts = False
    """Whether a failed :meth:`write` counts as the beat's. Such tasks write before the others."""

    def begin(self, start: RunStart) -> None:
        """Set up the run, once, before its first heartbeat. Returns at once."""

    def look(self, run: Run) -> float:  # noqa: ARG002 - for those who override it
        """Look at training before and after each beat, without the store. Returns the time in s until the next look,
        for which the wait for a beat is cut short."""
        return math.inf

    def take_over(self, metadata: bytes) -> None:
        """Take what the last attempt has left in ``metadata.json``. Rank 0 calls this before it overwrites that."""

    def fields(self, run: Run, *, quick: bool) -> Mapping[str, Any]:  # noqa: ARG002 - for those who override it
        """The task's fields of metadata.json. ``quick`` waits for nothing: the run begins or ends."""
        return {}

    def rank_fields(self, run: Run) -> Mapping[str, Any]:  # noqa: ARG002 - for those who override it
        """The task's fields of the heartbeat of another rank than 0."""
        return {}

    def write(self, beat: Beat) -> None:
        """Write what is due, on rank 0. Called with each beat, and repeatedly with the last one until the sentinel is
        written."""

    def follow(self, beat: Beat) -> None:
        """Do another rank's part. Called as :meth:`write` is, after the heartbeat that may be due."""

    @property
    def wait_s(self) -> float:
        """Seconds until :meth:`follow` has something to do."""
        return math.inf

    def beaten(self, *, begun: bool) -> None:
        """Called with each beat after what it writes, written or not, and before the sentinel. ``begun`` says whether
        this attempt's metadata.json is in the store."""

    def over(self) -> None:
        """Called once the sentinel is written. The process may end as soon as this returns."""

    def close(self) -> None:
        """Release all resources: the run is over."""


class BeatTasks:
    """All tasks of a run, in the order of a beat. None can stop another, the beat or the sentinel."""

    def __init__(self, tasks: Iterable[BeatTask] = ()) -> None:
        self._tasks = list(tasks)
        self._added: deque[BeatTask] = deque()
        """Tasks that training has added and that have not begun yet."""
        self._start: RunStart | None = None
        self._failing: dict[int, set[str]] = {}
        """The identity of each task → its methods that fail."""

    def add(self, task: BeatTask) -> None:
        """Add a task that training has come to use. Any thread may call this."""
        self._added.append(task)

    def begin(self, tasks: Iterable[BeatTask], start: RunStart) -> None:
        """Add ``tasks``, which only the run's environment knows of, and begin all of them."""
        self._tasks += tasks
        self._start = start
        self._each("begin", lambda task: task.begin(start))

    def begin_added(self) -> None:
        """Begin the tasks that training has added since the last beat. They come before the others."""
        while self._added and self._start is not None:
            task, start = self._added.popleft(), self._start
            self._tasks.insert(0, task)
            self._guarded(task, "begin", partial(task.begin, start))

    def look(self, run: Run) -> float:
        """Let each task look at training. Returns the time in s until the next look."""
        return min(self._each("look", lambda task: task.look(run)), default=math.inf) if self._start else math.inf

    def take_over(self, metadata: bytes) -> None:
        """Let each task take what the last attempt has left."""
        self._each("take_over", lambda task: task.take_over(metadata))

    def fields(self, run: Run, *, quick: bool) -> dict[str, Any]:
        """All tasks' fields of metadata.json."""
        return _together(self._each("fields", lambda task: task.fields(run, quick=quick)))

    def rank_fields(self, run: Run) -> dict[str, Any]:
        """All tasks' heartbeat fields, for a rank other than 0."""
        return _together(self._each("fields", lambda task: task.rank_fields(run)))

    def steps(self, beat: Beat) -> Iterator[BeatStep]:
        """A step of each task that counts, in which it writes, and then one of all others, which ends when the sentinel
        becomes more urgent."""
        for task in self._tasks:
            if task.counts:
                yield BeatStep(partial(task.write, beat))
        urgent = partial(is_end_urgent, beat.run, beat.ending, time.monotonic() + HOLD_S)
        yield BeatStep(lambda: self._write(beat, urgent))

    def _write(self, beat: Beat, stop: Callable[[], bool]) -> None:
        self._each("write", lambda task: None if task.counts else task.write(beat), stop)

    def follow_steps(self, beat: Beat) -> Iterator[BeatStep]:
        """A step of each task, in which it does another rank's part."""
        return (BeatStep(partial(task.follow, beat)) for task in self._tasks)

    @property
    def wait_s(self) -> float:
        """Seconds until the first task of another rank has something to do."""
        return min(self._each("wait", lambda task: task.wait_s), default=math.inf)

    def beaten(self, *, begun: bool) -> None:
        """Let each task know that the beat is done."""
        self._each("beaten", lambda task: task.beaten(begun=begun))

    def over(self) -> None:
        """Let each task know that the sentinel is written."""
        self._each("over", lambda task: task.over())

    def close(self) -> None:
        self._each("close", lambda task: task.close())

    def _each(self, method: str, call: Callable[[BeatTask], T], stop: Callable[[], bool] = lambda: False) -> list[T]:
        """What ``call`` returns for each task that does not fail, until ``stop`` returns True."""
        found: list[T] = []
        for task in self._tasks:
            if stop():
                break
            found += self._guarded(task, method, partial(call, task))
        return found

    def _guarded(self, task: BeatTask, method: str, call: Callable[[], T]) -> list[T]:
        """What ``call`` returns, or nothing if it fails. A failure is logged unless the task is known to fail."""
        failing = self._failing.setdefault(id(task), set())
        try:
            found = call()
        except BaseException as fault:  # noqa: BLE001 - whatever it is, it must cost no heartbeat and no sentinel
            if not failing:
                safe_log(logging.WARNING, "lastbeat cannot %s and keeps trying: %s", task.purpose, fault_text(fault))
            failing.add(method)
            return []
        failing.discard(method)
        return [found]


def _together(fields: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: value for each in fields for name, value in each.items()}
