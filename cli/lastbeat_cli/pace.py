"""How fast a run goes, from the passes that saw it: what an estimate of its end is made of."""

from collections import deque
from datetime import datetime

WINDOW = 30
"""Passes that count: enough to smooth a slow checkpoint, few enough to follow a change of speed."""


class StepRate:
    """Remembers when which step was seen."""

    def __init__(self) -> None:
        self._seen: deque[tuple[datetime, int]] = deque(maxlen=WINDOW)

    def see(self, at: datetime, step: int) -> None:
        """Note ``step``; a step that goes back is a new attempt, for which nothing old counts."""
        if self._seen and (step < self._seen[-1][1] or at <= self._seen[-1][0]):
            self._seen.clear()
        self._seen.append((at, step))

    def steps_per_s(self) -> float | None:
        """None while there is nothing to tell it from."""
        if len(self._seen) < 2:
            return None
        (first_at, first), (last_at, last) = self._seen[0], self._seen[-1]
        return (last - first) / (last_at - first_at).total_seconds() if last > first else None

    def left_s(self, total_steps: int) -> float | None:
        """Seconds until ``total_steps`` at this pace; None when that cannot be told."""
        pace = self.steps_per_s()
        return max(0, total_steps - self._seen[-1][1]) / pace if pace else None
