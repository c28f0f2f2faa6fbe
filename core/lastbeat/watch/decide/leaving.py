"""Whether a run that was archived or forgotten stays out of its fleet. Pure."""

from dataclasses import replace
from datetime import datetime

from lastbeat.model.observation import NeverSeen, Seen
from lastbeat.model.policy import Policy
from lastbeat.model.record import LeftOut, Record
from lastbeat.watch.decide.transition import decide


def stays_out(
    record: Record, newest: datetime | None, observed: Seen | NeverSeen, policy: Policy, now: datetime
) -> bool:
    """Whether the run stays out. The look found training's files, the newest of which was stored at ``newest``.

    The run comes back when training writes again; one that beat when it was taken out, with its next attempt.
    """
    left = record.left_out
    if left is None:
        return False
    if left.newest is not None or newest is None:
        return still_out(left, newest)
    return decide(record, record.run_id, observed, policy, now).record.attempt.number == record.attempt.number


def still_out(left: LeftOut, newest: datetime | None) -> bool:
    """The same from a listing alone; a run that beat when it was taken out counts as staying out."""
    return newest is None or left.newest is None or newest <= left.newest


def back(record: Record) -> Record | None:
    """The record that a run comes back with, or None if it counts as a new run."""
    if record.left_out is None:
        return record
    return None if record.left_out.forgotten else replace(record, left_out=None)


def taken_out(record: Record, left: LeftOut) -> Record:
    """``record`` of a run that is taken out of its fleet. Its pending alerts are dropped."""
    if not left.forgotten:
        settled = tuple(
            replace(alert, deliveries={name: each for name, each in alert.deliveries.items() if each.settled})
            for alert in record.outbox
        )
        return replace(record, left_out=left, outbox=tuple(alert for alert in settled if alert.deliveries))
    # Tells its next attempt from this one, and one write from another.
    kept = Record(record.run_id, attempt=record.attempt, sentinels=record.sentinels)
    return replace(kept, seq=record.seq, conditional_writes=record.conditional_writes, left_out=left)
