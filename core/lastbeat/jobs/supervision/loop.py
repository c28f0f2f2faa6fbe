"""The loop of a supervisor: it waits for the lease of a run, and makes passes until the run is over for good.

``lastbeat supervise`` and ``lastbeat.launch.ray.auto_restart`` both go by it. How they sleep, and what they print
meanwhile, is their own.
"""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from lastbeat.jobs.supervision.commands import unfinished
from lastbeat.jobs.supervision.lease import SupervisorLease
from lastbeat.jobs.supervision.restart_decisions import just_started
from lastbeat.model.outcome import Outcome
from lastbeat.model.reaction import STOP_KIND
from lastbeat.model.record import Record
from lastbeat.model.restart import RESTART_KIND, LeaseHolder
from lastbeat.stores.clock import next_due
from lastbeat.stores.port import ConflictError, StoreError
from lastbeat.watch.decide import over
from lastbeat.watch.effects import actions
from lastbeat.watch.record.repository import RecordRepository
from lastbeat.watch.watchdog import Watch

log = logging.getLogger(__name__)

Wait = Callable[[float], bool]
"""Sleeps for that many seconds. Returns whether the supervisor has to leave."""


def take_lease(
    lease: SupervisorLease,
    repository: RecordRepository,
    wait: Wait,
    interval_s: float,
    waits_for: Callable[[Record, LeaseHolder], None],
) -> Record | None:
    """Wait until the lease is free, and take it. Returns the record, or None if the supervisor has to leave first.

    ``waits_for`` gets each other holder once. Raises ``LookupError`` if the run is not supervised, and
    :class:`StoreError` for permanent errors.
    """
    said: LeaseHolder | None = None
    while True:
        try:
            record, holder = lease.take(repository, repository.store.clock())
        except StoreError as error:
            if not (error.retryable or isinstance(error, ConflictError)):
                raise
            log.warning("the lease of this run cannot be read yet: %s", error)
        else:
            if holder is None:
                return record
            if said is None or said.token != holder.token:
                waits_for(record, holder)
                said = holder
        if wait(interval_s):
            return None


def leave_lease(lease: SupervisorLease, repository: RecordRepository) -> None:
    """Release the lease. If that fails, other supervisors wait until it expires."""
    try:
        lease.release(repository, repository.store.clock())
    except StoreError as error:
        log.info("the supervisor's lease could not be released and stays until it expires: %s", error)


@dataclass(frozen=True, slots=True)
class SupervisorPass:
    """One pass over the run."""

    outcome: Outcome
    is_last: bool
    """The run has ended for good, its job with it, and every alert is delivered."""
    is_taken: bool
    """Another supervisor holds the lease now."""


def passes(watch: Watch, lease: SupervisorLease | None, interval_s: float, wait: Wait) -> Iterator[SupervisorPass]:
    """Make passes until the run is over, another supervisor holds the lease, or this one has to leave."""
    due = time.monotonic()
    while True:
        outcome = watch.tick()
        due = next_due(due, time.monotonic(), interval_s)
        at = min(due, time.monotonic() + _sooner(outcome, interval_s))
        ended, record = _is_over(outcome), outcome.record
        taken = lease is not None and record is not None and lease.holder(record, outcome.at) is not None
        yield SupervisorPass(outcome, ended, taken and not ended)
        if ended or taken or wait(at - time.monotonic()):
            return


_ENDING_S: Final = 2.0
"""How soon it is looked again for the end of a job that failed."""


def _is_over(outcome: Outcome) -> bool:
    """Whether the run has ended for good, its job with it, and every alert is delivered."""
    record = outcome.record
    if record is None or not over.is_over(outcome, dry_run=False) or unfinished(record):
        return False
    if record.restart_request is not None:
        return False
    starts = [action for action in record.actions if action.kind == RESTART_KIND]
    if just_started(record):
        return False
    if starts and starts[-1].failed is not None:
        # Refused for good.
        return record.job is None or record.job.state.ended
    if record.job is None or any(not action.settled for action in starts) or not record.job.state.ended:
        return False
    ruling = record.ruling
    return ruling is not None and not ruling.restart and ruling.number >= record.job.number


def _sooner(outcome: Outcome, interval_s: float) -> float:
    """Seconds until something waits to be done: a restart after its delay, an alert after its back-off, a job that is
    ending."""
    record = outcome.record
    wake = actions.wake_at(record, {RESTART_KIND, STOP_KIND}, outcome.at) if record is not None else None
    waits = [interval_s]
    if wake is not None:
        waits.append(max(0.2, (wake - outcome.at).total_seconds()))
    elif record is not None and just_started(record):
        waits.append(0.2)
    if outcome.left_until is not None:
        waits.append(_ENDING_S)
    again_s = over.retry_in_s(outcome) if outcome.status.finished else None
    return min([*waits, *([again_s] if again_s is not None else [])])
