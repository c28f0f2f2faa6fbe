"""What learned limits would have reported of a run's past: data."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from lastbeat.model.heartbeat import OpenSection
from lastbeat.model.learned_limits import LearnedState


class StepPoint(NamedTuple):
    """Training was at ``step``, by its own clock."""

    at: datetime
    step: int


@dataclass(frozen=True, slots=True)
class KeptTimes:
    """What a run has kept of how long its steps and sections took. All of it is of its latest attempt."""

    points: Sequence[StepPoint] = ()
    """Few, the oldest first, reaching back to its beginning."""
    skew_s: float = 0.0
    """The store's clock minus training's."""
    start: datetime | None = None
    """When the attempt began, as its metadata.json says."""
    open_at: datetime | None = None
    """When the heartbeat with the open sections was written, by the store's clock."""
    open_sections: Sequence[OpenSection] = ()
    """The sections that rank 0 was in then."""
    state: LearnedState | None = None
    """``ft_state.json``. None: it learned nothing."""


class Came(str, Enum):
    """How a wait ended that a learned limit would have reported."""

    HANG = "hang"
    """It ended the run: it hung."""
    WRONG = "wrong"
    """The run went on: a false alarm."""
    UNKNOWN = "unknown"
    """It still lasts, or a person ended the run meanwhile."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class WouldTell:
    """A wait that lasted for longer than its learned limit."""

    name: str
    """``step``, a section (hostile text), or empty: in no section."""
    came: Came
    lasted_s: float
    """Length in s as far as it is known: until the run continued, or until its alert."""
    limit_s: float
    usual_s: float
    """The longest until then."""
    at: datetime | None = None
    """When the learned limit would have raised an alert, by the store's clock; None if that is unknown."""
    earlier_s: float | None = None
    """Seconds by which that alert precedes the actual one of a hang; negative if it is later."""


@dataclass(frozen=True, slots=True)
class PastTimeouts:
    """What learned limits would have reported of a run's latest attempt."""

    run_id: str
    watched_s: float = 0.0
    """Time in s for which its steps are known."""
    steps: int = 0
    longest_s: float = 0.0
    """The longest wait for a step in that time, before its last."""
    limit_s: float | None = None
    """The limit of a step in the end. None: there was none yet."""
    told: Sequence[WouldTell] = ()
    hung: bool = False
    """It ended by a hang, as its record says."""
    unclear: int = 0
    """Stretches longer than a limit whose steps lie too far apart to tell a long one from many."""
    earlier_attempts: int = 0
    """Attempts before, of which no step times are kept."""
    why_not: str | None = None
    """Why too little is kept to judge anything."""

    @property
    def missed(self) -> bool:
        """It hung, and no learned limit would have told of it."""
        return self.why_not is None and self.hung and all(each.came is not Came.HANG for each in self.told)
