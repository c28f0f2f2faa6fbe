"""What a run has kept of its step times → what limits that it learns would have told of it. Pure.

Nobody records each step. A progress heartbeat keeps some points of time and step, which reach back to the beginning of
its attempt; ``ft_state.json`` keeps what was learned, if training learned. So only the latest attempt can be judged,
and where its points lie too far apart, that is said and nothing is guessed.
"""

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple

from lastbeat.explain.signals.error_types import DEADLOCK, HANG
from lastbeat.model.learned_limits import BETWEEN, LEAST_SAMPLES, OUTSIDE, Learned, SpanKey, Taken, learned
from lastbeat.model.past_timeouts import Came, KeptTimes, PastTimeouts, StepPoint, WouldTell
from lastbeat.model.record import LimitName, Record
from lastbeat.model.status import UNWELL, Status
from lastbeat.model.times import parse_time

STEP: Final = "step"
_WARM_UP: Final = 3
_HANGS: Final = frozenset({HANG, DEADLOCK, "nccl_timeout", "distributed_timeout", "watchdog_timeout"})
"""Causes of runs that hung, whoever ended them."""


@dataclass
class _Steps:
    """Steps as their points show them, and what is learned of them on the way."""

    before: Learned
    skew: timedelta
    taken: Taken = field(default_factory=Taken)
    paces: list[float] = field(default_factory=list)
    """Seconds a step of the stretches so far, in order of size."""
    watched_s: float = 0.0
    unclear: int = 0

    def limit_s(self) -> float | None:
        """What is known by now allows a step so long."""
        known = learned(self.before, {BETWEEN: self.taken}).get(BETWEEN)
        return known.limit_s if known is not None else None

    def told(self, points: Sequence[StepPoint]) -> Iterator[WouldTell]:
        """Of the stretches between ``points``: each was over in the end."""
        first = points[0].step if points else 0
        # Training went back to a checkpoint, its clock was set, or it compiled: that says nothing of a step.
        stretches = [
            (one, other.step - one.step, (other.at - one.at).total_seconds())
            for one, other in pairwise(points)
            if other.step > one.step and other.at > one.at and other.step - first >= _WARM_UP
        ]
        paces = [took_s / steps for _, steps, took_s in stretches]
        last_s = 0.0
        for number, (one, steps, took_s) in enumerate(stretches):
            own_s, next_s = paces[number], paces[number + 1] if number + 1 < len(paces) else 0.0
            # Many steps that are all slow, now and before or after, are no long one.
            pace_s = max(self.paces[len(self.paces) // 2] if self.paces else own_s, last_s, next_s)
            # If the others took as long as usual, so long did the longest of them; and so it did if it dominates.
            alone_s = took_s - (steps - 1) * pace_s
            is_one = alone_s > took_s / 2
            longest_s, limit_s = (alone_s if is_one else own_s), self.limit_s()
            if limit_s is not None and longest_s > limit_s:
                at = one.at + self.skew + timedelta(seconds=limit_s)
                yield WouldTell(STEP, Came.WRONG, longest_s, limit_s, self.taken.usual_s, at)
            elif limit_s is not None and alone_s > limit_s:
                self.unclear += 1
            self.watched_s += took_s
            self.taken = self.taken.then(Taken(steps, longest_s))
            last_s = pace_s if is_one and own_s > 2 * pace_s else own_s
            insort(self.paces, last_s)


def past_timeouts(record: Record, kept: KeptTimes, now: datetime) -> PastTimeouts:
    """What learned limits would have told of ``record``'s run. ``now`` is the store's time.

    1. A step that took longer than what was learned by then, and was followed by others, would have been told wrongly.
    2. So would a section that took longer than the limit that the attempt began with, and was left again.
    3. The last wait of a run that hung would have been told when its limit was over, whoever ended the run: a watchdog,
       or a collective that timed out. One that succeeded after it would have been told wrongly.
    """
    before, present = _known(kept)
    sections = [key for key in present if key.kind == "section"]
    steps = _Steps(before, timedelta(seconds=kept.skew_s))
    # Between two points there may be saves: where these are sections, points say nothing of how long a step took.
    points = () if sections else kept.points
    told = [*steps.told(points), *_sections_told(before, present)]
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
        (*told, *ending),
        _hung(record),
        steps.unclear,
        max(0, record.attempt.number - 1),
        why_not,
    )


def _known(kept: KeptTimes) -> tuple[Learned, Learned]:
    """What was known when the attempt began, and what is known of it by now, if it learned."""
    state = kept.state
    if state is None:
        return {}, {}
    started = parse_time(state.attempt)
    if started is None or started != kept.start:
        return state.learned, {}
    return state.before, state.learned


def _sections_told(before: Learned, present: Learned) -> Iterator[WouldTell]:
    for key, now in present.items():
        known = before.get(key)
        limit_s, longest_s = known.limit_s if known is not None else None, now.taken.longest_s
        if known is not None and limit_s is not None and longest_s > limit_s:
            name = STEP if key.kind == "between" else key.name
            yield WouldTell(name, Came.WRONG, longest_s, limit_s, known.taken.usual_s)


class _Wait(NamedTuple):
    """Nothing of training's followed it."""

    since: datetime
    name: str
    limit_s: float
    usual_s: float

    @property
    def due(self) -> datetime:
        """When it would have been told."""
        return self.since + timedelta(seconds=self.limit_s)


def _waits(kept: KeptTimes, present: Learned) -> Iterator[_Wait]:
    """What rank 0 was in when it last beat, where a limit of it was learned. One by hand says nothing of learning."""
    for each in kept.open_sections:
        known = present.get(OUTSIDE if each.name is None else SpanKey("section", each.name))
        limit_s = known.limit_s if known is not None else None
        if limit_s is None and each.usual_s is not None:
            limit_s = each.limit_s
        if limit_s is not None and kept.open_at is not None:
            usual_s = known.taken.usual_s if known is not None else each.usual_s or 0.0
            yield _Wait(kept.open_at - timedelta(seconds=each.open_s), each.name or "", limit_s, usual_s)


def _ending(record: Record, waits: Sequence[_Wait], now: datetime) -> Iterator[WouldTell]:
    """What would have been told of its last waits: the first of them to be due."""
    last = record.history[-1] if record.history else None
    over = last is not None and last.after.finished
    until = last.at if over and last is not None else now
    if over and last is not None and last.after.ended and record.came_to_be_at is not None:
        # What ended by itself waited until then.
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
    yield WouldTell(first.name, came, lasted_s, first.limit_s, first.usual_s, first.due, earlier_s)


def _hung(record: Record) -> bool:
    """Whether the record says that the run hung in the end, and that nobody wanted it to end."""
    last = record.history[-1] if record.history else None
    if last is None or last.after not in UNWELL or record.stopped_by is not None:
        return False
    exceeded = record.exceeded
    return last.cause in _HANGS or (exceeded is not None and exceeded.name is LimitName.STALL)
