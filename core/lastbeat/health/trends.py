"""What counters and levels did over the last minutes. Pure, bounded."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from statistics import median
from typing import Final

from lastbeat.health.node import Network

_FREE_SPAN_S: Final = 3600.0
_FREE_LEAST_S: Final = 3300.0
"""From a shorter time nobody can tell: a checkpoint is written at once, and an older one deleted later."""
_FREE_EACH_S: Final = 60.0
_COUNTER_SPAN_S: Final = 300.0
_COUNTER_LEAST_S: Final = 60.0
_MOST: Final = 128


@dataclass(slots=True)
class FreeSpace:
    """How the free space of a file system changes."""

    _points: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_MOST))

    def add(self, at: float, free_bytes: int) -> None:
        """Take what was free at ``at`` (monotonic seconds); of a minute, one value is kept."""
        if not self._points or at - self._points[-1][0] >= _FREE_EACH_S:
            self._points.append((at, free_bytes))
        while self._points and at - self._points[0][0] > _FREE_SPAN_S:
            self._points.popleft()

    def full_in_s(self, at: float, free_bytes: int) -> float | None:
        """Seconds until nothing is free, by the median of the slopes between any two of the last hour's points: a
        checkpoint or two move it little. None: it does not get less, or nobody can tell yet."""
        points = [*self._points, (at, free_bytes)]
        if at - points[0][0] < _FREE_LEAST_S:
            return None
        pairs = combinations(points, 2)
        slope = median((after - before) / (then - when) for (when, before), (then, after) in pairs if then > when)
        return free_bytes / -slope if slope < 0 else None


@dataclass(frozen=True, slots=True)
class NetworkChange:
    """What was counted lately."""

    span_s: float
    errors: Mapping[str, int]
    """Of those interfaces, ports and links that counted any."""
    sent: int
    retransmitted: int

    @property
    def retransmitted_share(self) -> float:
        """Of all TCP segments."""
        return self.retransmitted / self.sent if self.sent else 0.0


@dataclass(slots=True)
class NetworkCounters:
    """Counters of the last five minutes."""

    _looks: deque[tuple[float, dict[str, int], int | None, int | None]] = field(
        default_factory=lambda: deque(maxlen=_MOST)
    )

    def add(self, at: float, network: Network, nvlink: Mapping[str, int]) -> NetworkChange | None:
        """What was counted in the last minutes, up to these counters. ``nvlink``: errors by GPU. None: too short a time
        has passed, or nothing is counted here. A counter that went back was set to zero, and tells nothing."""
        now = (at, {**network.errors, **nvlink}, network.sent, network.retransmitted)
        while len(self._looks) > 1 and at - self._looks[1][0] >= _COUNTER_SPAN_S:
            self._looks.popleft()
        before = self._looks[0] if self._looks else None
        self._looks.append(now)
        if before is None or at - before[0] < _COUNTER_LEAST_S or (not now[1] and now[2] is None):
            return None
        grown = {name: count - before[1][name] for name, count in now[1].items() if name in before[1]}
        return NetworkChange(
            span_s=at - before[0],
            errors={name: count for name, count in grown.items() if count > 0},
            sent=_grown(before[2], now[2]),
            retransmitted=_grown(before[3], now[3]),
        )


def _grown(before: int | None, now: int | None) -> int:
    return max(0, now - before) if before is not None and now is not None else 0
