"""A run that goes back and forth between RUNNING and TIMED_OUT: people are told that, and not each time again.

told   told   told   FLAPPING                            told: how it is now
──┴──────┴──────┴──────┴─────────x─────x────x──────────────────┴─────────►
flips, at most an hour                   not told │ an hour in one status │
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final

from lastbeat.model import status as names
from lastbeat.model.record import Record, Transition
from lastbeat.model.status import Event, Status
from lastbeat.model.times import format_duration

WINDOW_S: Final = 3600.0
MOST_FLIPS: Final = 3
"""So many within :data:`WINDOW_S` are told one by one."""

FLIPS: Final = frozenset({Event.TIMED_OUT, Event.RECOVERED})
"""What people who are told of a flip are told; whoever wants neither is not told of flapping, and nothing is muted."""

MUTED: Final = frozenset({names.METADATA_STALE, names.PROGRESS_STALE, names.STALLED})
"""Conditions that come and go with every flip, so they are part of what FLAPPING has told already."""

HINT: Final = (
    "Find out how often the run beats and makes a step: where that takes longer than STALE_MINUTES (or the stall "
    "limit), raise the limit. Otherwise look for what holds the instance up: its network, its disk, its CPU."
)

_BOTH = {Status.RUNNING, Status.TIMED_OUT}


class Turn(Enum):
    """What one look means to a run's flapping."""

    NONE = auto()
    BEGINS = auto()
    GOES_ON = auto()
    STEADY = auto()
    """It ended: the run kept one status for :data:`WINDOW_S`. This very look may be the next flip, the first anew."""
    CUT = auto()
    """It ended by other news: a sentinel, a new attempt."""

    @property
    def flapping(self) -> bool:
        """Whether the run flaps after it."""
        return self in {Turn.BEGINS, Turn.GOES_ON}


def turn(before: Record, history: tuple[Transition, ...], transition: Transition | None, now: datetime) -> Turn:
    """``history`` has ``transition``, what this look decided, as its last. Pure."""
    flip = transition is not None and is_flip(transition)
    if before.flapping_since is not None:
        if transition is not None and not flip:
            return Turn.CUT
        return Turn.STEADY if _kept_s(before, now) >= WINDOW_S else Turn.GOES_ON
    return Turn.BEGINS if flip and len(flips(history, now)) > MOST_FLIPS else Turn.NONE


def is_flip(transition: Transition) -> bool:
    """Whether it led from RUNNING to TIMED_OUT or back, be it by a new attempt: a run restarted over and over flaps."""
    return transition.before != transition.after and {transition.before, transition.after} == _BOTH


def flips(history: Iterable[Transition], now: datetime) -> tuple[Transition, ...]:
    """The flips of the last hour, newest first; those before any other news belong to a story that is over."""
    found = []
    for transition in reversed(tuple(history)):
        if not is_flip(transition) or (now - transition.at).total_seconds() >= WINDOW_S:
            break
        found.append(transition)
    return tuple(found)


def told(kind: Turn, before: Record, after: Record, now: datetime) -> str | None:
    """What an alert of this look says of the flapping, before the reason; None: nothing."""
    if kind is Turn.BEGINS:
        recent = flips(after.history, now)
        span = format_duration(now - recent[-1].at)
        return (
            f"It changed between RUNNING and TIMED_OUT {len(recent)} times within {span}. Further changes are not told "
            f"until it has kept one status for an hour. Now it is {after.status}"
        )
    if kind is Turn.STEADY:
        kept = format_duration(_kept_s(before, now))
        if before.status is after.status:
            return f"It no longer goes back and forth: it has been {after.status} for {kept}"
        return f"It had stopped going back and forth and been {before.status} for {kept}; now it is {after.status}"
    return None


def steady_at(record: Record) -> datetime | None:
    """When a flapping run is worth a look even if nothing about it changes; None: it does not flap."""
    if record.flapping_since is None or record.since is None:
        return None
    return record.since + timedelta(seconds=WINDOW_S)


def _kept_s(before: Record, now: datetime) -> float:
    return (now - before.since).total_seconds() if before.since is not None else 0.0
