"""Ends a run on a person's request, for the command, the page and Slack."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lastbeat.jobs.stopping import (
    CalledOff,
    RunningJob,
    RunningTraining,
    TooLateError,
    call_off,
    leave_request,
    running_training,
    supervised_job,
    waiting_start,
)
from lastbeat.model.status import Status
from lastbeat.model.stop_request import StopRequest
from lastbeat.model.times import format_duration
from lastbeat.settings import Settings
from lastbeat.stores import run_names
from lastbeat.stores.port import Store, StoreError
from lastbeat.views.one_run import RunWatch, run_watch
from lastbeat.watch.record.acknowledging import note_intervention
from lastbeat.watch.record.repository import RecordRepository


class OutdatedError(StoreError):
    """The run is no longer what the person confirmed."""


@dataclass(frozen=True, slots=True)
class PlannedAct:
    """What a person may ask of a run from elsewhere: its end or, in :mod:`lastbeat.views.acting.planned`, a restart."""

    run_id: str
    seen: str
    """Names what it is about: this attempt, or this job."""
    outlook: tuple[str, ...]
    """What happens then, in sentences."""
    ask: Callable[[str, str], list[str]]
    """Asks for it, by this person, for this reason. Returns what was done, in sentences."""
    attempt: int | None = None
    """The attempt that is ended, as training says; None: it says none, or none is ended."""

    def confirmed(self, seen: str, by: str, why: str) -> list[str]:
        """Do it, if ``seen`` is what it is about. Returns what was done. Raises :class:`StoreError`."""
        if seen != self.seen:
            raise outdated(self.run_id)
        return self.ask(by, why)


def outdated(run_id: str) -> OutdatedError:
    return OutdatedError(f"{run_id} has changed since you were asked", "look at it again, then confirm")


Lives = Callable[[RunningTraining], bool]
"""Whether training's process lives on this machine."""


def none_lives(_training: RunningTraining) -> bool:
    """For a machine on which nothing trains."""
    return False


def plan_stop(settings: Settings, store: Store, name: str, lives: Lives) -> PlannedAct:
    """The end of run ``name``, as the command asks for it from another machine. Raises :class:`StoreError`."""
    record = RecordRepository.of_run(store, name).reload()
    waiting = waiting_start(record) if record is not None else None
    if waiting is not None:

        def no_job(by: str, why: str) -> list[str]:
            off = call_off_next(store, name, by)
            return (
                ["Its next job has begun, or was called off before."]
                if off is None
                else called_off(settings, store, off, by, why)
            )

        told = f"Job {waiting.name} is called off: {name} is not restarted, and no restart policy undoes that."
        return PlannedAct(name, waiting.name, (told,), no_job)
    training = training_of(store, name)
    refuse_if_over(settings, store, name, training, lives)

    def end(by: str, why: str) -> list[str]:
        request = StopRequest(by, store.clock(), why, training.start_time, training.attempt)
        said = [ask_to_end(store, name, request)]
        ends = training.job is not None and training.looks_s is None
        return [*said, training.job.end(settings.state_dir)] if training.job is not None and ends else said

    known = training.start_time.isoformat() if training.start_time is not None else ""
    if training.job is not None and training.looks_s is None:
        told_of = [f"Job {training.job.memory.id} is ended, and {name} becomes CANCELLED."]
    else:
        told_of = list(outlook(training, None, name))
    policy = ("No restart policy undoes that.",) if record is not None and record.supervision is not None else ()
    return PlannedAct(
        name, f"attempt {training.attempt or ''} {known}".strip(), (*told_of, *policy), end, training.attempt
    )


def call_off_next(store: Store, name: str, by: str) -> CalledOff | None:
    """Call off the next job of the run, if one is waiting."""
    try:
        return call_off(RecordRepository.of_run(store, name), by)
    except TooLateError as late:
        raise StoreError(str(late), f"lastbeat stop {name}") from None


def called_off(settings: Settings, store: Store, off: CalledOff, by: str, why: str) -> list[str]:
    """Say that the next job is called off, and end the last one if it is still alive."""
    name, job = off.record.run_id, off.record.job
    said = [f"Job {off.action.name} is called off; no restart policy undoes that."]
    if job is not None and not job.state.ended:
        # The job may write a heartbeat while it ends; then a new restart decision follows.
        training = training_of(store, name)
        leave_request(store, name, StopRequest(by, store.clock(), why, training.start_time, training.attempt))
        said.append(RunningJob.of(off.record, job).end(settings.state_dir))
    return said


def training_of(store: Store, name: str) -> RunningTraining:
    """What trains the run. Raises :class:`StoreError` if there is nothing to stop."""
    training = running_training(store, name)
    if training is not None:
        return training
    if store.list(f"{name}/", limit=1).entries:
        what = f"run {name} has no metadata.json, so its process is unknown"
        raise StoreError(what, "end it where it runs")
    raise run_names.unknown(store, name)


def refuse_if_over(settings: Settings, store: Store, name: str, training: RunningTraining, lives: Lives) -> None:
    """Raise :class:`StoreError` if the run is over.

    A run that failed by its log is over only after its process and job have ended: it may hang, or wait for a debugger.
    """
    status = status_of(run_watch(settings, name, at=store))
    if status.ended and not (lives(training) or _job_lives(settings, store, name)):
        raise StoreError(f"run {name} is over: it is {status} already", f"see how: lastbeat show {name}")


def status_of(watch: RunWatch) -> Status:
    """The run's status: how training says that it ended, even if no pass has recorded that, else the recorded one."""
    view = watch.look(log_lines=0)
    return watch.ended or (view.row.status if view is not None else Status.UNKNOWN)


def _job_lives(settings: Settings, store: Store, name: str) -> bool:
    supervised = supervised_job(store, name)
    if supervised is None or supervised[1].memory.state.ended:
        return False
    return not supervised[1].has_ended(settings.state_dir)


def ask_to_end(store: Store, name: str, request: StopRequest) -> str:
    """Write the request beside the run, unless one for this attempt exists. Returns a sentence for the user."""
    known = leave_request(store, name, request)
    if known is not None:
        when = f" {format_duration(store.clock() - known.at)} ago" if known.at is not None else ""
        return f"{known.by} has asked for that{when} already{f': {known.why}' if known.why else ''}."
    which = f" (attempt {request.attempt})" if request.attempt is not None else ""
    unnoted = note_intervention(store, name, request.by, f"asked for its end: {request.why}".removesuffix(": "))
    return f"Asked for the end of run {name}{which}{f'; {unnoted}' if unnoted is not None else ''}."


def outlook(training: RunningTraining, process: int | None, name: str) -> Iterator[str]:
    if process is not None:
        return
    if training.looks_s is not None:
        yield f"The training looks for this each {format_duration(training.looks_s)}, and then ends as by Ctrl-C."
        return
    yield (
        "This training does not look for requests (lastbeat before this version, or a script of its own): end it where"
        f" it runs. If an _error follows, {name} is CANCELLED by you."
    )
