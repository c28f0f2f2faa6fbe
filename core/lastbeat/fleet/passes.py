"""One pass with all that belongs to it: the command line and the Lambda call this, and differ in what they show."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from lastbeat.fleet.mark import Mark
from lastbeat.fleet.ping import LIMITS, Ping, ping_pass
from lastbeat.model.fleet import PassReport

Progress = Callable[[int, int], None]

_MARK_S = 1.0
"""What is kept of a pass's time for its mark."""


class Sweeping(Protocol):
    """What makes the pass itself: :class:`lastbeat.fleet.sweep.Sweep`."""

    def run(
        self,
        *,
        deadline: float | None = None,
        progress: Progress | None = None,
        on_sight: Callable[[], None] | None = None,
    ) -> PassReport:
        """``on_sight`` is called once, when the first listing was answered."""
        ...


@dataclass(frozen=True)
class Passes:
    """Makes the passes of one process: sweep, leave the mark, ping."""

    sweep: Sweeping
    mark: Mark
    ping: Ping | None = None

    def make(self, *, deadline: float | None = None, progress: Progress | None = None) -> PassReport:
        """One pass, as :meth:`Sweeping.run`; never raises for what a store, a channel, a run or the ping does.

        Of the time until ``deadline`` a part is kept for what comes after the sweep. A blind pass leaves no mark and
        says nothing: it is as if nobody had watched, and nobody did.
        """
        on_sight = self.ping.start if self.ping is not None else None
        report = self.sweep.run(deadline=self._sweep_until(deadline), progress=progress, on_sight=on_sight)
        if report.blind is not None:
            return report
        report = self.mark.write(report)
        if self.ping is not None:
            left_s = float("inf") if deadline is None else deadline - time.monotonic()
            ping_pass(self.ping, report, within_s=left_s)
        return report

    def _sweep_until(self, deadline: float | None) -> float | None:
        if deadline is None:
            return None
        after_s = _MARK_S + (LIMITS.total_s if self.ping is not None else 0.0)
        return deadline - min(after_s, max(0.0, deadline - time.monotonic()) / 4)
