"""Judges which results are bad, and which are the same."""

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

LATEST: Final = 64
"""Number of latest good results that define the usual magnitude."""
LEAST: Final = 16
"""Least number of good results for the detection of spikes."""


def not_finite(value: float) -> str | None:
    """``NaN`` or ``Inf``; None for any other number."""
    if math.isfinite(value):
        return None
    return "NaN" if math.isnan(value) else "Inf"


def relative_difference(one: Any, other: Any) -> float:
    """The difference of two results, which convert to numbers, relative to their mean magnitude: from 0 for equal ones
    (including two NaN) to 2. Infinite if only one is finite, or both are infinite with different signs."""
    one, other = float(one), float(other)
    if one == other or (math.isnan(one) and math.isnan(other)):
        return 0.0
    if not (math.isfinite(one) and math.isfinite(other)):
        return math.inf
    # Halved first: the sum of two large numbers overflows.
    middle = abs(one) / 2 + abs(other) / 2
    return float(abs(one / middle - other / middle))


class UsualMagnitude:
    """The median magnitude of the latest good results, which single outliers do not affect."""

    def __init__(self, latest: Sequence[float] = ()) -> None:
        self._latest = deque[float](maxlen=LATEST)
        self._sorted: list[float] = []
        for each in latest:
            self.add(each)

    @property
    def latest(self) -> list[float]:
        """The known magnitudes, oldest first."""
        return list(self._latest)

    def add(self, value: float) -> None:
        """Add a good result. A non-finite one is ignored."""
        magnitude = abs(value)
        if not math.isfinite(magnitude):
            return
        if len(self._latest) == LATEST:
            del self._sorted[bisect_left(self._sorted, self._latest[0])]
        self._latest.append(magnitude)
        insort(self._sorted, magnitude)

    @property
    def median(self) -> float | None:
        """The median; None while too few results are known."""
        known = self._sorted
        middle = len(known) // 2
        if len(known) < LEAST:
            return None
        return known[middle] if len(known) % 2 else known[middle - 1] / 2 + known[middle] / 2

    def spike(self, value: float, factor: float) -> str | None:
        """Why ``value`` is a spike, with more than ``factor`` times the usual magnitude; None if it is not."""
        usual = self.median
        if usual is None or abs(value) <= factor * usual:
            return None
        return f"unexpectedly large: {value:.4g}, more than {factor:g} times the usual {usual:.4g}"
