"""What a beat does besides its two heartbeats: the log, the stacks, the rank's heartbeat, the watchdog check."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from lastbeat.stores.port import Store
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.safe_log import fault_text, safe_log


@dataclass(frozen=True, slots=True)
class Beat:
    """One beat, as its tasks see it. Its metadata.json and progress.json are written by then."""

    run: Run
    store: Store
    folder: str
    """The run's folder in the store, with its slash: ``my-run/``."""
    now: float
    """Unix time in s, by this machine's clock."""
    ending: tuple[str, str] | None = None
    """The sentinel and its text if this is the last beat. The sentinel is written after the tasks."""
    start_time: str | None = None
    """Start of this attempt, as in its metadata.json. ``attempt`` is its number."""
    attempt: int | None = None
    late: bool = False
    """Its metadata.json says that training has overrun the limit of a section."""


@dataclass(frozen=True, slots=True)
class BeatStep:
    """One step of a beat. The steps run in order."""

    do: Callable[[], None]
    probes_store: bool = False
    """Whether a store that refuses this step would refuse the rest of the beat as well."""


class BeatTask(Protocol):
    """Something that every beat does. Both methods are called by the beat thread alone."""

    purpose: str
    """What it does, for the log: ``ship the training log``."""

    def write(self, beat: Beat) -> None:
        """Write what is due. An exception is logged, and the beat goes on.

        Called with each beat, and repeatedly with the last one until the sentinel is written.
        """
        ...

    def close(self) -> None:
        """Release all resources. The run is over and its sentinel is written."""
        ...


class BeatTasks:
    """Several tasks. None can stop another, the beat or the sentinel."""

    def __init__(self, tasks: Iterable[BeatTask] = ()) -> None:
        self._tasks = list(tasks)
        self._failing: set[int] = set()

    def add(self, tasks: Iterable[BeatTask]) -> None:
        """Add tasks that only the run's environment knows of."""
        self._tasks += tasks

    def write(self, beat: Beat, stop: Callable[[], bool] = lambda: False) -> None:
        """Let each task write until ``stop`` returns True. Of repeated failures of a task, only the first is logged."""
        for index in range(len(self._tasks)):
            if stop():
                return
            self._guarded(index, lambda task: task.write(beat))

    def close(self) -> None:
        """Close every task."""
        for index in range(len(self._tasks)):
            self._guarded(index, lambda task: task.close())

    def _guarded(self, index: int, call: Callable[[BeatTask], None]) -> None:
        task = self._tasks[index]
        try:
            call(task)
        except BaseException as fault:  # noqa: BLE001 - whatever it is, it must cost no heartbeat and no sentinel
            if index not in self._failing:
                safe_log(logging.WARNING, "lastbeat cannot %s and keeps trying: %s", task.purpose, fault_text(fault))
            self._failing.add(index)
        else:
            self._failing.discard(index)
