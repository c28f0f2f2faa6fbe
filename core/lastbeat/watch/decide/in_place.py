"""What watchers leave to ``lastbeat exec --max-restarts``, and what they tell of it. Pure.

It ends training that hangs or has failed, and starts it again in its place. So for the time that this takes nothing
follows from a hang, nor from the last words of a log: people are told of a restart once training goes on, and of a
failure when whoever starts it says that there is one (``_error``).
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from lastbeat.model.in_place import InPlace
from lastbeat.model.observation import Seen
from lastbeat.model.record import Finding, Record
from lastbeat.model.text import counted
from lastbeat.watch.decide.late_sections import LateSection

TOLD_AFTER_S: Final = 300.0
"""So long after a restart people are told of it, though nobody knows a step of it yet."""


def in_charge(seen: Seen, stale_s: float, now: datetime) -> InPlace | None:
    """Who starts training again in its place, as its fresh metadata.json says; None: nobody does."""
    beat = seen.metadata
    if beat is None or beat.fault is not None or (now - beat.modified).total_seconds() > stale_s:
        return None
    return beat.in_place


def still_late(late: Sequence[LateSection], starter: InPlace | None) -> tuple[LateSection, ...]:
    """Those of ``late`` that have been for longer than whoever starts training again needs."""
    patience_s = 0.0 if starter is None else starter.takes_s
    return tuple(each for each in late if each.open_s - each.limit_s > patience_s)


def may_get_over(starter: InPlace | None, finding: Finding | None, now: datetime) -> bool:
    """Whether ``starter`` may still get over the failure in which the log ends, or say itself that it does not."""
    if starter is None or finding is None:
        return False
    return (now - finding.seen_at).total_seconds() <= starter.takes_s


def restart_news(before: Record, number: int, seen: Seen, step: int | None, now: datetime) -> str | None:
    """What people are to be told of the restart that attempt ``number`` is, at ``step``: once for each attempt, when it
    has made a step or has had time to: before that it may fail again. None: nothing."""
    beat = seen.metadata
    restarts = beat.in_place.restarts if beat is not None and beat.in_place is not None else 0
    if not restarts or before.in_place_told == number:
        return None
    times = "once" if restarts == 1 else counted(restarts, "time")
    if step is not None:
        return f"restarted in place {times}, now at step {step:,}"
    since = before.since if before.attempt.number == number else None
    waited_s = (now - since).total_seconds() if since is not None else 0.0
    return f"restarted in place {times}, no step since" if waited_s >= TOLD_AFTER_S else None
