"""Whether something has been so for long enough to be said, or to be taken back."""

from dataclasses import dataclass


@dataclass(slots=True)
class Latch:
    """Raised once its fact has held for ``raise_s`` without a break, cleared once the opposite has for ``clear_s``.

    So it is raised once in ``raise_s + clear_s`` at most, whatever the fact does. What is unknown breaks either: it is
    no sign of trouble, and none of its end.
    """

    raise_s: float
    clear_s: float
    since: float | None = None
    """Since when it has been raised; None: it is not."""
    _turning: float | None = None
    """Since when the fact has said the opposite of what the latch says."""

    def update(self, holds: bool | None, now: float) -> bool:
        """Whether it is raised at ``now`` (monotonic seconds), when the fact ``holds`` (None: nobody knows)."""
        raised = self.since is not None
        if holds is None or holds is raised:
            self._turning = None
            return raised
        if self._turning is None:
            self._turning = now
        if now - self._turning < (self.clear_s if raised else self.raise_s):
            return raised
        self.since = None if raised else self._turning
        self._turning = None
        return not raised
