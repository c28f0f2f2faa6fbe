"""A run that flips between RUNNING and TIMED_OUT: one alert says so, and further flips are only recorded.

alert  alert  alert  FLAPPING                            alert: how it is now
──┴──────┴──────┴──────┴─────────x─────x────x──────────────────┴─────────►
flips, at most an hour                   no alert │ an hour in one status │
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final

from lastbeat.model.record import Record, Transition
from lastbeat.model.status import Event, Status
from lastbeat.model.times import format_duration

WINDOW_S: Final = 3600.0
MOST_FLIPS: Final = 3
"""Up to this many flips within :data:`WINDOW_S` get an alert each."""

FLIPS: Final = frozenset({Event.TIMED_OUT, Event.RECOVERED})
"""The alerts of a flip. If ALERT_ON has neither, no FLAPPING alert is sent and nothing is muted."""

HINT: Final = (
    "Find out how often the run beats and makes a step: where that takes longer than STALE_MINUTES (or the stall "
    "limit), raise the limit. Otherwise look for what holds the instance up: its network, its disk, its CPU."
)

_BOTH = {Status.RUNNING, Status.TIMED_OUT}


class FlappingPhase(Enum):
    """How one look leaves a run's flapping."""

    NONE = auto()
    BEGINS = auto()
    CONTINUES = auto()
    SETTLED = auto()
    """Flapping ended: the run kept one status for :data:`WINDOW_S`. The same look may begin a new series."""
    INTERRUPTED = auto()
    """Flapping ended with another event: a sentinel, or a new attempt."""

    @property
    def flapping(self) -> bool:
        """Whether the run flaps after this look."""
        return self in {FlappingPhase.BEGINS, FlappingPhase.CONTINUES}


def phase_after(
    before: Record, history: tuple[Transition, ...], transition: Transition | None, now: datetime
) -> FlappingPhase:
    """The phase after this look. ``history`` ends with the ``transition`` that this look decided, if any. Pure."""
    flip = transition is not None and is_flip(transition)
    if before.flapping_since is not None:
        if transition is not None and not flip:
            return FlappingPhase.INTERRUPTED
        return FlappingPhase.SETTLED if _kept_s(before, now) >= WINDOW_S else FlappingPhase.CONTINUES
    return FlappingPhase.BEGINS if flip and len(flips(history, now)) > MOST_FLIPS else FlappingPhase.NONE


def is_flip(transition: Transition) -> bool:
    """Whether the transition led from RUNNING to TIMED_OUT or back. New attempts count: frequent restarts flap, too."""
    return transition.before != transition.after and {transition.before, transition.after} == _BOTH


def flips(history: Iterable[Transition], now: datetime) -> tuple[Transition, ...]:
    """The flips of the last hour, newest first, back to the last transition that was not a flip."""
    found = []
    for transition in reversed(tuple(history)):
        if not is_flip(transition) or (now - transition.at).total_seconds() >= WINDOW_S:
            break
        found.append(transition)
    return tuple(found)


def flapping_note(phase: FlappingPhase, before: Record, after: Record, now: datetime) -> str | None:
    """What an alert of this look says about flapping, ahead of the reason."""
    if phase is FlappingPhase.BEGINS:
        recent = flips(after.history, now)
        span = format_duration(now - recent[-1].at)
        return (
            f"It changed between RUNNING and TIMED_OUT {len(recent)} times within {span}. Further changes are not told "
            f"until it has kept one status for an hour. Now it is {after.status}"
        )
    if phase is FlappingPhase.SETTLED:
        kept = format_duration(_kept_s(before, now))
        if before.status is after.status:
            return f"It no longer goes back and forth: it has been {after.status} for {kept}"
        return f"It had stopped going back and forth and been {before.status} for {kept}; now it is {after.status}"
    return None


def settles_at(record: Record) -> datetime | None:
    """When a flapping run needs a look even if nothing about it changes, or None if it does not flap."""
    if record.flapping_since is None or record.since is None:
        return None
    return record.since + timedelta(seconds=WINDOW_S)


def _kept_s(before: Record, now: datetime) -> float:
    return (now - before.since).total_seconds() if before.since is not None else 0.0
