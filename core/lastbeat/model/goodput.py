"""Goodput: what wall time went into, of one run and of many."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime
from typing import Final

from lastbeat.model.data import dataclass
from lastbeat.model.timesheet import TimeUse

MEANINGS: Final[Mapping[TimeUse, str]] = {
    TimeUse.PRODUCTIVE: "steps that count",
    TimeUse.LOST: "steps done again, or cut off",
    TimeUse.QUEUED: "waiting in the queue",
    TimeUse.STARTING: "start-up, before the first step",
    TimeUse.UNNOTICED: "dead, and unnoticed",
    TimeUse.RESTARTING: "dead, until the next attempt",
    TimeUse.UNKNOWN: "not known",
}
"""In words, in the order in which people are shown them."""


@dataclass(frozen=True)
class TimeSpent:
    """Where wall time went.

    The *effective training time ratio* (ETTR) is productive runtime over wall time, with the queue, start-up and all
    work that had to be done again in the wall time: A. Kokolis et al., "Revisiting Reliability in Large-Scale Machine
    Learning Research Clusters", 2024 (Meta). Google calls it goodput, and the rest badput: "Introducing ML Productivity
    Goodput: a metric to measure AI system efficiency", Google Cloud, 2024. How well the hardware is used while training
    steps (model FLOPs utilization) is another matter, which a watchdog cannot see.
    """

    spent: Mapping[TimeUse, float] = field(default_factory=dict)
    """Seconds, none negative. A use that is missing is not known; its time is in ``UNKNOWN``, or in its neighbours."""
    attempts: int = 0
    lost_steps: int | None = None
    """Steps that a later attempt repeated; a lower bound where the step that it resumed from is unknown. None if
    unknown."""
    failures: int = 0
    """Attempts that failed, hung or fell silent, as far as that was observed."""
    detected: int = 0
    """Failures whose time and whose detection are both known."""
    detect_s: float = 0.0
    """Seconds from failure to detection, summed over ``detected``."""
    recovered: int = 0
    """Outages after which training stepped again. Several failures in a row are one outage."""
    recover_s: float = 0.0
    """Length of these outages in s, summed."""

    @property
    def wall_s(self) -> float:
        """All of it, in seconds."""
        return sum(self.spent.values())

    @property
    def ettr(self) -> float | None:
        """The effective training time ratio, from 0 to 1, if nothing of what is not known was productive. None: not
        known."""
        return self.share(self.spent.get(TimeUse.PRODUCTIVE))

    @property
    def ettr_most(self) -> float | None:
        """The same if all that is not known was productive."""
        productive = self.spent.get(TimeUse.PRODUCTIVE)
        return self.share(None if productive is None else productive + self.spent.get(TimeUse.UNKNOWN, 0.0))

    @property
    def mean_detect_s(self) -> float | None:
        """Mean time to detect: from a failure to the look that saw it. None: there was none, or not known."""
        return self.detect_s / self.detected if self.detected else None

    @property
    def mean_recover_s(self) -> float | None:
        """Mean time to recover: from a failure until training stepped again. None: it never did, or not known."""
        return self.recover_s / self.recovered if self.recovered else None

    def share(self, part_s: float | None) -> float | None:
        """A part of the wall time, from 0 to 1; None where it is not known, or nothing has passed."""
        return None if part_s is None or self.wall_s <= 0 else min(1.0, max(0.0, part_s / self.wall_s))


@dataclass(frozen=True, kw_only=True)
class Goodput(TimeSpent):
    """Where a run's wall time went since its first submission."""

    since: datetime
    """The first submission, or the first known moment of a run that lastbeat did not submit."""
    until: datetime
    """When it ended for good, else the moment for which this was asked."""
    first_attempt: int = 1
    """Number of the first attempt whose times are known; starts in place before it count as attempts that failed."""
    over: bool = False
    """It has ended, and no restart waits."""
    down: bool = False
    """Since its last failure it has neither stepped nor ended well."""

    @property
    def wall_s(self) -> float:
        """Seconds from ``since`` to ``until``: what was spent adds up to it."""
        return (self.until - self.since).total_seconds()


def total(each: Iterable[TimeSpent]) -> TimeSpent:
    """The sum over several runs."""
    runs = list(each)
    spent: dict[TimeUse, float] = {}
    for run in runs:
        for use, seconds in run.spent.items():
            spent[use] = spent.get(use, 0.0) + seconds
    lost = [run.lost_steps for run in runs if run.lost_steps is not None]
    return TimeSpent(
        {use: spent[use] for use in TimeUse if use in spent},
        sum(run.attempts for run in runs),
        sum(lost) if lost else None,
        sum(run.failures for run in runs),
        sum(run.detected for run in runs),
        sum(run.detect_s for run in runs),
        sum(run.recovered for run in runs),
        sum(run.recover_s for run in runs),
    )
