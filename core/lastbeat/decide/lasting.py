"""What of a look has to last: whatever the next one could not see for itself. A healthy run writes nothing."""

import math
from datetime import datetime

from lastbeat.model.policy import Policy
from lastbeat.model.record import HeartbeatMemory, Record


def matters(before: Record, after: Record, policy: Policy, now: datetime, *, cold: bool = False) -> bool:
    """Whether something changed that the next pass cannot see for itself. ``cold``: the logs alone show that the run
    lives, and nothing but the record tells the next pass which of their text this one has seen."""
    if set(before.conditions) != set(after.conditions) or before.attempt != after.attempt:
        return True
    if before.flapping_since != after.flapping_since:
        return True
    if set(after.sentinels) - set(before.sentinels):
        # A new one, or one written again: the next attempt must know it as spent.
        return True
    if _lasting(before.metadata) != _lasting(after.metadata):
        return True
    if _lasting(before.progress) != _lasting(after.progress) or before.finding != after.finding:
        return True
    if _is_gone(before.log) is not _is_gone(after.log):
        return True
    # How long something has stood still is known only from looks that were written down; four a limit will do.
    limits = [rule.every_s for rule in policy.absences] if before.log_lines != after.log_lines else []
    limit_s = policy.inactivity_s if policy.stall_s is None else policy.stall_s
    if limit_s is not None and _stand(before, policy) != _stand(after, policy):
        limits.append(limit_s)
    if cold and after.log is not None and (before.log is None or before.log.mark != after.log.mark):
        limits.append(policy.stale_s)
    written_s = (now - before.written_at).total_seconds() if before.written_at else math.inf
    return bool(limits) and written_s >= min(limits) / 4


def _stand(record: Record, policy: Policy) -> tuple[object, ...]:
    """What changes with every sign that a run gets on."""
    steps = record.progress or record.log
    line_at = record.log.modified if record.log is not None and policy.stall_s is None else None
    return (steps.step if steps is not None else None), line_at


def _is_gone(memory: HeartbeatMemory | None) -> bool:
    return memory is not None and memory.missing_since is not None


def _lasting(memory: HeartbeatMemory | None) -> tuple[object, ...] | None:
    if memory is None:
        return None
    # A last proof of life that is older than the file (a rewritten or a future one) cannot be seen from the file.
    remembered = memory.alive_at if memory.alive_at != memory.modified else None
    return memory.skew_s, memory.suspect, memory.missing_since is not None, remembered
