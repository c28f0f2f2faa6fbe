"""How long a run's steps take now, and took in the last day, by the points of its curve. Pure.

Time is cut into slots: the longest time of :data:`SLOT_S` and :data:`_STEPS_A_SLOT` steps, so that a slot's pace is no
matter of where the points happen to lie. A run is slow if none of its latest slots with steps, of :data:`WINDOW_S`
together, was as fast as it should be. A long evaluation or save makes no steps, and the slots around it are fast.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from lastbeat.model.curve import CurvePoint
from lastbeat.model.json_values import weighted_quantile

WINDOW_S: Final = 600.0
"""A run is slow once it has been for this many seconds, without those in which it made no step."""
SLOT_S: Final = 100.0
USUAL_S: Final = 86400.0
"""The usual pace is that of this many seconds before."""
SLOW: Final = 0.75
"""Share of the usual pace that is slow: a step takes a third longer."""
FAST: Final = 0.85
"""Share of the usual pace that ends a slowdown."""
_STEPS_A_SLOT: Final = 5
_LONGEST_SLOT_S: Final = 3600.0
"""The pace of a run with longer slots is not judged."""
_LEAST_SLOTS: Final = 3
_LEAST_USUAL_S: Final = 1200.0
"""The usual pace rests on this many seconds at least."""


class Slot(NamedTuple):
    """A span of time by the curve's clock, and the steps that were made in it."""

    at: float
    step: int
    """The last one at ``at``."""
    seconds: float
    steps: int

    @property
    def pace(self) -> float:
        """Steps a second."""
        return self.steps / self.seconds


class Slowdown(NamedTuple):
    """A run whose steps take longer than they used to."""

    step_s: float
    usual_s: float
    step: int
    """The last one at the usual pace."""
    lasts_s: float


class StepPace(NamedTuple):
    """The pace of a run."""

    usual_s: float
    """Median time of a step in s, without the last minutes."""
    slow: Slowdown | None


def pace(points: Sequence[CurvePoint], earlier_s: float | None, *, stood: bool) -> StepPace | None:
    """The pace, or None if ``points`` show too little of it.

    ``earlier_s``: the usual time of a step in attempts before. ``stood``: the run was slow at the last check, so only a
    pace of :data:`FAST` ends that.
    """
    spans = list(_spans(points))
    steps = sum(span.steps for span in spans)
    if not steps:
        return None
    slot_s = max(SLOT_S, _STEPS_A_SLOT * sum(span.seconds for span in spans) / steps)
    slots = list(_slots(spans, slot_s)) if slot_s <= _LONGEST_SLOT_S else []
    window = _newest(slots)
    before = [slot for slot in slots[len(window) :] if slot.steps and slot.at >= points[-1].at - USUAL_S]
    if not window or sum(slot.seconds for slot in before) < _LEAST_USUAL_S:
        return None
    usual = weighted_quantile(((slot.pace, slot.seconds) for slot in before), 0.5)
    found = _slow(slots, window, usual, stood=stood)
    if found is None and earlier_s is not None and usual * earlier_s <= SLOW:
        found = _slow(slots, window, 1 / earlier_s, stood=stood)
    return StepPace(1 / usual, found)


def _spans(points: Sequence[CurvePoint]) -> Iterator[Slot]:
    """The spans between two points, newest first. One without a duration, or in which the run went back to an earlier
    step, has no pace."""
    for newer, older in pairwise(reversed(points)):
        seconds, steps = newer.at - older.at, newer.step - older.step
        if 0 < seconds <= USUAL_S and steps >= 0:
            yield Slot(older.at, older.step, seconds, steps)


def _slots(spans: Sequence[Slot], slot_s: float) -> Iterator[Slot]:
    """``spans`` joined with their neighbours to at least ``slot_s`` each, newest first."""
    slot: Slot | None = None
    for span in spans:
        joined = slot is not None and span.at + span.seconds == slot.at
        slot = Slot(*span[:2], slot.seconds + span.seconds, slot.steps + span.steps) if slot and joined else span
        if slot.seconds >= slot_s:
            yield slot
            slot = None


def _newest(slots: Sequence[Slot]) -> Sequence[Slot]:
    """The newest slots, of which those with steps last :data:`WINDOW_S`; none if there are not enough, or if time is
    missing between them."""
    moving = list[Slot]()
    for count, slot in enumerate(slots, 1):
        if count > 1 and not _adjoins(slot, slots[count - 2]):
            return ()
        moving += [slot] if slot.steps else []
        if sum(each.seconds for each in moving) >= WINDOW_S and len(moving) >= _LEAST_SLOTS:
            return slots[:count]
    return ()


def _adjoins(older: Slot, newer: Slot) -> bool:
    return math.isclose(older.at + older.seconds, newer.at, rel_tol=0, abs_tol=1.0)


def _slow(slots: Sequence[Slot], window: Sequence[Slot], usual: float, *, stood: bool) -> Slowdown | None:
    moving = [slot for slot in window if slot.steps]
    moving_s = sum(slot.seconds for slot in moving)
    fast_s = sum(slot.seconds for slot in moving if slot.pace >= (FAST if stood else SLOW) * usual)
    if fast_s > (moving_s / 2 if stood else 0):
        return None
    first = window[-1]
    for older in slots[len(window) :]:
        if not _adjoins(older, first) or older.pace >= SLOW * usual:
            break
        first = older
    lasts_s = window[0].at + window[0].seconds - first.at
    return Slowdown(moving_s / sum(slot.steps for slot in moving), 1 / usual, first.step, lasts_s)
