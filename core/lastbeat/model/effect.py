"""What follows from a decision, as data. Each kind has its own rule for how often it may happen."""

from lastbeat.model.action import Action
from lastbeat.model.data import dataclass
from lastbeat.model.status import Event


@dataclass(frozen=True, slots=True)
class Notify:
    """An alert of ``event``: at least once on each channel, see ``effects.outbox``."""

    event: Event


Effect = Notify | Action
"""An action changes the world: at most once, see ``effects.actions``."""
