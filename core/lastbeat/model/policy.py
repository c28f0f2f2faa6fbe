"""What the user asked for, as the decision needs it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lastbeat.model.status import Event

if TYPE_CHECKING:
    from lastbeat.model.signal import Absence

DEFAULT_ALERT_ON = frozenset({Event.FAILED, Event.TIMED_OUT, Event.SUCCEEDED, Event.RECOVERED, Event.WARNING})


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits are in seconds."""

    stale_s: float = 600.0
    """A heartbeat older than this is stale."""
    stall_s: float | None = None
    """No new step for this long raises ``stalled``, for twice as long is TIMED_OUT. None: not watched."""
    inactivity_s: float | None = None
    """Neither a new line in the logs nor a new step for this long is a stall, too; ``stall_s`` outranks it. None: not
    watched."""
    absences: "tuple[Absence, ...]" = ()
    """Lines that have to appear in the logs again and again."""
    poll_s: float | None = None
    """How often logs are read at most. None: at every look."""
    start_grace_s: float = 0.0
    """How long a run may take to its first heartbeat, from when it was first looked for."""
    alert_on: frozenset[Event] = DEFAULT_ALERT_ON
    lease_s: float = 60.0
    """How long a claimed delivery belongs to who claimed it; longer than any channel's own time limit."""
    blind_s: float = 600.0
    """After this long without sight the watchdog says that it is blind."""


@dataclass(frozen=True, slots=True)
class FleetPolicy:
    """Limits of a sweep, in seconds where not said otherwise."""

    interval_s: float = 60.0
    """Time between the beginnings of two passes."""
    read_s: float = 1200.0
    """Heartbeats that only move on are read again after this long at the latest."""
    discover_s: float = 300.0
    """Everything is listed once in so long, for runs that are new or began again, where listing it in each pass costs
    more than asking those that live."""
    news_s: float = 86400.0
    """A run that is first found this long after it ended is history, and nobody is told."""
    group_runs: int = 5
    """From so many runs on that time out together, one alert tells of all of them."""
    group_s: float = 300.0
    """What times out within this time is together, and a group is told anew no sooner than after it."""
    repeat_s: float | None = None
    """A group that still is timed out is told again after this long; None: it is not."""
    fanout_runs: int = 2000
    """With more active runs than this the fleet is split over a queue, where there is one."""
