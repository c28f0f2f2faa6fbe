"""The user's limits and wishes, in the form that the decision needs."""

from dataclasses import dataclass, replace
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
    """No new log line and no new step for this long is a stall, too. ``stall_s`` takes precedence. None: not
    watched."""
    absences: "tuple[Absence, ...]" = ()
    """Lines that have to appear in the logs regularly."""
    poll_s: float | None = None
    """The shortest time between two reads of the logs. None: read at every look."""
    start_grace_s: float = 0.0
    """How long a run may take to its first heartbeat, counted from the first look."""
    alert_on: frozenset[Event] = DEFAULT_ALERT_ON
    lease_s: float = 60.0
    """How long a delivery stays claimed. Longer than any channel's own time limit."""
    blind_s: float = 600.0
    """After this long without an observation the watchdog says that it is blind."""

    def of_run(self, stale_s: float | None, stall_s: float | None) -> "Policy":
        """The policy for a run that states limits of its own: they outrank the watcher's."""
        if stale_s is None and stall_s is None:
            return self
        return replace(self, stale_s=stale_s or self.stale_s, stall_s=stall_s or self.stall_s)


@dataclass(frozen=True, slots=True)
class FleetPolicy:
    """Limits of a sweep, in seconds unless noted."""

    interval_s: float = 60.0
    """Time between the beginnings of two passes."""
    read_s: float = 1200.0
    """A heartbeat that merely advances is read again after this long at the latest."""
    discover_s: float = 300.0
    """Where a listing in each pass costs more than asking the live runs: how often everything is listed, to find new
    and reopened runs."""
    news_s: float = 86400.0
    """A run first found this long after it ended is history and raises no alert."""
    group_runs: int = 5
    """The number of runs timing out together from which on one alert tells of all."""
    group_s: float = 300.0
    """Runs that time out within this time form a group, and it is the least time between two notices of a group."""
    repeat_s: float | None = None
    """A group that is still timed out is repeated after this long. None: it is not."""
    fanout_runs: int = 2000
    """With more active runs than this, the fleet is split over a queue if there is one."""
