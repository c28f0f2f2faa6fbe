"""What one pass over one run found and did: what the command line shows and programs read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from lastbeat.model.alert import Message
from lastbeat.model.observation import Heartbeat, Observation
from lastbeat.model.record import Explained, Record, Transition
from lastbeat.model.status import Status


@dataclass(frozen=True)
class Outcome:
    """The answer of one tick."""

    run_id: str
    status: Status
    """``UNKNOWN`` when the pass could not observe; ``record`` then holds the last known status."""
    reason: str
    observation: Observation
    at: datetime
    """When, by the store's clock (by ours while the store cannot be asked)."""
    cause: str | None = None
    action: str | None = None
    explained: Explained | None = None
    """What shows the cause."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    record: Record | None = None
    """The record as this pass left it (as a dry run would leave it); None when it could not be read."""
    last_metadata_at: datetime | None = None
    last_progress_at: datetime | None = None
    step_source: Heartbeat | None = None
    """What tells the step and the loss of this attempt."""
    recorded: bool = True
    """False: what was decided could not be written down, so its alerts are still to come."""
    transition: Transition | None = None
    """The transition that this pass decided, if any."""
    alerts: tuple[Message, ...] = ()
    """Alerts that this pass decided (a dry run: would decide)."""
    pending: int = 0
    """Deliveries that still have to go out."""
    delivered: int = 0
    """Deliveries sent over the life of the record."""
    failures: tuple[str, ...] = ()
    """Deliveries that failed, permanently or for now, one line each, without secrets."""
    notes: tuple[str, ...] = ()
    """What people must know about the watching itself, one line each: no write permission, a store
    without conditional writes, a damaged record."""
