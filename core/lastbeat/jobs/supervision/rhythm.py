"""The rhythm of a supervisor: whether its run is over for good, and when something waits to be done."""

from typing import Final

from lastbeat.jobs.supervision.commands import unfinished
from lastbeat.model.outcome import Outcome
from lastbeat.model.reaction import STOP_KIND
from lastbeat.model.record import Record
from lastbeat.model.restart import RESTART_KIND
from lastbeat.watch.decide import over
from lastbeat.watch.effects import actions

_ENDING_S: Final = 2.0
"""How soon it is looked again for the end of a job that failed."""


def is_over(outcome: Outcome) -> bool:
    """Whether the run has ended for good, its job with it, and every alert is delivered."""
    record = outcome.record
    if record is None or not over.is_over(outcome, dry_run=False) or unfinished(record):
        return False
    starts = [action for action in record.actions if action.kind == RESTART_KIND]
    if _just_started(record):
        return False
    if starts and starts[-1].failed is not None:
        # Refused for good.
        return record.job is None or record.job.state.ended
    if record.job is None or any(not action.settled for action in starts) or not record.job.state.ended:
        return False
    ruling = record.ruling
    return ruling is not None and not ruling.restart and ruling.number >= record.job.number


def sooner(outcome: Outcome, interval_s: float) -> float:
    """Seconds until something waits to be done: a restart after its delay, an alert after its back-off, a job that is
    ending."""
    record = outcome.record
    wake = actions.wake_at(record, {RESTART_KIND, STOP_KIND}, outcome.at) if record is not None else None
    waits = [interval_s]
    if wake is not None:
        waits.append(max(0.2, (wake - outcome.at).total_seconds()))
    elif record is not None and _just_started(record):
        waits.append(0.2)
    if outcome.left_until is not None:
        waits.append(_ENDING_S)
    again_s = over.retry_in_s(outcome) if outcome.status.finished else None
    return min([*waits, *([again_s] if again_s is not None else [])])


def _just_started(record: Record) -> bool:
    """Whether a job has been started, and no look has shown it yet."""
    starts = [action for action in record.actions if action.kind == RESTART_KIND]
    if not starts or starts[-1].done_at is None:
        return False
    return record.job is None or record.job.name != starts[-1].name
