"""Whether a command hangs, by what it prints and by what it says of itself in the store. Pure but for one memory."""

from dataclasses import dataclass
from typing import Final

from lastbeat.model.times import format_duration
from lastbeat.sdk.sections import STEP, SectionLimits

SEEN_LATELY_S: Final = 60.0
"""A look at the store that is older says nothing of now."""
SILENT_S: Final = 600.0
"""A rank of which nothing is heard for so long, where nothing is printed either, counts by what it said last: before,
the store may be out of its reach."""
ASLEEP_S: Final = 5.0
"""Who is not asked for so long has been suspended, and the command with him."""


@dataclass(frozen=True, slots=True)
class Printed:
    """What the command has printed."""

    step: object = None
    """The last step in it; None: none so far."""
    bytes_count: int = 0


@dataclass(frozen=True, slots=True)
class Hang:
    """Why a command counts as hanging."""

    why: str
    """``rank 3: checkpointing for 14m (limit 7m)``."""
    waited_s: float
    """Seconds since the section began, or since the last step or output."""


@dataclass(frozen=True, slots=True)
class SaidOfItself:
    """What training says in the store, as one look saw it."""

    at: float
    """By the monotonic clock."""
    reports: bool = False
    """It writes its heartbeats itself, with the SDK."""
    late: Hang | None = None
    """A rank of it is in a section for longer than it may."""
    late_limit_s: float = 0.0
    """Of that section."""
    silent: Hang | None = None
    """The same of a rank that has not been heard of for :data:`SILENT_S`."""
    busy: bool = False
    """Rank 0 is in a section with a limit, other than a step, in time."""
    step: int | None = None


class HangWatch:
    """Of one start. All times are by the monotonic clock, in s."""

    def __init__(self, began: float, limits: SectionLimits, stall_s: float | None) -> None:
        self._limits = limits
        self._stall_s = stall_s
        self._stepped = self._moved = began
        self._step: tuple[object, int | None] = (None, None)
        self._bytes = 0
        self._resumed = self._asked = self._woke = began

    @property
    def any(self) -> bool:
        """Whether it has a limit of its own."""
        return self._limits.any or self._stall_s is not None

    def note(self, printed: Printed, said: SaidOfItself | None, now: float) -> None:
        """Take note of what is new. Asked twice a second; where that was not so, machine or job were suspended, and no
        time has passed for the command either."""
        if now - self._asked > ASLEEP_S:
            self._stepped = self._moved = self._resumed = self._woke = now
        self._asked = now
        told = said.step if said is not None else self._step[1]
        if said is not None and not said.reports and printed.step is not None:
            # Who prints its steps and does not report itself: what the store has of it came from here, and later.
            told = self._step[1]
        step = (printed.step, told)
        if step != self._step:
            self._step, self._stepped = step, now
        if printed.bytes_count != self._bytes:
            self._bytes, self._moved = printed.bytes_count, now
        if said is not None and said.busy:
            # What a checkpoint takes is no standstill: the clock begins anew when it is done.
            self._resumed = now

    def hang(self, said: SaidOfItself | None, now: float) -> Hang | None:
        """Returns the hang, or None if the command does not count as hanging.

        1. What training says of its ranks counts as it says it, while the store can be read; of a rank that is silent,
           what it said last, once nothing was printed for as long.
        2. Without a report of its own, its sections are those that its output shows: steps, and all before the first.
           Where nobody could see yet whether it reports itself, nothing follows.
        3. No new step for the stall limit; where none was ever seen, no output.
        """
        fresh = said is not None and now - said.at <= SEEN_LATELY_S
        if said is not None and fresh and said.late is not None and now - self._woke > said.late_limit_s:
            return said.late
        if said is not None and fresh and said.silent is not None and now - self._moved > SILENT_S:
            return said.silent
        # A step that it has not printed was written by itself.
        if said is not None and not said.reports and (self._step[0] is not None or self._step[1] is None):
            late = self._late(now)
            if late is not None:
                return late
        # What it does not print, only the store shows.
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
