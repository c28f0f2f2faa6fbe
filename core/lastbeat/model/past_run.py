"""How the attempts of a run ended, as its record tells: data."""

from dataclasses import dataclass
from datetime import datetime

from lastbeat.model.restart import JobEnd, RestartEntry
from lastbeat.model.status import Status


@dataclass(frozen=True, slots=True)
class PastEnd:
    """How an attempt ended, as far as its run's record tells."""

    attempt: int
    at: datetime
    """When a watchdog saw it: when a policy would have been asked."""
    status: Status
    end: JobEnd
    died_at: datetime
    """When it happened, as far as is known."""
    began_at: datetime | None = None
    """When the attempt began."""
    first_step: int | None = None
    steps_per_s: float | None = None
    """How fast the attempt was, as far as its steps are known."""
    resumed_at: datetime | None = None
    """When the next attempt was submitted or began; None if that is unknown or there was none."""
    reached: int | None = None
    """How far the next attempt got, as far as is known."""
    came_back: bool = False
    """The same attempt came back, or ended well after all."""
    restarted: RestartEntry | None = None
    """What lastbeat itself decided then."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """The ends of a run, oldest first."""

    run_id: str
    ends: tuple[PastEnd, ...] = ()
    cut: bool = False
    """There were more transitions than the record keeps."""
    thin: bool = False
    """Its record keeps no transition: nothing can be said of it."""
