"""What one tick found and did: what the command line shows and ``--json`` prints."""

from datetime import datetime

from lastbeat.model.alert import Message
from lastbeat.model.data import dataclass
from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.observation import Observation
from lastbeat.model.record import LeftOut, Record, Transition
from lastbeat.model.state import HasState, State


@dataclass(frozen=True)
class Outcome(HasState):
    """The result of one tick."""

    run_id: str
    state: State
    """``UNKNOWN`` if the tick could not observe; ``record`` then holds the last known state."""
    observation: Observation
    at: datetime
    """When, by the store's clock, or by this host's while that cannot be read."""
    record: Record | None = None
    """The record as this tick left it (a dry run: would leave it). None: it could not be read."""
    last_metadata_at: datetime | None = None
    last_progress_at: datetime | None = None
    step_source: Heartbeat | None = None
    """The source of the step and the loss of this attempt; None if it has shown none, or could not be observed."""
    recorded: bool = True
    """False: the decision could not be recorded, so its alerts are outstanding."""
    left_until: datetime | None = None
    """Until then it is left to the run's supervisor to record and tell what this tick found."""
    transition: Transition | None = None
    """The transition that this tick decided, if any."""
    alerts: tuple[Message, ...] = ()
    """Alerts that this tick decided (a dry run: would decide)."""
    pending: int = 0
    """Deliveries that still have to go out."""
    delivered: int = 0
    """Deliveries sent over the life of the record."""
    left_out: LeftOut | None = None
    """Somebody took the run out of its fleet, so that nothing was decided."""
    failures: tuple[str, ...] = ()
    """Deliveries that failed, permanently or for now, a line each, without secrets."""
    notes: tuple[str, ...] = ()
    """Remarks on the watching itself, a line each: no write permission, a store without conditional writes, a damaged
    record."""
