"""What becomes of a run whose supervisor is left by a person, and what that person reads of it."""

import os
import sys

from lastbeat.launchers.port import LauncherError
from lastbeat.model import runid
from lastbeat.model.job import JobMemory
from lastbeat.model.outcome import Outcome
from lastbeat.model.record import Record
from lastbeat.model.restart import RESTART_KIND
from lastbeat.model.stop_request import StopRequest
from lastbeat.model.times import format_time
from lastbeat.record.repository import RecordRepository
from lastbeat.stores.port import StoreError
from lastbeat.supervision.calling_off import TooLateError, call_off
from lastbeat.supervision.rulings import present_job
from lastbeat.supervision.supervisor import SupervisedRun
from lastbeat_cli import exits
from lastbeat_cli.author import author

_WHY = "Ctrl-C at its supervisor, with --cancel-on-exit"


def left(supervised: SupervisedRun, outcome: Outcome, *, cancels: bool) -> int:
    """End the job where that is wanted (``cancels``), or say who goes on with it. Returns the exit status."""
    record, run_id = outcome.record, supervised.run_id
    if record is None:
        return exits.UNKNOWN
    if cancels and _ends(supervised, record):
        return exits.UNKNOWN
    # The next one may have been started, and not been looked at yet.
    job = present_job(record, supervised.supervisor.launcher.kind)
    waiting = next((each for each in record.actions if each.kind == RESTART_KIND and not each.settled), None)
    if waiting is not None:
        when = f" at {format_time(waiting.not_before)}" if waiting.not_before is not None else ""
        _say(f"job {waiting.name} is to start{when}, and starts once somebody looks after the run:")
        _say(f"lastbeat supervise --resume {run_id} goes on with it; lastbeat stop {run_id} calls it off")
    elif job is not None and not job.state.ended:
        _say(f"job {job.id} goes on; lastbeat supervise --resume {run_id} goes on with it")
    elif outcome.status.finished:
        return exits.of(outcome)
    return exits.UNKNOWN


def _ends(supervised: SupervisedRun, record: Record) -> bool:
    """End the job, and call off the next one, as ``lastbeat stop`` does: whoever looks later knows who wanted that.
    False: there is neither."""
    run_id, store = supervised.run_id, supervised.store
    wanted = True
    try:
        repository = RecordRepository(store, f"{run_id}/{runid.RECORD}", os.urandom(6).hex())
        off = call_off(repository, store, author())
    except (TooLateError, StoreError) as error:
        _say(f"{error}; lastbeat stop {run_id} does that")
    else:
        wanted = off is not None
        if off is not None:
            _say(f"job {off.action.name} is called off; no restart policy undoes that")
    job = present_job(record, supervised.supervisor.launcher.kind)
    if job is None or job.state.ended:
        return wanted
    _end_job(supervised, job)
    return True


def _end_job(supervised: SupervisedRun, job: JobMemory) -> None:
    from lastbeat_cli import stop  # noqa: PLC0415 - only for this end

    run_id, store = supervised.run_id, supervised.store
    try:
        training = stop.training_of(store, run_id)
        stop.leave_request(
            store, run_id, StopRequest(author(), store.clock(), _WHY, training.start_time, training.attempt)
        )
    except StoreError as error:
        _say(f"who ended it could not be recorded, so a restart policy may start it again: {error}")
    try:
        supervised.supervisor.launcher.cancel(job.id)
    except LauncherError as error:
        _say(f"job {job.id} could not be ended: {error.told}; lastbeat stop {run_id} tries again")
    else:
        _say(f"job {job.id} is being ended; no restart policy undoes that")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
