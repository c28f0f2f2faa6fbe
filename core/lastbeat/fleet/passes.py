"""One pass with all that belongs to it: the command line and the Lambda call this, and differ in what they show."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from lastbeat.fleet.mark import Mark
from lastbeat.fleet.ping import LIMITS, Ping, ping_pass
from lastbeat.fleet.steps import half_until
from lastbeat.model.fleet import PassReport

Progress = Callable[[int, int], None]

_MARK_S = 1.0
"""What is kept of a pass's time for its mark; it takes more where the sweep leaves more."""
_PAGE_S = 10.0
"""And for the page of the fleet; it takes more where the sweep leaves more."""


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


class Paging(Protocol):
    """What leaves a page for people to look at: ``lastbeat.page.writing.PageOfFleet``."""

    def write(self, report: PassReport, until: float) -> PassReport:
        """Write it if it is time, before ``until``; never raises."""
        ...


@dataclass(frozen=True)
class Passes:
    """Makes the passes of one process: sweep, ping, and now and then leave a mark and a page."""

    sweep: Sweeping
    mark: Mark
    ping: Ping | None = None
    page: Paging | None = None

    def make(self, *, deadline: float | None = None, progress: Progress | None = None) -> PassReport:
        """One pass, as :meth:`Sweeping.run`; never raises for what a store, a channel, a run or the ping does.

        It ends by ``deadline``, whatever hangs; of the time until then a part is kept for what comes after the sweep. A
        blind pass leaves no mark and says nothing: it is as if nobody had watched, and nobody did.
        """
        on_sight = self.ping.start if self.ping is not None else None
        report = self.sweep.run(deadline=self._sweep_until(deadline), progress=progress, on_sight=on_sight)
        if report.blind is not None:
            return report
        report = self.mark.write(report, self._mark_until(deadline))
        if self.ping is not None:
            left_s = float("inf") if deadline is None else deadline - time.monotonic()
            ping_pass(self.ping, report, within_s=left_s)
        if self.page is not None:
            until = float("inf") if deadline is None else deadline - _MARK_S
            # After the mark, for it may fail: then nobody must think that nobody watches.
            report = self.page.write(report, until)
            report = self.mark.amend(report, float("inf") if deadline is None else deadline)
        return report

    def _mark_until(self, deadline: float | None) -> float:
        if deadline is None:
            return float("inf")
        after_s = (LIMITS.total_s if self.ping else 0.0) + (_PAGE_S + _MARK_S if self.page else 0.0)
        return max(deadline - after_s, half_until(deadline))

    def _sweep_until(self, deadline: float | None) -> float | None:
        if deadline is None:
            return None
        after_s = _MARK_S + (LIMITS.total_s if self.ping else 0.0) + (_PAGE_S + _MARK_S if self.page else 0.0)
        return deadline - min(after_s, max(0.0, deadline - time.monotonic()) / 4)
