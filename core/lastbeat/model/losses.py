"""What failures cost: each that is recorded, and how many hours each cause, node, user and range of steps lost."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from lastbeat.model.status import Status


class Dimension(str, Enum):
    """By what failures are grouped."""

    CAUSE = "cause"
    NODE = "node"
    USER = "user"
    STEPS = "step-range"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Loss:
    """What one failure cost, in seconds of wall time. None: not known, which is not zero."""

    thrown_away_s: float | None = None
    """Training that was done again, or would have to be: since the step from which the next attempt went on, else since
    the last complete checkpoint. Of an attempt that died before its first step all of it."""
    dead_s: float | None = None
    """From its death until it was seen, and until the next attempt was submitted or began, if there was one; the latter
    only if a restart may have helped. Time before a watcher looked does not count."""


@dataclass(frozen=True, slots=True)
class CountedFailure:
    """One failure, as its run's record tells. Texts are hostile."""

    run_id: str
    attempt: int
    at: datetime
    """When a watchdog saw it."""
    status: Status
    error_type: str | None = None
    """None: no cause is recorded."""
    signal: str | None = None
    fingerprint: str | None = None
    said: str = ""
    """The reason, as in the alert."""
    node: str | None = None
    user: str | None = None
    step: int | None = None
    early: bool = False
    """It died before its first step."""
    loss: Loss = Loss()
    started_again: bool = False
    died_at: datetime | None = None
    """When it happened, as far as the evidence tells. None: not known."""

    @property
    def happened_at(self) -> datetime:
        """When it happened; where that is not known, when it was seen."""
        return self.died_at or self.at


@dataclass
class LossGroup:
    """The failures that have one cause, node, user or range of steps."""

    name: str
    """What they share. Of causes error type and signal. Empty: it is not known."""
    failures: int = 0
    runs: set[str] = field(default_factory=set)
    thrown_away_s: float = 0.0
    thrown_away_known: int = 0
    """Of how many failures that is known."""
    dead_s: float = 0.0
    dead_known: int = 0
    latest: CountedFailure | None = None
    """The one that happened last. Its words stand for all of them."""
    fingerprints: "dict[str, LossGroup]" = field(default_factory=dict)
    """Fingerprint, or what stands for one → its part of a cause."""

    def add(self, failure: CountedFailure) -> None:
        """Count ``failure``."""
        self.failures += 1
        self.runs.add(failure.run_id)
        if failure.loss.thrown_away_s is not None:
            self.thrown_away_s += failure.loss.thrown_away_s
            self.thrown_away_known += 1
        if failure.loss.dead_s is not None:
            self.dead_s += failure.loss.dead_s
            self.dead_known += 1
        if self.latest is None or _order(failure) >= _order(self.latest):
            self.latest = failure

    @property
    def lost_s(self) -> float | None:
        """All that is known to be lost; None: nothing is known."""
        return self.thrown_away_s + self.dead_s if self.thrown_away_known or self.dead_known else None

    @property
    def at_least(self) -> bool:
        """Whether more was lost than is known, or may have been."""
        return min(self.thrown_away_known, self.dead_known) < self.failures


def grouped(failures: Iterable[CountedFailure], by: Dimension) -> list[LossGroup]:
    """Groups of failures, the most important first: by lost hours, then by number of failures. Unknown groups come
    last."""
    groups: dict[str, LossGroup] = {}
    for each in failures:
        name = _name(each, by)
        group = groups.setdefault(name, LossGroup(name))
        group.add(each)
        if by is Dimension.CAUSE:
            fingerprint = each.fingerprint or name
            group.fingerprints.setdefault(fingerprint, LossGroup(fingerprint)).add(each)
    return by_loss(groups.values())


def by_loss(groups: "Iterable[LossGroup]") -> list[LossGroup]:
    """``groups`` with the one that lost the most hours first."""
    return sorted(groups, key=lambda group: (group.lost_s is None, -(group.lost_s or 0.0), -group.failures, group.name))


def _order(failure: CountedFailure) -> tuple[datetime, str, int]:
    return failure.happened_at, failure.run_id, failure.attempt


def _name(failure: CountedFailure, by: Dimension) -> str:
    if by is Dimension.CAUSE:
        return f"{failure.error_type or ''} {failure.signal or failure.status}"
    if by is Dimension.NODE:
        return failure.node or ""
    if by is Dimension.USER:
        return failure.user or ""
    return step_range(failure.step, early=failure.early)


def step_range(step: int | None, *, early: bool = False) -> str:
    """``1,000 to 9,999``: ranges that are ten times as long each; empty where the step is not known."""
    if early:
        return "before the first step"
    if step is None:
        return ""
    if step < 10:
        return "0 to 9"
    least = 10 ** (len(str(min(step, 10**18))) - 1)
    return f"{least:,} to {10 * least - 1:,}"
