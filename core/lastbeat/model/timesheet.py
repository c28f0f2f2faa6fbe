"""The timesheet of a run: when each of its attempts was submitted, began, stepped, died and was seen dead.

All times are the store's, as far as the evidence has them. A field that is None is not known; nothing is guessed here.
"""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import Enum
from typing import ClassVar, Final

from lastbeat.model.data import dataclass
from lastbeat.model.persisted import Form, Persisted
from lastbeat.model.status import Status

KEPT_ATTEMPTS: Final = 16
"""The latest attempts are kept one by one, what came before them as a sum."""


class TimeUse(str, Enum):
    """What a part of the wall time went into."""

    PRODUCTIVE = "productive"
    """Steps that still count."""
    LOST = "lost"
    """Steps that were done again by a later attempt, and the one that was under way when training died."""
    QUEUED = "queued"
    """Submitted, and waiting for its turn."""
    STARTING = "starting"
    """From its turn to the beginning of its first step."""
    UNNOTICED = "unnoticed"
    """Dead, or standing still, and not noticed by any watcher."""
    RESTARTING = "restarting"
    """Dead, until the next attempt was submitted: noticed, or before a watcher looked."""
    UNKNOWN = "unknown"
    """There is no evidence."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class AttemptTimes(Persisted):
    """One attempt."""

    FORM: ClassVar = Form.SPARSE

    number: int
    submitted_at: datetime | None = None
    """When lastbeat submitted it; None if it did not."""
    started_at: datetime | None = None
    """When it left the queue. For a run without a supervisor: when training says that it began, else its first sign
    of life."""
    resumed_from: int | None = None
    """The step of the checkpoint that it was given; 0: none was there. None: training chose by itself."""
    no_step_at: datetime | None = None
    """The last look that showed no step of it."""
    first_step: int | None = None
    """Its first known step."""
    first_step_at: datetime | None = None
    """When it reached that step."""
    first_is_told: bool = False
    """Whether training reported it itself, so that there was none before."""
    last_step: int | None = None
    last_step_at: datetime | None = None
    redone: int = 0
    """Steps by which it went back while it lived: training restarted by itself."""
    still_s: float = 0.0
    """Time in s for which it stood still unnoticed, and later continued by itself."""
    given_up_s: float = 0.0
    """Time in s for which it stood still after that was noticed."""
    died_at: datetime | None = None
    """When it ended, as far as the evidence tells."""
    seen_at: datetime | None = None
    """When a watchdog saw that."""
    end: Status | None = None
    """What it ended as."""
    decided_at: datetime | None = None
    """When its restart was decided."""
    in_place: int = 0
    """Starts of its command within its job before it, which failed or hung, as training says."""

    @property
    def began_at(self) -> datetime | None:
        """Its first known moment."""
        known = (self.submitted_at, self.started_at, self.no_step_at, self.first_step_at, self.died_at, self.seen_at)
        return next((at for at in known if at is not None), None)


@dataclass(frozen=True)
class EarlierTimes(Persisted):
    """The sum of the attempts before those that are kept."""

    FORM: ClassVar = Form.SPARSE

    since: datetime
    """When the first of them began."""
    until: datetime
    """When the first kept attempt began."""
    attempts: int = 0
    spent: Mapping[str, float] = field(default_factory=dict)
    """:class:`TimeUse` → seconds. Its values add up to the time between ``since`` and ``until``."""
    top_step: int | None = None
    """The last of their steps that still counts; an attempt that resumes before it does steps again."""
    step_s: float = 0.0
    """How long one of those took."""
    lost_steps: int | None = None
    failures: int = 0
    detected: int = 0
    """Failures whose time and whose detection are both known."""
    detect_s: float = 0.0
    """Seconds from failure to detection, summed over ``detected``."""
    recovered: int = 0
    """Failures after which training stepped again at a known time."""
    recover_s: float = 0.0
    """Seconds from these failures until training stepped again, summed."""
    down_since: datetime | None = None
    """When a failure happened after which it has not stepped yet."""


@dataclass(frozen=True)
class Timesheet(Persisted):
    """All attempts of a run that are known."""

    attempts: tuple[AttemptTimes, ...] = ()
    """The latest :data:`KEPT_ATTEMPTS`, oldest first."""
    earlier: EarlierTimes | None = None

    @property
    def last(self) -> AttemptTimes | None:
        """The present attempt."""
        return self.attempts[-1] if self.attempts else None
