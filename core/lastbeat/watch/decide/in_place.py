"""Decides what watchers leave to ``lastbeat exec --max-restarts``, and when they report its restarts. Pure.

That command ends training that hangs or has failed, and starts it again in its place. While it does so, watchers draw
no conclusion from a hang or from the last lines of a log. They report a restart once training goes on. They report a
failure once ``exec`` records one in ``_error``.
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
"""A restart is reported at most this many seconds after it, even if no step of it is known yet."""


def in_charge(seen: Seen, stale_s: float, now: datetime) -> InPlace | None:
    """The process that restarts training in its place, as its fresh metadata.json says, or None if there is none."""
    beat = seen.metadata
    if beat is None or beat.fault is not None or (now - beat.modified).total_seconds() > stale_s:
        return None
    return beat.in_place


def still_late(late: Sequence[LateSection], starter: InPlace | None) -> tuple[LateSection, ...]:
    """The sections of ``late`` that are overdue by more than ``starter`` needs for a restart."""
    patience_s = 0.0 if starter is None else starter.takes_s
    return tuple(each for each in late if each.open_s - each.limit_s > patience_s)


def may_get_over(starter: InPlace | None, finding: Finding | None, now: datetime) -> bool:
    """Whether ``starter`` may still get over the failure at the end of the log, or report it as final."""
    if starter is None or finding is None:
        return False
    return (now - finding.seen_at).total_seconds() <= starter.takes_s


def restart_news(before: Record, number: int, seen: Seen, step: int | None, now: datetime) -> str | None:
    """The news of the restart that began attempt ``number``, now at ``step``, or None if there is none. It comes once
    for each attempt, after a step or after enough time for one: before that the attempt may fail again."""
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
