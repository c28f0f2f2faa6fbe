"""What follows from a decision, as data: an alert to send, or an action and how far it has got."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime

from lastbeat.model.data import dataclass
from lastbeat.model.persisted import Persisted
from lastbeat.model.status import Event


@dataclass(frozen=True)
class Action(Persisted):
    """Something to do at most once: a restart, a command. It is in the record before anything is done."""

    name: str
    """Identifies it for good. By this name the world can be asked whether it has happened."""
    kind: str
    """Which executor performs it: ``restart``, ``command``. A watcher without that executor leaves it alone."""
    asked_at: datetime
    """When it was decided, by the store's clock."""
    asked_by: str
    """The policy or person that asked for it."""
    why: str
    attempt: int = 1
    """The attempt in which it was decided."""
    details: Mapping[str, str] = field(default_factory=dict)
    """Parameters for the executor."""
    not_before: datetime | None = None
    """Back-off: do not begin before this."""
    claims: int = 0
    """How often it was claimed."""
    claimed_by: str | None = None
    """Token of the watcher that claimed it and has not settled it, perhaps because it died."""
    claimed_until: datetime | None = None
    """No other watcher may claim it before this."""
    done_at: datetime | None = None
    result: str | None = None
    """The world's name for the finished action: a job id."""
    failed: str | None = None
    """Why it was not done and never will be."""
    last_error: str | None = None
    in_doubt: bool = False
    """Somebody who claimed it left no answer: it may have happened."""
    begun: bool = False
    """A part of it has happened, so it is not taken back."""

    @property
    def untouched(self) -> bool:
        """Whether it waits, and certainly nothing of it has happened: it may still be taken back."""
        return not (self.settled or self.claimed_by is not None or self.in_doubt or self.begun)

    @property
    def settled(self) -> bool:
        """Whether it is done or never will be."""
        return self.done_at is not None or self.failed is not None


@dataclass(frozen=True, slots=True)
class Notify:
    """An alert of ``event``: at least once on each channel, see ``effects.outbox``."""

    event: Event


Effect = Notify | Action
"""An action changes the world: at most once, see ``effects.actions``."""
