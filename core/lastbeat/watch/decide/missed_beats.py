"""The silence of a process whose heartbeats stopped, at the look that first sees it. Pure."""

from datetime import datetime

from lastbeat.model.record import LimitName, Record
from lastbeat.model.status import RANK_SILENT, Status
from lastbeat.watch.decide.silent_ranks import heard_s_ago
from lastbeat.watch.decide.transition import Decision


def missed_beats_s(before: Record | None, decision: Decision, now: datetime) -> float | None:
    """Seconds since the last heartbeat of a run that is TIMED_OUT for its silence, or of a rank that fell silent while
    others beat. None if this look finds neither."""
    record, transition, exceeded = decision.record, decision.transition, decision.verdict.exceeded
    if transition is not None and transition.after is Status.TIMED_OUT:
        last = record.last_metadata_at
        silent = exceeded is not None and exceeded.name is LimitName.STALE
        return (now - last).total_seconds() if silent and last is not None else None
    known = before.conditions if before is not None else {}
    if RANK_SILENT in decision.verdict.conditions and RANK_SILENT not in known:
        return heard_s_ago(decision.seen, record.attempt, now)
    return None
