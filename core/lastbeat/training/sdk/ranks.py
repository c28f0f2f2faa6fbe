"""A rank of distributed training: which one this process is, and what it writes (its heartbeat, error and late mark).

Listings show names and times but no text. So a rank that has overrun a section has a file that says so by its name:
without it a watcher would have to read the heartbeat of every rank.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lastbeat.model import runid
from lastbeat.model.json_values import encode
from lastbeat.model.runid import rank_error_key, rank_key
from lastbeat.stores.port import Store
from lastbeat.training.sdk.beat_tasks import Beat, BeatStep, BeatTask, BeatTasks, RunStart
from lastbeat.training.sdk.documents import delete_if_allowed, iso_time, process_mark
from lastbeat.training.sdk.first_error import RankZeroState, rank_zero_state, retry_for, write_first_error
from lastbeat.training.sdk.run import Run, is_cancelled
from lastbeat.training.sdk.safe_log import WarnOnce
from lastbeat.training.sdk.sections import SectionLimits, section_fields, time_fields
from lastbeat.training.sdk.values import ValueReader, as_int, as_number, as_process_count, as_text

# The variables of each launcher: the rank, then possible world sizes. The innermost launcher comes first: torchrun
# inside srun numbers its own workers, and then Slurm's variables describe the node. LOCAL_RANK numbers the processes
# of a node, so it is no source here.
_SOURCES = (
    ("RANK", ("WORLD_SIZE",)),
    ("OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_SIZE",)),
    ("MV2_COMM_WORLD_RANK", ("MV2_COMM_WORLD_SIZE",)),
    ("PMI_RANK", ("PMI_SIZE",)),
    ("FLUX_TASK_RANK", ("FLUX_JOB_SIZE",)),
    ("SLURM_PROCID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS")),
    ("PMIX_RANK", ("WORLD_SIZE",)),
)
_LOCAL = (
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "FLUX_TASK_LOCAL_ID",
    "SLURM_LOCALID",
)
_GOLDEN_RATIO = 0.6180339887498949


@dataclass(frozen=True, slots=True)
class Rank:
    """One process of ``world``; rank 0 of 1 if training is not distributed."""

    number: int = 0
    world: int = 1
    local: int | None = None
    """Its local rank on the node, if known."""
    host: str = ""

    @property
    def leads(self) -> bool:
        """Whether it is rank 0, which writes the run's documents."""
        return self.number == 0

    def __str__(self) -> str:
        where = f" on {self.host}" if self.host else ""
        place = f", local rank {self.local}" if self.local is not None else ""
        return f"rank {self.number} of {self.world}{where}{place}, process {os.getpid()}"


def rank_of(environ: Mapping[str, str], host: str = "", rank: int | None = None, world_size: int | None = None) -> Rank:
    """The rank that the launcher gave this process, unless ``rank`` and ``world_size`` are given.

    A launcher's variable counts if it is a whole number. The world is at least as large as its ranks require.
    """
    found, size = 0, None
    for name, sizes in _SOURCES:
        number = _variable(environ, name)
        if number is not None:
            found, size = number, next((n for n in (_variable(environ, of) for of in sizes) if n is not None), None)
            break
    given, given_size = as_process_count(rank), as_process_count(world_size)
    found, size = found if given is None else given, (size or 1) if given_size is None else given_size
    local = next((place for place in (_variable(environ, name) for name in _LOCAL) if place is not None), None)
    return Rank(found, max(size, found + 1), local, host)


def first_beat_s(rank: int, every_s: float) -> float:
    """Time in s from a rank's start to its first beat. The golden ratio spreads any number of ranks evenly."""
    return (rank * _GOLDEN_RATIO % 1.0) * every_s


def with_rank(error: str, rank: Rank, attempt: int | None = None) -> str:
    """The text of an ``_error`` with its rank in the second line; unchanged if training is not distributed."""
    if rank.world < 2:
        return error
    first, _, rest = error.partition("\n")
    return f"{first}\n{rank}{f', attempt {attempt}' if attempt else ''}\n{rest}"


def rank_zero_fields(rank: Rank, *, begun: bool, beat_s: float = 0.0) -> dict[str, Any]:
    """The extra fields of metadata.json in distributed training; see ``first_error`` for ``begun``. ``beat_s`` is the
    time between two heartbeats of a rank; 0 means none."""
    if rank.world < 2:
        return {}
    return {"world_size": rank.world, "begun": begun, "rank_beat_seconds": beat_s or None}


def rank_document(
    run: Run, rank: Rank, attempt: int | None, at: float, reader: ValueReader | None = None, beat_s: float | None = None
) -> dict[str, Any]:
    """The content of ranks/{rank}.json at Unix time ``at``: shows that this rank is alive, and its progress."""
    step, loss = (run.latest[0], run.latest[1]) if run.latest is not None else (None, None)
    # The loss comes last: if a collective hangs, so does every tensor that depends on it, and the rest must be read.
    asked = [("step", step, as_int), ("phase", run.phase_now[0], as_text), ("loss", loss, as_number)]
    step_now, phase, loss_now = (reader or ValueReader()).read(asked)
    return {
        "run_id": run.run_id,
        "rank": rank.number,
        "world_size": rank.world,
        "local_rank": rank.local,
        "host": rank.host or None,
        "pid": os.getpid(),
        "process_mark": process_mark(os.getpid()),
        "status": run.status,
        "phase": phase,
        "step": step_now,
        "loss": loss_now,
        "attempt": attempt,
        "thread_error": run.thread_error.line if run.thread_error is not None else None,
        "beat_seconds": beat_s,
        **section_fields(() if run.ended else run.sections.spans()),
        **time_fields(run.sections),
        "last_update": iso_time(at),
    }


def _variable(environ: Mapping[str, str], name: str) -> int | None:
    value = environ.get(name, "").strip()
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else None


_LEAST_S: Final = 1.0
"""Shortest time in s until the next check of a section's limit."""


def is_late(run: Run) -> bool:
    """Whether training is still running and has overrun the limit of a section."""
    return not run.ended and any(span.is_late for span in run.sections.spans())


def late_in_s(run: Run) -> float | None:
    """Seconds until training can be late at the earliest, whether it stays in its section or enters one with a shorter
    limit. None if it is late already, or no limit applies."""
    spans, limits = run.sections.spans(), run.sections.limits
    if run.ended or any(span.is_late for span in spans):
        return None
    known = (*limits.sections.values(), limits.outside_s)
    soonest = [max(_LEAST_S, each) for each in known if each is not None]
    return min([*soonest, *(span.left_s for span in spans if span.left_s is not None)], default=None)


class LateMark:
    """The mark of one rank, which exists only while the rank is late. Readers ignore a mark of an earlier attempt,
    because it is older than this one."""

    def __init__(self, rank: int) -> None:
        self._name = f"ranks/{rank}.late"
        self.there = False

    def set(self, store: Store, folder: str, *, late: bool) -> None:
        """Write or delete the mark if it has changed, after the rank's heartbeat. Raises :class:`StoreError`."""
        if late is self.there:
            return
        if late:
            store.write(folder + self._name, b"")
        else:
            # If it stays, the heartbeat shows that the rank is not late.
            delete_if_allowed(store, folder + self._name)
        self.there = late


class SectionWatch(BeatTask):
    """Gives sections their limits, and marks rank 0 while it is late. Another rank's mark goes with its heartbeat."""

    purpose = "say that a section takes too long"

    def __init__(self, limits: SectionLimits) -> None:
        self._limits = limits
        self._mark = LateMark(0)

    def begin(self, start: RunStart) -> None:
        start.run.sections.limits = self._limits

    def write(self, beat: Beat) -> None:
        """Set the mark. Readers take rank 0's sections from metadata.json."""
        self._mark.set(beat.store, beat.folder, late=beat.ending is None and beat.late)


_IDLE_S = 3600.0


class RankHeartbeat:
    """Writes ranks/{rank}.json as often as the environment says. Ranks are spread over the interval."""

    def __init__(self, start: RunStart, reader: ValueReader | None = None) -> None:
        self._store, every_s = start.environment.store, start.environment.rank_beat_s
        self._rank = rank = start.rank
        self._key = start.folder + rank_key(rank.number)
        self._reader = reader or ValueReader()
        self._every_s = every_s if rank.world > 1 else 0.0
        self._next = start.monotonic + first_beat_s(rank.number, every_s)

    def close(self) -> None:
        self._reader.close()

    @property
    def wait_s(self) -> float:
        """Seconds until the next beat is due."""
        return max(0.0, self._next - time.monotonic()) if self._every_s else _IDLE_S

    @property
    def beats(self) -> bool:
        """Whether this rank writes heartbeats at all."""
        return self._every_s > 0

    def beat(self, run: Run, attempt: int | None, *, now: bool = False, more: Mapping[str, Any] | None = None) -> None:
        """Write the heartbeat with the fields ``more`` if it is due, or at once if ``now``. Raises
        :class:`StoreError`."""
        due = self.wait_s == 0.0
        if not self._every_s or not (now or due):
            return
        document = rank_document(run, self._rank, attempt, time.time(), self._reader, self._every_s)
        self._store.write(self._key, encode({**document, **(more or {})}))
        if not due:
            return
        # Keep the schedule: counted from now, all ranks would beat at the same moment after an outage.
        behind = time.monotonic() - self._next
        self._next += self._every_s * (1 + max(0.0, behind) // self._every_s)


class RankZeroHeartbeat(BeatTask):
    """Writes ranks/0.json beside the documents of a distributed run, so that all ranks can be compared."""

    purpose = "write the heartbeat of rank 0"

    def __init__(self) -> None:
        self._heartbeat: RankHeartbeat | None = None

    def begin(self, start: RunStart) -> None:
        if start.rank.world > 1:
            self._heartbeat = RankHeartbeat(start)

    def write(self, beat: Beat) -> None:
        if self._heartbeat is not None and beat.attempt is not None:
            self._heartbeat.beat(beat.run, beat.attempt, now=beat.ending is not None)

    def close(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.close()


class FollowingRank:
    """Writes the heartbeat and the error of a rank other than 0. Only rank 0 writes the run's own documents."""

    begun = False
    """Only rank 0 begins the attempt."""

    def __init__(self, start: RunStart, tasks: BeatTasks) -> None:
        self._start, self._store, self._rank = start, start.environment.store, start.rank
        self._run_id, self._folder = start.run.run_id, start.folder
        self._tasks = tasks
        self._heartbeat = RankHeartbeat(start, ValueReader(warnings=WarnOnce()))
        self._error_key = self._folder + rank_error_key(self._rank.number)
        self._mark = LateMark(self._rank.number)
        self._attempt: int | None = None
        """The number of the attempt, from rank 0; None until it is known."""
        self._body: bytes | None = None
        self._maybe_leftover = True
        """Whether this rank's error of an earlier attempt may still be there."""
        self._has_beaten = False
        """Whether this beat has written a heartbeat."""
        self._is_run_error = False
        """Whether the run's ``_error`` is this rank's error, so that it needs no ``ranks/{rank}.error``."""

    @property
    def _wait_s(self) -> float:
        """Seconds until this rank has something to write."""
        return min(self._heartbeat.wait_s, self._tasks.wait_s)

    def pause_s(self, spent_s: float) -> float:  # noqa: ARG002 - as of rank 0
        """Time in s to the next beat."""
        announcement = self._start.run.announcement
        return self._wait_s if announcement is None else min(self._wait_s, announcement.poll_s)

    def first_steps(self, ending: tuple[str, str] | None) -> Iterator[BeatStep]:
        """The steps before the heartbeat or the error: delete an old error, and learn the attempt from rank 0."""
        if ending is None and self._wait_s > 0:
            return
        if self._maybe_leftover and ending is None:
            yield BeatStep(self._delete_error)
        if self._attempt is None and (ending is None or ending[0] == runid.ERROR):
            yield BeatStep(self._learn_attempt)

    def end_steps(self, ending: tuple[str, str]) -> Iterator[BeatStep]:  # noqa: ARG002 - as of rank 0
        """Nothing more precedes the error."""
        return iter(())

    def write_end(self, ending: tuple[str, str]) -> None:
        """Write this rank's error if it ended with one. Raises :class:`StoreError`.

        A cancelled rank writes none. A stop of the whole run reaches rank 0 too, which reports it. And torchelastic
        stops the ranks that outlive a failed one; those stops are not the cause.
        """
        if ending[0] == runid.ERROR and not is_cancelled(ending):
            self._write_error(ending[1])

    def last_steps(self, ending: tuple[str, str] | None) -> Iterator[Iterable[BeatStep]]:
        """The steps after the error: the heartbeat's, then each task's. A fault of one group does not end the next."""
        yield self._heartbeat_steps(ending)
        run, attempt, now = self._start.run, self._attempt, time.time()
        beat = Beat(run, self._store, self._folder, now, ending, attempt=attempt, has_heartbeat=self._has_beaten)
        for step in self._tasks.follow_steps(beat):
            yield (step,)

    def _heartbeat_steps(self, ending: tuple[str, str] | None) -> Iterator[BeatStep]:
        """The steps that write the heartbeat and the late mark, if the heartbeat is due or the lateness has changed."""
        self._has_beaten = False
        run = self._start.run
        if self._is_run_error and self._maybe_leftover:
            yield BeatStep(self._delete_error)
        if run.announcement is not None and ending is None:
            announcement = run.announcement
            yield BeatStep(lambda: announcement.follow(self._rank_zero()))
        late = ending is None and self._heartbeat.beats and is_late(run)
        now = ending is not None or late is not self._mark.there
        if now or self._heartbeat.wait_s == 0.0:
            more = self._tasks.rank_fields(run)
            yield BeatStep(lambda: self._heartbeat.beat(run, self._attempt, now=now, more=more))
            yield BeatStep(lambda: self._mark.set(self._store, self._folder, late=late))
            # Not reached after a fault that ends this group.
            self._has_beaten = True

    def close(self) -> None:
        self._heartbeat.close()

    def _delete_error(self) -> None:
        """Delete this rank's error of an earlier attempt."""
        delete_if_allowed(self._store, self._error_key)
        self._maybe_leftover = False

    def _learn_attempt(self) -> None:
        self._attempt = self._rank_zero().attempt

    def _rank_zero(self) -> RankZeroState:
        return rank_zero_state(self._store, self._run_id, self._start.started)

    def _write_error(self, text: str) -> None:
        if self._body is None:
            # Built once, so that a retry after a fault recognises its own text.
            self._body = with_rank(text, self._rank, self._attempt).encode("utf-8", "replace")
        if self._start.environment.sharing.defers():
            self._store.write(self._error_key, self._body)
            return
        result = write_first_error(self._store, self._run_id, self._body, self._start.started, retry_for())
        self._is_run_error = result.is_run_error and result.is_final
        if not self._is_run_error:
            self._store.write(self._error_key, self._body)
