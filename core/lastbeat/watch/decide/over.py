"""Whether a watch has anything left to wait for, and when to look next."""

from lastbeat.model.outcome import Outcome
from lastbeat.model.status import Status
from lastbeat.watch.decide.logs import DOUBT_S


def retry_in_s(outcome: Outcome) -> float | None:
    """Seconds from the pass until a waiting delivery may be tried again, or None if none waits for a time."""
    alerts = outcome.record.outbox if outcome.record is not None else ()
    waits = []
    for alert in alerts:
        for delivery in alert.deliveries.values():
            times = [at for at in (delivery.not_before, delivery.claimed_until) if at is not None]
            # A delivery that is due and was not sent waits for something other than time.
            if not delivery.settled and times and max(times) > outcome.at:
                waits.append(max(times))
    return max(1.0, (min(waits) - outcome.at).total_seconds()) if waits else None


def is_over(outcome: Outcome, *, dry_run: bool) -> bool:
    """Whether a watch has nothing left to wait for: the run is finished and all alerts are sent."""
    # A flapping run that is TIMED_OUT is reported only after an hour in that status.
    told = outcome.recorded and outcome.pending == 0 and (outcome.record is None or not outcome.record.flapping_since)
    told = told and outcome.left_until is None
    return outcome.status.finished and (dry_run or told) and not _may_be_taken_back(outcome)


def _may_be_taken_back(outcome: Outcome) -> bool:
    """Whether only a log says that the run has ended, and the run has beaten since: it may have got over the error."""
    record = outcome.record
    if record is None or record.finding is None or not record.finding.alone:
        return False
    if outcome.status not in {Status.FAILED, Status.CANCELLED}:
        return False
    seen_at = record.finding.seen_at
    beats = [memory.alive_at for memory in (record.metadata, record.progress) if memory is not None]
    lives = any(at is not None and at > seen_at for at in beats)
    return lives and (outcome.at - seen_at).total_seconds() < DOUBT_S
