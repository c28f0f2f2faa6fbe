"""The user's limits and wishes, in the form that the decision needs."""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lastbeat.model.data import dataclass
from lastbeat.model.status import Event

if TYPE_CHECKING:
    from lastbeat.model.digest import DigestTime
    from lastbeat.model.limits import RunLimits
    from lastbeat.model.signal import Absence

HERE: Final = "settings here"
"""The source of a limit: the watcher, or the command that looks."""
ITS_OWN: Final = "its own"
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
    pending_s: float | None = 14400.0
    """A job that has waited in its queue for this long raises ``job_pending``. None: it may wait for ever."""
    start_grace_s: float = 0.0
    """How long a run may take to its first heartbeat, counted from the first look."""
    alert_on: frozenset[Event] = DEFAULT_ALERT_ON
    lease_s: float = 60.0
    """How long a delivery stays claimed. Longer than any channel's own time limit."""
    blind_s: float = 600.0
    """After this long without an observation the watchdog says that it is blind."""

    learned: bool = False
    """A run that says how often it beats is TIMED_OUT sooner than ``stale_s``, if its own beats show that it is."""
    learns: bool = False
    """A run with no limit for standing still is given one: by how long its steps take, as looks see it."""
    stale_from: str = HERE
    """Whose limit ``stale_s`` is; and so for the others."""
    stall_from: str = HERE
    start_from: str = HERE
    learned_from: str = HERE
    fleet_token: int = 0
    """Changes with the fleet's limits for this run, see :class:`RunLimits`."""
    unread: str | None = None
    """Why the fleet's limits are unknown. Then no limit but the run's own decides anything."""

    def of_fleet(self, limits: "RunLimits") -> "Policy":
        """The policy for a run of which the fleet's limits say this: they outrank the watcher's."""
        found = self
        if limits.stale is not None:
            found = replace(found, stale_s=limits.stale[0], stale_from=_of_fleet(limits.stale[1]))
        if limits.stall is not None:
            found = replace(found, stall_s=limits.stall[0] or None, stall_from=_of_fleet(limits.stall[1]))
        if limits.start is not None:
            found = replace(found, start_grace_s=limits.start[0], start_from=_of_fleet(limits.start[1]))
        if limits.learned is not None:
            found = replace(found, learned=limits.learned[0], learned_from=_of_fleet(limits.learned[1]))
        return found if found is self else replace(found, fleet_token=limits.token)

    def of_run(self, stale_s: float | None, stall_s: float | None) -> "Policy":
        """The policy for a run that states limits of its own: they outrank the fleet's and the watcher's."""
        found = self
        if stale_s:
            # It states itself how long it may be silent, so there is nothing to learn.
            found = replace(found, stale_s=stale_s, stale_from=ITS_OWN, learned=False)
        return replace(found, stall_s=stall_s, stall_from=ITS_OWN) if stall_s else found

    @property
    def learns_steps(self) -> bool:
        """Whether the limit for standing still is learned from the steps that ticks have seen: only if none is set."""
        return self.learns and self.stall_s is None and self.inactivity_s is None and self.stall_from == HERE

    @property
    def patient(self) -> "Policy":
        """The policy for runs that were not named: one with only a log has as long to start as a stale heartbeat."""
        return self if self.start_grace_s >= self.stale_s else replace(self, start_grace_s=self.stale_s)


def _of_fleet(glob: str) -> str:
    return f"fleet limit for {glob}"


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
    """From this many runs that time out together, one alert covers all."""
    group_s: float = 300.0
    """Runs that time out within this time form a group, and it is the least time between two notices of a group."""
    repeat_s: float | None = None
    """A group that is still timed out is repeated after this long. None: it is not."""
    fanout_runs: int = 2000
    """With more active runs than this, the fleet is split over a queue if there is one."""
    digest: "DigestTime | None" = None
    """When a pass sends a digest of the last day. None: never."""
