"""What a restart policy would have done to a run that is over: data."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from lastbeat.model.restart import JobEnd, RestartDecision, RestartEntry
from lastbeat.model.status import Status


class Hindsight(str, Enum):
    """What came of an end, and so what a decision about it would have been worth."""

    SAVED = "saved"
    """Restarted; a person started it again later, and it got further."""
    WASTED = "wasted"
    """Restarted; it was started again, and died of the same cause without getting further."""
    MISSED = "missed"
    """Stopped; a person started it again, and it got further."""
    SPARED = "spared"
    """Stopped; it was started again, and died of the same cause without getting further."""
    BACK = "back"
    """The same attempt came back, or ended well: there was nothing to restart."""
    ASKED = "asked"
    """A person had asked for this end."""
    DONE = "done"
    """It ended well."""
    UNKNOWN = "unknown"
    """It was not started again, or how far it got is unknown."""

    def __str__(self) -> str:
        return self.value


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


@dataclass(frozen=True, slots=True)
class PastDecision:
    """What a policy would have decided about one end, and what that would have been worth."""

    run_id: str
    past: PastEnd
    decision: RestartDecision
    hindsight: Hindsight
    seconds: float | None = None
    """Saved or wasted, missed or spared. None: not known, or none of these."""
    steps: int | None = None
    """The same in steps."""


@dataclass
class Worth:
    """How often, and how much in all."""

    count: int = 0
    seconds: float = 0.0
    timed: int = 0
    """Of how many the time is known."""
    steps: int = 0
    stepped: int = 0
    """Of how many the steps are known."""


@dataclass
class Backtest:
    """What one policy would have done to a fleet."""

    policy: str
    restarts: dict[Hindsight, Worth] = field(default_factory=dict)
    stops: dict[Hindsight, Worth] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    """Reason of each decision that was not about a good end → how often."""

    def add(self, each: PastDecision) -> None:
        """Count ``each``."""
        tallies = self.restarts if each.decision.restart else self.stops
        tally = tallies.setdefault(each.hindsight, Worth())
        tally.count += 1
        if each.seconds is not None:
            tally.seconds, tally.timed = tally.seconds + each.seconds, tally.timed + 1
        if each.steps is not None:
            tally.steps, tally.stepped = tally.steps + each.steps, tally.stepped + 1
        if each.hindsight is not Hindsight.DONE:
            self.reasons[each.decision.reason] = self.reasons.get(each.decision.reason, 0) + 1
