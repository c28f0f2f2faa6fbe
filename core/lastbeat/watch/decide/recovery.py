"""Decides whether new evidence ends a TIMED_OUT, or a condition that a limit raised. Pure.

Watchers with different limits share one record. A laxer limit than the one that decided is no sign of life. So the
decision stands until something shows life, or progress if the lack of it was the reason.

While the fleet's limits are unread, no decision depends on them: they may be laxer than this watcher's, or stricter.
Then only the run's own limits make it TIMED_OUT or raise a condition.
"""

from datetime import datetime
from typing import Final

from lastbeat.model.policy import ITS_OWN, Policy
from lastbeat.model.record import ExceededLimit, HeartbeatMemory, LimitName, Record
from lastbeat.watch.decide.evidence import AttemptEvidence

STOOD_STILL: Final = "twice exceeded)"
"""Part of the reason of a run that was given up though it beat."""
NEVER_BEGAN: Final = "No heartbeat files found"
"""Start of the reason of a run that was never seen."""


def exceeded_limit(record: Record) -> LimitName | None:
    """Which limit the run exceeded when it was TIMED_OUT, or None if unknown. A record made from the fleet index has
    only the reason."""
    if record.exceeded is not None:
        return record.exceeded.name
    if STOOD_STILL in record.reason:
        return LimitName.STALL
    return LimitName.START if record.reason.startswith(NEVER_BEGAN) else None


def time_out_stands(before: Record, evidence: AttemptEvidence) -> bool:
    """Whether ``before``'s TIMED_OUT stands: no sign of life since, or no progress if the run had stalled."""
    limit = exceeded_limit(before)
    if before.exceeded is not None and before.exceeded.section is not None:
        return not _sections_were_seen(before, evidence)
    if limit in {LimitName.STALL, LimitName.INACTIVITY}:
        lines = limit is LimitName.INACTIVITY and _lived(before, before.log, evidence.log)
        return not (lines or got_on(before, evidence))
    report = evidence.seen.logs
    empty_at = report.empty_at if report is not None else None
    if empty_at is not None and before.since is not None and empty_at > before.since:
        return False
    pairs = [(before.metadata, evidence.metadata), (before.progress, evidence.progress)]
    if evidence.metadata is None or evidence.progress is None:
        # If both heartbeats exist, no limit is about the logs, and passes do not read them.
        pairs.append((before.log, evidence.log))
    return not any(_lived(before, known, now) for known, now in pairs)


def _sections_were_seen(before: Record, evidence: AttemptEvidence) -> bool:
    """Whether the run has beaten since, and its sections could be read on all of its ranks."""
    metadata, ranks = evidence.seen.metadata, evidence.seen.ranks
    if metadata is None or metadata.fault is not None or not _lived(before, before.metadata, evidence.metadata):
        return False
    return (metadata.world_size or 1) < 2 or (ranks is not None and not ranks.unread)


def is_unknown(limit: LimitName | None, policy: Policy) -> bool:
    """Whether the value of ``limit`` is unknown: the fleet's limits are unread, and the run states none of its own."""
    if limit is None or policy.unread is None:
        return False
    own = {LimitName.STALE: policy.stale_from == ITS_OWN, LimitName.STALL: policy.stall_from == ITS_OWN}
    return not own.get(limit, True)


def undecidable(exceeded: ExceededLimit | None, policy: Policy) -> str | None:
    """Why it is unknown whether a run that exceeded this limit is TIMED_OUT, or None if that limit is known."""
    return None if exceeded is None or exceeded.source == ITS_OWN else policy.unread


def _lived(before: Record, known: HeartbeatMemory | None, seen: HeartbeatMemory | None) -> bool:
    lived_at, known_at = alive_at(seen), alive_at(known)
    if lived_at is None or (seen is not None and seen.missing_since is not None):
        return False
    return known_at is None or lived_at > known_at or (before.since is not None and lived_at > before.since)


def alive_at(memory: HeartbeatMemory | None) -> datetime | None:
    """When this heartbeat was last alive, or None if there is none."""
    return None if memory is None else memory.alive_at or memory.modified


def got_on(before: Record, evidence: AttemptEvidence) -> bool:
    """Whether the run has made a step since ``before``."""
    known, steps = before.progress or before.log, evidence.step_source
    if steps is None or steps.step is None:
        return False
    if known is None or known.step != steps.step:
        return True
    return before.since is not None and steps.step_at is not None and steps.step_at > before.since
