"""Supervises one run: waits for the lease, and makes passes until the run is over or the user leaves.

At the end it says what happens to the job. The lines that it prints meanwhile are here too.
"""

import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from lastbeat.explain.launchers.traits import launcher_traits
from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.jobs.stopping import RunningTraining, TooLateError, call_off, leave_request, running_training
from lastbeat.jobs.supervision import configured, loop, surroundings
from lastbeat.jobs.supervision.lease import SupervisorLease
from lastbeat.jobs.supervision.restart_decisions import present_job
from lastbeat.jobs.supervision.supervisor import Supervisor
from lastbeat.model.job import JobMemory
from lastbeat.model.outcome import Outcome
from lastbeat.model.record import Record
from lastbeat.model.restart import RESTART_KIND, LeaseHolder, RestartRuling, Supervision
from lastbeat.model.status import Status
from lastbeat.model.stop_request import StopRequest
from lastbeat.model.times import format_time
from lastbeat.settings import Settings, SettingsError, opening
from lastbeat.settings.channels import configured_channels
from lastbeat.stores.clock import steady_clock
from lastbeat.stores.port import StoreError
from lastbeat.watch.record.repository import RecordRepository
from lastbeat.watch.watchdog import Watch
from lastbeat_cli import exits, options
from lastbeat_cli.author import author
from lastbeat_cli.loop import Stop
from lastbeat_cli.plain import Plain
from lastbeat_cli.supervise import asked

DEFAULT_INTERVAL_S: Final = 30.0
EXITS: Final = """\
Exit status:
  0  the run SUCCEEDED
  1  it SUCCEEDED with a loss that is no number, or was PREEMPTED and is not restarted
  2  FAILED, TIMED_OUT or CANCELLED, and not restarted
  3  wrong settings or arguments; or it was left while it ran (Ctrl-C)
"""
"""Exit statuses of a supervisor, for the help."""
cancel_on_exit = options.option("--cancel-on-exit", "On Ctrl-C, end the job.", hidden=True)
_log = logging.getLogger(__name__)
_WHY = "Ctrl-C at its supervisor, with --cancel-on-exit"


@dataclass(frozen=True)
class Manner:
    """How a supervisor runs, and how it exits."""

    interval_s: float
    """Seconds between two passes; 0 for the recorded interval."""
    as_json: bool = False
    submit_only: bool = False
    """Exit once the job is submitted."""
    cancel_on_exit: bool = False
    """Whether Ctrl-C also ends the job."""


def new_lease() -> SupervisorLease:
    """The lease of this supervisor, which it has not taken yet."""
    return SupervisorLease(author(), os.urandom(6).hex())


def log_progress() -> None:
    """Log job states and restart decisions, which a supervisor's user wants to see, to stderr, if not more."""
    logger = logging.getLogger("lastbeat")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)


def supervise(
    settings: Settings, name: str, given: Mapping[str, str | None], manner: Manner, lease: SupervisorLease
) -> int:
    """Supervise the run by its record whenever this supervisor holds the lease. Returns the exit status."""
    channels = configured_channels(settings)
    if not channels:
        _log.warning("no channel is set up, so no alert will be sent; set for example SLACK_WEBHOOK_URL")
    repository = asked.repository(settings, name)
    with Stop() as stop:
        while True:
            wait_s = manner.interval_s or DEFAULT_INTERVAL_S
            record = _take_lease(lease, repository, stop, wait_s)
            if record is None or record.supervision is None:
                return exits.UNKNOWN
            # Read after the lease is taken: its former holder may have begun the run again.
            supervision = record.supervision
            _say_environment(settings, name, supervision)
            run_settings = asked.as_recorded(given, supervision)
            policy = asked.restart_policy(run_settings, supervision)
            supervisor = configured.supervise(run_settings, name, supervision, policy, lease)
            watch = configured.supervised_watch(run_settings, supervisor, channels, clock=steady_clock())
            interval_s = manner.interval_s or supervision.interval_s or DEFAULT_INTERVAL_S
            try:
                status = _follow(watch, supervisor, replace(manner, interval_s=interval_s), stop)
            finally:
                loop.leave_lease(lease, repository)
            if status is not None:
                if not (stop.asked or manner.submit_only) and settings.state_dir is not None:
                    surroundings.forget(settings.state_dir, opening.root_url(settings), name)
                return status


def _say_environment(settings: Settings, run_id: str, supervision: Supervision) -> None:
    state = settings.state_dir
    if state is None or supervision.begun_at is None or not supervision.spec.command:
        return
    if launcher_traits(supervision.launcher).remote:
        return
    if surroundings.kept(state, opening.root_url(settings), run_id, supervision.begun_at) is None:
        _say(f"the environment in which {run_id} was begun is not known here: its next job gets this one")


def _take_lease(lease: SupervisorLease, repository: RecordRepository, stop: Stop, interval_s: float) -> Record | None:
    """Wait until the lease is free, take it, and return the record, or None if the user stops the supervisor first.

    Raises :class:`SettingsError` if the run is not supervised, and :class:`StoreError` for permanent errors.
    """
    said: list[LeaseHolder] = []

    def waits_for(record: Record, holder: LeaseHolder) -> None:
        said.append(holder)
        _say(
            f"{record.run_id} is supervised by {holder.by} (process {holder.pid}) since {format_time(holder.since)}: "
            "this supervisor waits, and takes over when that one is gone"
        )

    try:
        record = loop.take_lease(lease, repository, stop.wait, interval_s, waits_for)
    except LookupError:
        raise SettingsError([asked.not_supervised(repository.key.partition("/")[0])]) from None
    if record is not None and said:
        _say(f"{said[-1].by} is gone: this supervisor takes over")
    return record


def _follow(watch: Watch, supervisor: Supervisor, manner: Manner, stop: Stop) -> int | None:
    """Make passes until the run is over for good, or the user stops the supervisor.

    Returns the exit status, or None if another supervisor has taken the lease.
    """
    plain = Plain(as_json=manner.as_json, preview=None)
    plain.left = stop.ask
    shown: tuple[object, ...] | None = None
    for each in loop.passes(watch, supervisor.lease, manner.interval_s, stop.wait):
        outcome = each.outcome
        submitted = manner.submit_only and _has_job(outcome)
        over = each.is_last or stop.asked or submitted
        if manner.as_json or over or printed_part(outcome) != shown:
            plain.show(with_job(outcome))
            shown = printed_part(outcome)
        if each.is_last:
            return exits.of(outcome)
        if stop.asked or submitted:
            break
        if each.is_taken:
            return None
    status = _leave(supervisor, outcome, cancels=stop.asked and manner.cancel_on_exit)
    return exits.OK if submitted else status


def printed_part(outcome: Outcome) -> tuple[object, ...]:
    """The part of ``outcome`` whose changes are printed."""
    record = outcome.record
    job = record.job if record is not None else None
    running = outcome.status is Status.RUNNING
    reason = outcome.reason if not running else tuple(outcome.conditions)
    lives_on = record.ruling.job if record is not None and record.ruling is not None else ""
    return outcome.status, reason, job.key if job else None, job.state if job else None, _next_start(record), lives_on


def with_job(outcome: Outcome) -> Outcome:
    """``outcome`` with notes on its job and on its pending restart."""
    record, notes = outcome.record, []
    if record is not None and record.job is not None:
        nodes = f" on {', '.join(record.job.nodes[:4])}" if record.job.nodes else ""
        notes.append(f"Job {record.job.id}: {record.job.state}{nodes}")
    ruling = record.ruling if record is not None else None
    # That a successful run is not restarted goes without saying.
    decided = ruling is not None and (ruling.restart or outcome.status is not Status.SUCCEEDED)
    if decided and ruling and record and record.job is not None and ruling.number >= record.job.number:
        start = _next_start(record)
        when = f"; {start} starts at {format_time(record.actions[-1].not_before)}" if start else ""
        what = f"Restarting, attempt {ruling.attempt}" if ruling.restart else "Not restarted"
        lives_on = f"; {ruling.job}" if ruling.job else ""
        notes.append(f"{what}: {ruling.reason}{_resumes(record, ruling)}{when}{lives_on}")
    return replace(outcome, notes=(*notes, *outcome.notes))


def _resumes(record: Record, ruling: RestartRuling) -> str:
    """From which checkpoint the job resumes; empty if lastbeat does not know where checkpoints lie."""
    if not ruling.restart or record.supervision is None or not record.supervision.checkpoints:
        return ""
    if ruling.resume_from is None:
        return ", from the beginning: there is no complete checkpoint"
    return f", from step {ruling.resume_step}" if ruling.resume_step is not None else f", from {ruling.resume_from}"


def _next_start(record: Record | None) -> str | None:
    """The name of the restarted job that waits for its start time, or None."""
    action = record.actions[-1] if record is not None and record.actions else None
    waits = action is not None and action.kind == RESTART_KIND and not action.settled and action.not_before is not None
    return action.name if action is not None and waits else None


def _has_job(outcome: Outcome) -> bool:
    return outcome.record is not None and outcome.record.job is not None


def _leave(supervisor: Supervisor, outcome: Outcome, *, cancels: bool) -> int:
    """End the job if ``cancels``, else say how its supervision can continue. Returns the exit status."""
    record, run_id = outcome.record, supervisor.run_id
    if record is None:
        return exits.UNKNOWN
    if cancels and _ends_job(supervisor, record):
        return exits.UNKNOWN
    # The next job may have been started but not been checked yet.
    job = present_job(record, supervisor.launcher.kind)
    waiting = next((each for each in record.actions if each.kind == RESTART_KIND and not each.settled), None)
    if waiting is not None:
        when = f" at {format_time(waiting.not_before)}" if waiting.not_before is not None else ""
        _say(f"job {waiting.name} is to start{when}, and starts once a supervisor looks after the run:")
        _say(f"lastbeat restart {run_id} goes on with it; lastbeat stop {run_id} calls it off")
    elif job is not None and not job.state.ended:
        _say(f"job {job.id} goes on; lastbeat restart {run_id} goes on with it")
    elif outcome.status.finished:
        return exits.of(outcome)
    return exits.UNKNOWN


def _ends_job(supervisor: Supervisor, record: Record) -> bool:
    """End the job and call off the next one, recorded as ``lastbeat stop`` does.

    Returns False if there is neither a job nor a next one.
    """
    run_id, store = supervisor.run_id, supervisor.store
    wanted = True
    try:
        off = call_off(RecordRepository.of_run(store, run_id), author())
    except (TooLateError, StoreError) as error:
        _say(f"{error}; lastbeat stop {run_id} does that")
    else:
        wanted = off is not None
        if off is not None:
            _say(f"job {off.action.name} is called off; no restart policy undoes that")
    job = present_job(record, supervisor.launcher.kind)
    if job is None or job.state.ended:
        return wanted
    _end_job(supervisor, job)
    return True


def _end_job(supervisor: Supervisor, job: JobMemory) -> None:

    run_id, store = supervisor.run_id, supervisor.store
    try:
        training = running_training(store, run_id) or RunningTraining(None, None)
        leave_request(store, run_id, StopRequest(author(), store.clock(), _WHY, training.start_time, training.attempt))
    except StoreError as error:
        _say(f"who ended it could not be recorded, so a restart policy may start it again: {error}")
    try:
        supervisor.launcher.cancel(job.id)
    except LauncherError as error:
        _say(f"job {job.id} could not be ended: {error.told}; lastbeat stop {run_id} tries again")
    else:
        _say(f"job {job.id} is being ended; no restart policy undoes that")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
