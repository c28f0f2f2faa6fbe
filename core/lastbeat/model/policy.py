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
