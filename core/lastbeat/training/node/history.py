"""The last hours of a node's health, in a bounded number of values."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

EACH_S: Final = 150.0
MOST: Final = 96
"""Number of intervals of :data:`EACH_S` that are kept, which is four hours."""


@dataclass(slots=True)
class _Bucket:
    number: int
    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class NodeHistory:
    """The mean of each series over each :data:`EACH_S` seconds, or None without values."""

    _buckets: deque[_Bucket] = field(default_factory=lambda: deque(maxlen=MOST))

    def add(self, at: float, values: Mapping[str, float | None]) -> None:
        """Add the values at ``at`` (monotonic seconds)."""
        number = int(at // EACH_S)
        if not self._buckets or self._buckets[-1].number < number:
            self._buckets.append(_Bucket(number))
        bucket = self._buckets[-1]
        for name, value in values.items():
            if value is not None:
                bucket.sums[name] = bucket.sums.get(name, 0.0) + value
                bucket.counts[name] = bucket.counts.get(name, 0) + 1

    def document(self, at: float, unix: float) -> dict[str, Any] | None:
        """``from`` (Unix time of the first value), ``each_s`` and ``series`` of equal length; None before the first
        value. ``unix`` is the Unix time at ``at``."""
        if not self._buckets:
            return None
        last = self._buckets[-1].number
        first = max(self._buckets[0].number, last - MOST + 1)
        by_number = {bucket.number: bucket for bucket in self._buckets}
        names = dict.fromkeys(name for bucket in self._buckets for name in bucket.sums)
        columns = {name: [_mean(by_number.get(number), name) for number in range(first, last + 1)] for name in names}
        series = {name: column for name, column in columns.items() if any(value is not None for value in column)}
        if not series:
            return None
        return {"from": round(unix - (at - first * EACH_S)), "each_s": EACH_S, "series": series}


def _mean(bucket: _Bucket | None, name: str) -> float | None:
    if bucket is None or name not in bucket.counts:
        return None
    return float(f"{bucket.sums[name] / bucket.counts[name]:.3g}")
