"""Measures for ``report_stats`` the variation of results of the same step on the same device."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from lastbeat.rerun.given import GivenResult, GivenResults
from lastbeat.rerun.peers import from_all, tells_for_all
from lastbeat.settings.own_log import announce

KEPT: Final = 4096
"""Number of latest differences that give the percentiles."""
MARGIN: Final = 2.0
"""Factor from the largest observed difference to the tolerance."""
REPORT_EACH: Final = 1024
"""Number of steps between two reports; the first come after 1, 2, 4, 8, … steps."""


@dataclass(frozen=True, slots=True)
class VariationSummary:
    """Relative differences between two runs of one step, for one result."""

    samples: int
    identical: int
    """Number of samples without a difference."""
    unequal: int
    """Number of samples that were finite in only one of the two runs, which no tolerance covers."""
    median: float
    percentile_99: float
    largest: float

    @property
    def tolerance(self) -> float:
        """The tolerance that follows from the measurement."""
        return MARGIN * self.largest

    def __str__(self) -> str:
        if self.identical == self.samples:
            return f"{self.samples:,} samples, all identical: tolerance=0"
        unequal = f", {self.unequal:,} not finite in one of two runs" if self.unequal else ""
        spread = f"p50 {self.median:.3g}, p99 {self.percentile_99:.3g}, max {self.largest:.3g}"
        return (
            f"{self.samples:,} samples, {self.identical:,} identical{unequal},"
            f" relative difference {spread}: tolerance={self.tolerance:.3g}"
        )


class Variation:
    """Accumulates differences."""

    def __init__(self) -> None:
        self._samples = self._identical = self._unequal = 0
        self._largest = 0.0
        self._latest = deque[float](maxlen=KEPT)

    def add(self, difference: float) -> None:
        """Add a difference, from 0 to infinity."""
        self._samples += 1
        if not math.isfinite(difference):
            self._unequal += 1
            return
        self._identical += difference == 0.0
        self._largest = max(self._largest, difference)
        self._latest.append(difference)

    def summary(self) -> VariationSummary:
        """The summary so far. Percentiles are by nearest rank."""
        known = sorted(self._latest)

        def percentile(share: float) -> float:
            return known[max(0, math.ceil(share * len(known)) - 1)] if known else 0.0

        return VariationSummary(
            self._samples, self._identical, self._unequal, percentile(0.5), percentile(0.99), self._largest
        )


def combined(ranks: list[dict[str, Any]]) -> dict[str, VariationSummary]:
    """Name → summary of several ranks' summaries. Percentiles are those of the rank with the largest."""
    found = dict[str, VariationSummary]()
    for name in sorted({name for each in ranks for name in each}):
        known = [VariationSummary(**each[name]) for each in ranks if name in each]
        found[name] = VariationSummary(
            sum(each.samples for each in known),
            sum(each.identical for each in known),
            sum(each.unequal for each in known),
            max(each.median for each in known),
            max(each.percentile_99 for each in known),
            max(each.largest for each in known),
        )
    return found


class Measurement:
    """The measurements of this rank so far."""

    def __init__(self) -> None:
        self._variations: dict[str, Variation] = {}
        self._first: dict[tuple[str, int], GivenResult] = {}

    def first(self, results: Sequence[GivenResult]) -> None:
        """Keep the results of the first pass of a step."""
        self._first = {(each.name, each.number): each for each in results}

    def second(self, results: GivenResults) -> None:
        """Compare the results of the second pass of that step with the first."""
        for given in results.all:
            first = self._first.get((given.name, given.number))
            difference = results.difference(given, first.value, given.value) if first is not None else None
            if difference is not None:
                self._variations.setdefault(given.name, Variation()).add(difference)
        self._first = {}

    def summaries(self) -> dict[str, VariationSummary]:
        """Name of a result → its summary."""
        return {name: each.summary() for name, each in self._variations.items()}

    def report(self, steps: int) -> dict[str, float] | None:
        """If a report is due after ``steps``, combine all ranks' measurements, announce them once, and return the
        largest difference of each result. Otherwise return None."""
        if steps & (steps - 1) and steps % REPORT_EACH:
            return None
        found = combined(from_all({name: asdict(each) for name, each in self.summaries().items()}))
        if tells_for_all():
            for name, each in found.items():
                announce(f"lastbeat.rerun: {name} after {steps} steps: {each}")
        return {name: each.largest for name, each in found.items()}
