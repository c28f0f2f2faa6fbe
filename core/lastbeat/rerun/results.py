"""Which results are bad, and which are the same."""

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from typing import Final

LATEST: Final = 64
"""So many good results say what is usual."""
LEAST: Final = 16
"""With fewer nothing is a spike."""


def not_finite(value: float) -> str | None:
    """``NaN`` or ``Inf``; None for any other number."""
    if math.isfinite(value):
        return None
    return "NaN" if math.isnan(value) else "Inf"


def relative_difference(one: float, other: float) -> float:
    """How far two results are apart, relative to their mean magnitude: from 0 for the same (NaN and NaN, too) to 2, and
    infinite where only one of them is finite, or they are infinite with different signs."""
    if one == other or (math.isnan(one) and math.isnan(other)):
        return 0.0
    if not (math.isfinite(one) and math.isfinite(other)):
        return math.inf
    # Halved first: the sum of two large numbers overflows.
    middle = abs(one) / 2 + abs(other) / 2
    return abs(one / middle - other / middle)


class UsualMagnitude:
    """The median magnitude of the latest good results: single outliers do not move it."""

    def __init__(self, latest: Sequence[float] = ()) -> None:
        self._latest = deque[float](maxlen=LATEST)
        self._sorted: list[float] = []
        for each in latest:
            self.add(each)

    @property
    def latest(self) -> list[float]:
        """Those that it knows, oldest first."""
        return list(self._latest)

    def add(self, value: float) -> None:
        """One more good result. What is not finite is none."""
        magnitude = abs(value)
        if not math.isfinite(magnitude):
            return
        if len(self._latest) == LATEST:
            del self._sorted[bisect_left(self._sorted, self._latest[0])]
        self._latest.append(magnitude)
        insort(self._sorted, magnitude)

    @property
    def median(self) -> float | None:
        """None: too few are known."""
        known = self._sorted
        middle = len(known) // 2
        if len(known) < LEAST:
            return None
        return known[middle] if len(known) % 2 else known[middle - 1] / 2 + known[middle] / 2

    def spike(self, value: float, factor: float) -> str | None:
        """What is unusual about ``value``, whose magnitude is more than ``factor`` times the usual one."""
        usual = self.median
        if usual is None or abs(value) <= factor * usual:
            return None
        return f"unexpectedly large: {value:.4g}, more than {factor:g} times the usual {usual:.4g}"
