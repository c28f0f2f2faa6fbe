"""``stop``: end a run, and record who requested it and why."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import click

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
from lastbeat.model.as_json import Json
from lastbeat.model.status import Status
from lastbeat.model.stop_request import GRACE_S, WHY_LIMIT, StopRequest
from lastbeat.model.text import fit, one_line
from lastbeat.model.times import format_duration
from lastbeat.settings import Settings, opening
from lastbeat.stores.port import Store, StoreError
from lastbeat.training.node.resources import send_to_tree
from lastbeat.views.one_run import RunWatch, run_watch
from lastbeat.watch.record.acknowledging import note_intervention
from lastbeat.watch.record.repository import RecordRepository
from lastbeat_cli import exits, logs, options, values
from lastbeat_cli.author import author
from lastbeat_cli.document import tell
from lastbeat_cli.held_process import hold
from lastbeat_cli.run import one_run

WHAT = "What to stop"
EPILOG = """\
Exit status:
  0  the stop was requested; with --wait: the run has ended
  1  the stop was requested, but this run does not check for requests; with --wait: the run continues
  3  there is no such run, or it is over; also wrong settings or arguments

Examples:
  lastbeat stop mistral-20250804-171621 --why 'wrong data' --wait
  lastbeat stop mistral-20250804-171621 --after-checkpoint --why maintenance
"""
_WAIT_S = 3600.0
_MOST_GRACE_S = 7 * 86400.0
_FREE_S, _PAID_S = 0.5, 5.0
"""Seconds between two checks with --wait: for a store that is free, and for one that charges requests."""


@click.command("stop", cls=options.Grouped, epilog=EPILOG)
@options.argument("run_id", "RUN", "Its id.", group=WHAT)
@options.option("--why TEXT", "The reason, shown in alerts and in the record.", WHAT, also=("--reason",))
@options.option("--grace DURATION", "Time between SIGINT and SIGTERM [1m].", WHAT)
@options.option(
    "--after-checkpoint", "Let the run save a checkpoint and end by itself: run.should_stop becomes true.", WHAT
)
@options.option("--wait", "Wait until the run has ended, for at most an hour.", WHAT)
@options.place
@options.form
def command(
    *,
    run_id: str,
    why: str | None,
    grace: str | None,
    after_checkpoint: bool,
    wait: bool,
    as_json: bool,
    **given: str | None,
) -> int:
    """End a run as Ctrl-C would, wherever it runs. It becomes CANCELLED, with your name and TEXT.

    On the machine where the run's process runs, it gets SIGINT at once. From elsewhere, stop leaves a request beside
    the run. A run that uses the SDK, or runs under lastbeat exec, checks for requests regularly. The request applies
    only to the current attempt.
    """
    faults: list[str] = []
    name = values.run_id(run_id, faults)
    grace_s = _grace_s(grace, faults)
    if after_checkpoint and grace is not None:
        faults.append("--grace has no meaning with --after-checkpoint, which sends no signal; leave one of them out")
    settings = values.settings(given, faults)
    store = opening.store(settings)
    off = _call_off(store, name, author())
    if off is not None:
        return report_called_off(
            settings, store, off, fit(one_line(logs.redact(why or "")), WHY_LIMIT), as_json=as_json
        )
    training = training_of(store, name)
    refuse_if_over(settings, store, name, training)
    if after_checkpoint and not training.heeds_stop:
        what = f"run {name} has not looked at run.should_stop so far, so it would not save a checkpoint on request"
        raise StoreError(what, f"end it as Ctrl-C would: lastbeat stop {name}")
    process = None if after_checkpoint else _process_here(training)
    request = StopRequest(
        author(),
        store.clock(),
        fit(one_line(logs.redact(why or "")), WHY_LIMIT),
        training.start_time,
        training.attempt,
        grace_s,
        signalled=process is not None,
        after_checkpoint=after_checkpoint,
    )
    said = [ask_to_end(store, name, request)]
    if process is not None:
        said.append(_interrupt(process, training))
    looks = process is not None or training.looks_s is not None
    if after_checkpoint and training.looks_s is not None:
        each = format_duration(training.looks_s)
        said.append(f"The training looks for this each {each}, saves a checkpoint and ends: {name} is PREEMPTED then.")
    elif training.job is None or looks:
        said += outlook(training, process, name)
    else:
        said.append(training.job.end(settings.state_dir))
        looks = True
    if not as_json:
        _say(said)
    status = _wait(settings, name, store, training.job) if wait else None
    if as_json:
        known = {"signalled": process is not None, "looks_each_s": training.looks_s}
        tell({**_document(request.attempt, name, request.why, status), **known}, (), as_json=True)
    elif status is not None:
        _say([f"Run {name}: {status}" if status.finished else f"Run {name} goes on after {_WAIT_S / 60:g} minutes."])
    if status is not None:
        return exits.OK if status.finished else exits.WARNING
    return exits.OK if looks else exits.WARNING


class OutdatedError(StoreError):
    """The run is no longer what the person confirmed."""


@dataclass(frozen=True, slots=True)
class PlannedAct:
    """What a person may ask of a run from elsewhere: its end or, in :mod:`lastbeat_cli.acting`, a restart."""

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


def plan_stop(settings: Settings, store: Store, name: str) -> PlannedAct:
    """The end of run ``name``, as the command asks for it from another machine. Raises :class:`StoreError`."""
    record = RecordRepository.of_run(store, name).reload()
    waiting = waiting_start(record) if record is not None else None
    if waiting is not None:

        def no_job(by: str, why: str) -> list[str]:
            off = _call_off(store, name, by)
            return (
                ["Its next job has begun, or was called off before."]
                if off is None
                else called_off(settings, store, off, by, why)
            )

        told = f"Job {waiting.name} is called off: {name} is not restarted, and no restart policy undoes that."
        return PlannedAct(name, waiting.name, (told,), no_job)
    training = training_of(store, name)
    refuse_if_over(settings, store, name, training)

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


def _call_off(store: Store, name: str, by: str) -> CalledOff | None:
    """Call off the next job of the run, if one is waiting."""
    try:
        return call_off(RecordRepository.of_run(store, name), by)
    except TooLateError as late:
        raise StoreError(str(late), f"lastbeat stop {name}") from None


def report_called_off(settings: Settings, store: Store, off: CalledOff, why: str, *, as_json: bool) -> int:
    """Report that the next job is called off, and end the last one if it is still alive."""
    name = off.record.run_id
    said = called_off(settings, store, off, author(), why)
    tell(_document(off.record.attempt.number, name, why, off.record.status, off.action.name), said, as_json=as_json)
    return exits.OK


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


def _document(attempt: int | None, name: str, why: str, status: Status | None, off: str | None = None) -> Json:
    """The answer for programs; ``off`` is the job that was called off."""
    known = status.value if status is not None else None
    return {"run_id": name, "by": author(), "why": why, "attempt": attempt, "signalled": False, "looks_each_s": None,
            "called_off": off, "status": known}  # fmt: skip


def _grace_s(text: str | None, faults: list[str]) -> float:
    if text is None:
        return GRACE_S
    return values.span("--grace", text, faults, least_s=0.0, most_s=_MOST_GRACE_S, like="30s or 5m")


def training_of(store: Store, name: str) -> RunningTraining:
    """What trains the run. Raises :class:`StoreError` if there is nothing to stop."""
    training = running_training(store, name)
    if training is not None:
        return training
    if store.list(f"{name}/", limit=1).entries:
        what = f"run {name} has no metadata.json, so its process is unknown"
        raise StoreError(what, "end it where it runs")
    raise one_run.unknown(store, name)


def refuse_if_over(settings: Settings, store: Store, name: str, training: RunningTraining) -> None:
    """Raise :class:`StoreError` if the run is over.

    A run that failed by its log is over only after its process and job have ended: it may hang, or wait for a debugger.
    """
    status = _status(run_watch(settings, name, at=store))
    if status.ended and not _lives(settings, store, name, training):
        raise StoreError(f"run {name} is over: it is {status} already", f"see how: lastbeat show {name}")


def _status(watch: RunWatch) -> Status:
    """The run's status: how training says that it ended, even if no pass has recorded that, else the recorded one."""
    view = watch.look(log_lines=0)
    return watch.ended or (view.row.status if view is not None else Status.UNKNOWN)


def _lives(settings: Settings, store: Store, name: str, training: RunningTraining) -> bool:
    process = _process_here(training)
    if process is not None:
        os.close(process)
        return True
    supervised = supervised_job(store, name)
    if supervised is None or supervised[1].memory.state.ended:
        return False
    return not supervised[1].has_ended(settings.state_dir)


def _process_here(training: RunningTraining) -> int | None:
    """A pidfd of the training process if it belongs to this user on this machine, else None."""
    return None if training.process is None or training.mark is None else hold(training.process, training.mark)


def ask_to_end(store: Store, name: str, request: StopRequest) -> str:
    """Write the request beside the run, unless one for this attempt exists. Returns a sentence for the user."""
    known = leave_request(store, name, request)
    if known is not None:
        when = f" {format_duration(store.clock() - known.at)} ago" if known.at is not None else ""
        return f"{known.by} has asked for that{when} already{f': {known.why}' if known.why else ''}."
    which = f" (attempt {request.attempt})" if request.attempt is not None else ""
    unnoted = note_intervention(store, name, request.by, f"asked for its end: {request.why}".removesuffix(": "))
    return f"Asked for the end of run {name}{which}{f'; {unnoted}' if unnoted is not None else ''}."


def _interrupt(process: int, training: RunningTraining) -> str:
    number = training.process
    assert number is not None  # noqa: S101 - the pidfd was opened by this number
    deaf = _ignores(number, signal.SIGINT)
    sent = signal.SIGTERM if deaf else signal.SIGINT
    try:
        if training.wraps:
            send_to_tree(number, sent)
        else:
            signal.pidfd_send_signal(process, sent)
    except OSError:
        return f"Its process {number} on this machine has just ended."
    finally:
        os.close(process)
    how = "SIGTERM, since it ignores Ctrl-C" if deaf else "SIGINT, as by Ctrl-C"
    return f"Its process {number} on this machine got {how}."


def _ignores(process: int, number: int) -> bool:
    """Whether the process ignores the signal: background processes of a script ignore Ctrl-C."""
    try:
        with open(f"/proc/{process}/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123 - kernel's path
            masks = [line.split()[1] for line in file if line.startswith("SigIgn:")]
        return bool(masks) and bool(int(masks[0], 16) >> (number - 1) & 1)
    except (OSError, ValueError, IndexError):
        return False


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


def _say(lines: list[str]) -> None:
    print("\n".join(one_line(logs.redact(line)) for line in lines), flush=True)


def _wait(settings: Settings, name: str, store: Store, job: RunningJob | None) -> Status:
    """Wait until the run has ended, and return its status. The launcher is asked, too: there may be no supervisor."""
    watch, until = run_watch(settings, name, at=store), time.monotonic() + _WAIT_S
    pause_s = _FREE_S if store.traits.prices.free else _PAID_S
    while True:
        status = _status(watch)
        if status.finished or time.monotonic() > until:
            return status
        if job is not None and job.has_ended(settings.state_dir):
            return Status.CANCELLED
        time.sleep(pause_s)
