"""An action is data: something that is to be done to the world, and how far that is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from lastbeat.model.persisted import Persisted


@dataclass(frozen=True)
class Action(Persisted):
    """Something to be done at most once: a restart, a command. It stands in the record before anything is done."""

    name: str
    """Names it for good. By this name the world can be asked whether it has happened."""
    kind: str
    """Which executor carries it out: ``restart``, ``command``. Whoever has none of that kind leaves it alone."""
    asked_at: datetime
    """When it was decided, by the store's clock."""
    asked_by: str
    """Whose wish it is: a policy's, a person's."""
    why: str
    attempt: int = 1
    """The attempt that it was decided in."""
    details: Mapping[str, str] = field(default_factory=dict)
    """What the executor has to know."""
    not_before: datetime | None = None
    """Back-off: not to be begun before this."""
    claims: int = 0
    """How often somebody set about it."""
    claimed_by: str | None = None
    """Token of whoever is at it, or died over it, since the last answer that was certain."""
    claimed_until: datetime | None = None
    """Nobody else sets about it before this."""
    done_at: datetime | None = None
    result: str | None = None
    """What the world calls it now that it is done: a job's id."""
    failed: str | None = None
    """Why it was not done and will not be."""
    last_error: str | None = None

    @property
    def settled(self) -> bool:
        """Whether it is done, or never will be."""
        return self.done_at is not None or self.failed is not None
