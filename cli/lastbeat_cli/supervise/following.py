"""Passes over one supervised run until it is over or somebody leaves it, and what people read meanwhile."""

import time
from dataclasses import dataclass, replace

from lastbeat.model.outcome import Outcome
from lastbeat.model.record import Record
from lastbeat.model.restart import RESTART_KIND, RestartRuling
from lastbeat.model.status import Status
from lastbeat.model.times import format_time
from lastbeat.supervision.rhythm import is_over, sooner
from lastbeat.supervision.supervisor import SupervisedRun
from lastbeat.watchdog import Watch
from lastbeat_cli import exits
from lastbeat_cli.loop import Stop, next_due
from lastbeat_cli.plain import Plain
from lastbeat_cli.supervise import leaving


@dataclass(frozen=True)
class Manner:
    """How a supervisor goes on, and how it leaves."""

    interval_s: float
    """0: as it was begun."""
    as_json: bool = False
    submit_only: bool = False
    """Leave once the job is there."""
    cancel_on_exit: bool = False
    """Ctrl-C ends the job, too."""


def follow(watch: Watch, supervised: SupervisedRun, manner: Manner, stop: Stop) -> int | None:
    """Make passes until the run is over for good, or a person asks for the end. Returns the exit status; None: another
    supervisor has the seat now."""
    plain = Plain(as_json=manner.as_json, preview=None)
    plain.left = stop.ask
    shown: tuple[object, ...] | None = None
    seat, due = supervised.supervisor.seat, time.monotonic()
    while True:
        outcome = watch.tick()
        due = next_due(due, time.monotonic(), manner.interval_s)
        ended = is_over(outcome)
        over = ended or stop.asked or (manner.submit_only and _has_job(outcome))
        at = min(due, time.monotonic() + sooner(outcome, manner.interval_s))
        if manner.as_json or over or told(outcome) != shown:
            plain.show(with_job(outcome), None if over else at)
            shown = told(outcome)
        if over or stop.wait(at - time.monotonic()):
            if ended:
                return exits.of(outcome)
            status = leaving.left(supervised, outcome, cancels=stop.asked and manner.cancel_on_exit)
            return exits.OK if manner.submit_only and _has_job(outcome) else status
        if seat is not None and outcome.record is not None and seat.holder(outcome.record, outcome.at) is not None:
            return None


def told(outcome: Outcome) -> tuple[object, ...]:
    """What a person wants to hear of when it changes."""
    record = outcome.record
    job = record.job if record is not None else None
    running = outcome.status is Status.RUNNING
    reason = outcome.reason if not running else tuple(outcome.conditions)
    return outcome.status, reason, job.key if job else None, job.state if job else None, _next_start(record)


def with_job(outcome: Outcome) -> Outcome:
    """``outcome`` with notes on its job and on the restart that waits."""
    record, notes = outcome.record, []
    if record is not None and record.job is not None:
        nodes = f" on {', '.join(record.job.nodes[:4])}" if record.job.nodes else ""
        notes.append(f"Job {record.job.id}: {record.job.state}{nodes}")
    ruling = record.ruling if record is not None else None
    # Of a success everybody knows that it is not run again.
    decided = ruling is not None and (ruling.restart or outcome.status is not Status.SUCCEEDED)
    if decided and ruling and record and record.job is not None and ruling.number >= record.job.number:
        start = _next_start(record)
        when = f"; {start} starts at {format_time(record.actions[-1].not_before)}" if start else ""
        what = f"Restarting, attempt {ruling.attempt}" if ruling.restart else "Not restarted"
        notes.append(f"{what}: {ruling.reason}{_resumes(record, ruling)}{when}")
    return replace(outcome, notes=(*notes, *outcome.notes))


def _resumes(record: Record, ruling: RestartRuling) -> str:
    """From which checkpoint, where lastbeat knows where they lie."""
    if not ruling.restart or record.supervision is None or not record.supervision.checkpoints:
        return ""
    if ruling.resume_from is None:
        return ", from the beginning: there is no complete checkpoint"
    return f", from step {ruling.resume_step}" if ruling.resume_step is not None else f", from {ruling.resume_from}"


def _next_start(record: Record | None) -> str | None:
    """The job that waits for its time."""
    action = record.actions[-1] if record is not None and record.actions else None
    waits = action is not None and action.kind == RESTART_KIND and not action.settled and action.not_before is not None
    return action.name if action is not None and waits else None


def _has_job(outcome: Outcome) -> bool:
    return outcome.record is not None and outcome.record.job is not None
