"""The alerts that learned limits would have raised about a run, from its recorded step times. Pure.

No file records every step. A progress heartbeat has some pairs of time and step since the beginning of its attempt, and
``ft_state.json`` has the learned limits, if any. So only the latest attempt can be judged. If its points are too far
apart, the result says so and nothing is guessed.
"""

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from itertools import pairwise
from typing import Final, NamedTuple

from lastbeat.explain.signals.error_types import DEADLOCK, HANG
from lastbeat.model.heartbeat import OpenSection
from lastbeat.model.learned_limits import (
    BETWEEN,
    LEAST_SAMPLES,
    OUTSIDE,
    Learned,
    LearnedState,
    SpanKey,
    Taken,
    learned,
)
from lastbeat.model.record import LimitName, Record
from lastbeat.model.status import UNWELL, Status
from lastbeat.model.times import parse_time

STEP: Final = "step"
_WARM_UP: Final = 3
"""Steps at the beginning of an attempt that are not judged, because the first ones compile."""
_HANGS: Final = frozenset({HANG, DEADLOCK, "nccl_timeout", "distributed_timeout", "watchdog_timeout"})
"""Causes of runs that hung, no matter what ended them."""


class StepPoint(NamedTuple):
    """A time at which training was at ``step``, by its own clock."""

    at: datetime
    step: int


@dataclass(frozen=True, slots=True)
class KeptTimes:
    """The kept durations of steps and sections of a run's latest attempt."""

    points: Sequence[StepPoint] = ()
    """A few points since the attempt's beginning, the oldest first."""
    skew_s: float = 0.0
    """The store's clock minus training's."""
    start: datetime | None = None
    """When the attempt began, as its metadata.json says."""
    open_at: datetime | None = None
    """When the heartbeat with the open sections was written, by the store's clock."""
    open_sections: Sequence[OpenSection] = ()
    """The sections that rank 0 was in then."""
    state: LearnedState | None = None
    """``ft_state.json``, or None if the run learned nothing."""


class Came(str, Enum):
    """The end of a wait that a learned limit would have reported."""

    HANG = "hang"
    """The run hung and ended."""
    WRONG = "wrong"
    """The run went on: a false alarm."""
    UNKNOWN = "unknown"
    """It still lasts, or a person ended the run meanwhile."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class LongWait:
    """A wait that lasted for longer than its learned limit."""

    name: str
    """``step``, a section (hostile text), or empty outside of sections."""
    came: Came
    lasted_s: float
    """Length in s as far as it is known: until the run continued, or until its alert."""
    limit_s: float
    usual_s: float
    """The longest such wait until then, in seconds."""
    at: datetime | None = None
    """When the learned limit would have raised an alert, by the store's clock; None if that is unknown."""
    earlier_s: float | None = None
    """Seconds by which that alert precedes the actual one of a hang; negative if it is later."""


@dataclass(frozen=True, slots=True)
class PastTimeouts:
    """What learned limits would have reported of a run's latest attempt."""

    run_id: str
    watched_s: float = 0.0
    """Time in s for which its steps are known."""
    steps: int = 0
    longest_s: float = 0.0
    """The longest wait for a step in that time, except the last wait."""
    limit_s: float | None = None
    """The last limit of a step in seconds, or None if there was none yet."""
    told: Sequence[LongWait] = ()
    hung: bool = False
    """Whether it ended by a hang, according to its record."""
    unclear: int = 0
    """Stretches longer than a limit whose steps lie too far apart to tell a long one from many."""
    earlier_attempts: int = 0
    """Number of earlier attempts, whose step times are not kept."""
    why_not: str | None = None
    """Why nothing can be judged, or None."""

    @property
    def missed(self) -> bool:
        """Whether it hung without any learned limit that would have reported it."""
        return self.why_not is None and self.hung and all(each.came is not Came.HANG for each in self.told)


@dataclass
class _Steps:
    """The steps between points, and the limits learned from them so far."""

    before: Learned
    skew: timedelta
    taken: Taken = field(default_factory=Taken)
    paces: list[float] = field(default_factory=list)
    """Seconds per step of each stretch so far, in ascending order."""
    watched_s: float = 0.0
    unclear: int = 0

    def limit_s(self) -> float | None:
        """The longest step, in seconds, that the times so far allow, or None if too little is known."""
        known = learned(self.before, {BETWEEN: self.taken}).get(BETWEEN)
        return known.limit_s if known is not None else None

    def long_waits(self, points: Sequence[StepPoint]) -> Iterator[LongWait]:
        """The waits between ``points`` that a limit would have reported. All are false alarms, because steps
        followed."""
        first = points[0].step if points else 0
        # Training went back to a checkpoint, its clock was set, or it compiled: the stretch shows nothing about a step.
        stretches = [
            (one, other.step - one.step, (other.at - one.at).total_seconds())
            for one, other in pairwise(points)
            if other.step > one.step and other.at > one.at and other.step - first >= _WARM_UP
        ]
        paces = [took_s / steps for _, steps, took_s in stretches]
        last_s = 0.0
        for number, (one, steps, took_s) in enumerate(stretches):
            own_s, next_s = paces[number], paces[number + 1] if number + 1 < len(paces) else 0.0
            # Many slow steps in a row, now and before or after, are not one long step.
            pace_s = max(self.paces[len(self.paces) // 2] if self.paces else own_s, last_s, next_s)
            # The duration of the longest step, if the others took as long as usual. It counts only if it dominates.
            alone_s = took_s - (steps - 1) * pace_s
            is_one = alone_s > took_s / 2
            longest_s, limit_s = (alone_s if is_one else own_s), self.limit_s()
            if limit_s is not None and longest_s > limit_s:
                at = one.at + self.skew + timedelta(seconds=limit_s)
                yield LongWait(STEP, Came.WRONG, longest_s, limit_s, self.taken.usual_s, at)
            elif limit_s is not None and alone_s > limit_s:
                self.unclear += 1
            self.watched_s += took_s
            self.taken = self.taken.then(Taken(steps, longest_s))
            last_s = pace_s if is_one and own_s > 2 * pace_s else own_s
            insort(self.paces, last_s)


def past_timeouts(record: Record, kept: KeptTimes, now: datetime) -> PastTimeouts:
    """The alerts that learned limits would have raised about ``record``'s run. ``now`` is the store's time.

    1. A step that took longer than the limit learned by then, and was followed by others: a wrong alert.
    2. A section that took longer than the limit that the attempt began with, and was left again: a wrong alert.
    3. The last wait of a run that hung: an alert when its limit expired, even if a watchdog or a collective's timeout
       ended the run. If the run succeeded after that: a wrong alert.
    """
    before, present = _learned_limits(kept)
    sections = [key for key in present if key.kind == "section"]
    steps = _Steps(before, timedelta(seconds=kept.skew_s))
    # Between two points there may be saves. If these are sections, points do not show how long a step took.
    points = () if sections else kept.points
    false_alarms = [*steps.long_waits(points), *_long_sections(before, present)]
    waits = list(_waits(kept, present))
    limit_s = steps.limit_s()
    if points and limit_s is not None and not waits:
        waits = [_Wait(points[-1].at + steps.skew, STEP, limit_s, steps.taken.usual_s)]
    ending = _ending(record, waits, now)
    why_not = None
    if not sections and OUTSIDE not in present and steps.taken.samples < LEAST_SAMPLES:
        few = f"{steps.taken.samples} steps in the points of progress.json" if kept.points else "no points of steps"
        why_not = f"{few}, and no sections that it learned of"
    return PastTimeouts(
        record.run_id,
        steps.watched_s,
        steps.taken.samples,
        steps.taken.usual_s,
        limit_s,
        (*false_alarms, *ending),
        _hung(record),
        steps.unclear,
        max(0, record.attempt.number - 1),
        why_not,
    )


def _learned_limits(kept: KeptTimes) -> tuple[Learned, Learned]:
    """The learned limits at the beginning of the attempt, and now."""
    state = kept.state
    if state is None:
        return {}, {}
    started = parse_time(state.attempt)
    if started is None or started != kept.start:
        return state.learned, {}
    return state.before, state.learned


def _long_sections(before: Learned, present: Learned) -> Iterator[LongWait]:
    for key, now in present.items():
        known = before.get(key)
        limit_s, longest_s = known.limit_s if known is not None else None, now.taken.longest_s
        if known is not None and limit_s is not None and longest_s > limit_s:
            name = STEP if key.kind == "between" else key.name
            yield LongWait(name, Came.WRONG, longest_s, limit_s, known.taken.usual_s)


class _Wait(NamedTuple):
    """A wait that nothing from training followed."""

    since: datetime
    name: str
    limit_s: float
    usual_s: float

    @property
    def due(self) -> datetime:
        """When the alert would have been raised."""
        return self.since + timedelta(seconds=self.limit_s)


def _waits(kept: KeptTimes, present: Learned) -> Iterator[_Wait]:
    """The sections that rank 0 was in at its last beat, as far as their limits are learned; limits set by hand do not
    count."""
    for each in kept.open_sections:
        known = present.get(OUTSIDE if each.name is None else SpanKey("section", each.name))
        limit_s = known.limit_s if known is not None else None
        if limit_s is None and each.usual_s is not None:
            limit_s = each.limit_s
        if limit_s is not None and kept.open_at is not None:
            usual_s = known.taken.usual_s if known is not None else each.usual_s or 0.0
            yield _Wait(kept.open_at - timedelta(seconds=each.open_s), each.name or "", limit_s, usual_s)


def _ending(record: Record, waits: Sequence[_Wait], now: datetime) -> Iterator[LongWait]:
    """The alert about its last waits, if any: about the wait that was due first."""
    last = record.history[-1] if record.history else None
    over = last is not None and last.after.finished
    until = last.at if over and last is not None else now
    if over and last is not None and last.after.ended and record.came_to_be_at is not None:
        # A run that ended by itself waited until it ended.
        until = min(until, record.came_to_be_at)
    first = min(waits, key=lambda each: each.due, default=None)
    if first is None or first.due >= until:
        return
    came = Came.UNKNOWN
    if _hung(record):
        came = Came.HANG
    elif last is not None and last.after is Status.SUCCEEDED:
        came = Came.WRONG
    earlier_s = (last.at - first.due).total_seconds() if came is Came.HANG and last is not None else None
    lasted_s = (until - first.since).total_seconds()
    yield LongWait(first.name, came, lasted_s, first.limit_s, first.usual_s, first.due, earlier_s)


def _hung(record: Record) -> bool:
    """Whether the record says that the run hung in the end, and that its end was not requested."""
    last = record.history[-1] if record.history else None
    if last is None or last.after not in UNWELL or record.stopped_by is not None:
        return False
    exceeded = record.exceeded
    return last.cause in _HANGS or (exceeded is not None and exceeded.name is LimitName.STALL)
