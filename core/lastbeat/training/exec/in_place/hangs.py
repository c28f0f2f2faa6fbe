"""Decides whether a command hangs, by its output and its reports in the store. Pure, apart from its own memory."""

from dataclasses import dataclass
from typing import Final

from lastbeat.model.times import format_duration
from lastbeat.training.sdk.sections import STEP, SectionLimits

SEEN_LATELY_S: Final = 60.0
"""Oldest check of the store in s that still shows the present."""
SILENT_S: Final = 600.0
"""A rank that is silent for this many s, without output either, counts by its last report. Before that, it may merely
be unable to reach the store."""
ASLEEP_S: Final = 5.0
"""A gap of this many s between two checks means that machine or job were suspended, and the command with them."""


@dataclass(frozen=True, slots=True)
class Hang:
    """Why a command counts as hanging."""

    why: str
    """``rank 3: checkpointing for 14m (limit 7m)``."""
    waited_s: float
    """Seconds since the section began, or since the last step or output."""


@dataclass(frozen=True, slots=True)
class SaidOfItself:
    """Training's reports in the store at one check."""

    at: float
    """Time of the check by the monotonic clock."""
    reports: bool = False
    """Whether training writes its heartbeats itself, with the SDK."""
    late: Hang | None = None
    """A rank that has overrun the limit of a section, or None."""
    late_limit_s: float = 0.0
    """Limit in s of that section."""
    silent: Hang | None = None
    """A rank that had overrun a limit and has been silent for :data:`SILENT_S`, or None."""
    busy: bool = False
    """Whether rank 0 is in a section other than a step, within its limit."""
    step: int | None = None


class HangWatch:
    """Watches one start for hangs. All times are by the monotonic clock, in s."""

    def __init__(self, began: float, limits: SectionLimits, stall_s: float | None) -> None:
        self._limits = limits
        self._stall_s = stall_s
        self._stepped = self._moved = began
        self._step: tuple[object, int | None] = (None, None)
        self._bytes = 0
        self._resumed = self._asked = self._woke = began

    def note(self, printed: object, bytes_count: int, said: SaidOfItself | None, now: float) -> None:
        """Note new output (its last step, None before the first, and its size) and reports. Called twice a second;
        after a longer gap, machine or job were suspended, and no time has passed for the command either."""
        if now - self._asked > ASLEEP_S:
            self._stepped = self._moved = self._resumed = self._woke = now
        self._asked = now
        reported = said.step if said is not None else self._step[1]
        if said is not None and not said.reports and printed is not None:
            # Training prints its steps and does not report itself, so the step in the store is from this process.
            reported = self._step[1]
        step = (printed, reported)
        if step != self._step:
            self._step, self._stepped = step, now
        if bytes_count != self._bytes:
            self._bytes, self._moved = bytes_count, now
        if said is not None and said.busy:
            # Saving a checkpoint is no stall, so the clock restarts when it is done.
            self._resumed = now

    def hang(self, said: SaidOfItself | None, now: float) -> Hang | None:
        """The hang, or None if the command does not count as hanging.

        1. While the store can be read, training's own reports about its ranks count. A silent rank counts by its last
           report, once there was no output for as long.
        2. If training does not report itself, its sections come from its output: steps, and the time before the first.
           While it is unknown whether it reports itself, this does not apply.
        3. There was no new step for the stall limit, or no output if no step was ever seen.
        """
        fresh = said is not None and now - said.at <= SEEN_LATELY_S
        if said is not None and fresh and said.late is not None and now - self._woke > said.late_limit_s:
            return said.late
        if said is not None and fresh and said.silent is not None and now - self._moved > SILENT_S:
            return said.silent
        # Training itself wrote a step that it has not printed.
        if said is not None and not said.reports and (self._step[0] is not None or self._step[1] is None):
            late = self._late(now)
            if late is not None:
                return late
        # Without printed steps, only the store shows them.
        return self._stalled(now) if fresh or self._step[0] is not None else None

    def _late(self, now: float) -> Hang | None:
        limits, open_s = self._limits, now - self._stepped
        if self._knows_step and STEP in limits.sections:
            limit_s: float | None = limits.sections[STEP]
            what = STEP
        else:
            limit_s = limits.outside_s if self._knows_step else limits.starting_s
            what = "in no section"
        if limit_s is None or open_s <= limit_s:
            return None
        return Hang(f"{what} for {format_duration(open_s)} (limit {format_duration(limit_s)})", open_s)

    def _stalled(self, now: float) -> Hang | None:
        if self._stall_s is None:
            return None
        what, since = ("step", self._stepped) if self._knows_step else ("output", self._moved)
        still_s = now - max(since, self._resumed)
        if still_s < self._stall_s:
            return None
        why = f"no new {what} for {format_duration(still_s)} (limit {format_duration(self._stall_s)})"
        return Hang(why, still_s)

    @property
    def _knows_step(self) -> bool:
        return self._step != (None, None)
