"""Ends a run on a person's request: what trains it, the request beside the run, the job of a supervised run, and the
start of its next job, if that has not begun yet."""

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from lastbeat.explain.launchers.traits import RECORDED
from lastbeat.jobs.launchers import registry as launchers
from lastbeat.jobs.launchers.port import Launcher, LauncherError
from lastbeat.model import runid
from lastbeat.model.action import Action
from lastbeat.model.heartbeat import DOCUMENT_LIMIT_BYTES, read_heartbeat
from lastbeat.model.job import JobMemory, JobState
from lastbeat.model.record import Record
from lastbeat.model.restart import RESTART_KIND
from lastbeat.model.stop_request import StopRequest, encode_request, read_request
from lastbeat.stores.port import Blob, ConflictError, Expect, Store
from lastbeat.watch.record.repository import RecordRepository

_FOR_GOOD = "no restart policy undoes that"


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job of a supervised run, with the options of its launcher and the place where it was started."""

    memory: JobMemory
    options: tuple[str, ...] = ()
    place: str = ""

    @classmethod
    def of(cls, record: Record, memory: JobMemory) -> "RunningJob":
        """The job ``memory`` of the run of ``record``."""
        begun = record.supervision
        return cls(memory) if begun is None else cls(memory, begun.spec.options, begun.place)

    def launcher(self, state_dir: Path | None) -> Launcher | None:
        """The launcher that can end the job; None if it cannot be used from here."""
        if self.memory.launcher not in RECORDED or state_dir is None:
            return None
        try:
            return launchers.module(self.memory.launcher).launcher(state_dir, self.options, self.place)
        except LauncherError:
            # The run was begun by a version with other options.
            return None

    def has_ended(self, state_dir: Path | None) -> bool:
        """Whether the launcher says that the job has ended."""
        launcher = self.launcher(state_dir)
        return launcher is not None and launcher.state(self.memory.id).state.ended

    def end(self, state_dir: Path | None) -> str:
        """End the job if its launcher can be used from here. Returns a sentence for the user."""
        job, launcher = self.memory, self.launcher(state_dir)
        if launcher is None:
            return f"job {job.id} of {job.launcher} cannot be ended from here: its supervisor does that; {_FOR_GOOD}"
        report = launcher.state(job.id)
        if report.state is JobState.UNKNOWN:
            return f"job {job.id} cannot be ended from here ({report.reason}): its supervisor does that; {_FOR_GOOD}"
        try:
            launcher.cancel(job.id)
        except LauncherError as error:
            return f"job {job.id} could not be ended: {error.told}; its supervisor tries, too; {_FOR_GOOD}"
        return f"job {job.id} is being ended; {_FOR_GOOD}"


@dataclass(frozen=True, slots=True)
class RunningTraining:
    """What trains a run, by metadata.json."""

    start_time: datetime | None
    attempt: int | None
    process: int | None = None
    mark: str | None = None
    wraps: bool = False
    looks_s: float | None = None
    """Time in s between two looks for a request; None if it does not look."""
    job: RunningJob | None = None
    """The job of a supervised run whose training does not report itself."""
    heeds_stop: bool = False
    """Whether training checks ``run.should_stop``."""


def running_training(store: Store, run_id: str) -> RunningTraining | None:
    """What trains the run; None if neither metadata.json nor a job's record says so. Raises :class:`StoreError`."""
    blob = store.read(f"{run_id}/{runid.METADATA}", DOCUMENT_LIMIT_BYTES)
    supervised = supervised_job(store, run_id)
    # A heartbeat from before the job was submitted belongs to the previous job.
    if supervised is not None and (
        blob is None or blob.modified < supervised[1].memory.submitted_at.replace(microsecond=0)
    ):
        return RunningTraining(None, supervised[0], job=supervised[1])
    if blob is None:
        return None
    beat = read_heartbeat(blob)
    return RunningTraining(
        beat.start_time,
        beat.attempt,
        beat.process if beat.process is not None and 1 < beat.process < 1 << 31 else None,
        beat.process_mark,
        beat.wraps,
        beat.stop_s,
        heeds_stop=beat.heeds_stop,
    )


def supervised_job(store: Store, run_id: str) -> tuple[int, RunningJob] | None:
    """The attempt and the job of a supervised run; None without one. Raises :class:`StoreError`."""
    record = RecordRepository(store, f"{run_id}/{runid.RECORD}", "").reload()
    return None if record is None or record.job is None else (record.attempt.number, RunningJob.of(record, record.job))


def leave_request(store: Store, run_id: str, request: StopRequest) -> StopRequest | None:
    """Write the request beside the run. Returns an earlier one for the same attempt, which stays, or None.

    Raises :class:`StoreError`.
    """
    key = f"{run_id}/{runid.STOP}"
    there = store.read(key, runid.STOP_LIMIT_BYTES)
    known = _earlier_request(there, request)
    if known is None:
        try:
            store.write(key, encode_request(request), Expect.NOTHING if there is None else there.version)
        except ConflictError:
            known = _earlier_request(store.read(key, runid.STOP_LIMIT_BYTES), request)
            if known is None:
                raise
    return known


def _earlier_request(blob: Blob | None, request: StopRequest) -> StopRequest | None:
    known = read_request(blob.body) if blob is not None else None
    return known if known is not None and known.is_of(request.start_time, request.attempt) else None


@dataclass(frozen=True, slots=True)
class CalledOff:
    """What was called off."""

    record: Record
    action: Action


def waiting_start(record: Record) -> Action | None:
    """The start of the run's next job that is still to be made."""
    return next((each for each in reversed(record.actions) if each.kind == RESTART_KIND and not each.settled), None)


class TooLateError(Exception):
    """The start of the job has begun; ``str()`` says what to do."""


def call_off(repository: RecordRepository, by: str) -> CalledOff | None:
    """Call off the run's next job; None if no job is to come. One conditional write, as that which claims a start:
    either it is called off, or it begins.

    Raises :class:`TooLateError` and :class:`StoreError`.
    """
    waiting: Action | None = None

    now = repository.store.clock()

    def change(record: Record | None) -> Record | None:
        nonlocal waiting
        waiting = None if record is None else waiting_start(record)
        if record is None or waiting is None:
            return None
        # That the old job's end was asked for may stay so: the new one has not begun.
        if waiting.claimed_by is not None or waiting.in_doubt:
            raise TooLateError(f"job {waiting.name} is being started right now: ask again when it runs")
        return _called_off(record, waiting, by).with_intervention(now, by, f"called off job {waiting.name}")

    record = repository.update(change)
    return CalledOff(record, waiting) if record is not None and waiting is not None else None


def _called_off(record: Record, waiting: Action, by: str) -> Record:
    why = f"stopped by {by}: what a person ended is not restarted"
    ruling = record.ruling
    if ruling is None or not ruling.restart:
        # The first job of all: it never happens.
        never = tuple(replace(each, failed=why) if each is waiting else each for each in record.actions)
        return replace(record, actions=never)
    # As if it had been ruled so.
    ruled = replace(ruling, restart=False, reason=why, resume_from=None, resume_step=None)
    others = tuple(each for each in record.actions if each is not waiting)
    return replace(record, actions=others, ruling=ruled, restarts=record.restarts[:-1])
