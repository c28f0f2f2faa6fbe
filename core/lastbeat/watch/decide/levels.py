"""Whether a positive number of training's (its loss, the norm of its gradients) has left the level where it was. Pure.

The number counts by its logarithm, so its scale does not matter, and by its steps, so time does not either. Levels are
middles of a few points, and the usual level is the lower quartile of those of the whole attempt: a curve that falls is
never above it for long. How far a level may rise follows from the noise, which is the median difference of two
neighbours, and from how far points and levels stray.

A report that repeats the last value adds nothing. A number of 0 or less has no logarithm: a few such are left out, and
a curve with more of them is not judged.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, takewhile
from typing import Final, NamedTuple

from lastbeat.model.curve import CurvePoint
from lastbeat.model.json_values import median, weighted_quantile

NEWEST: Final = 8
"""Points whose median is the present level."""
SPIKE_STEPS: Final = 100
"""A jump that lasts for this many steps does not come back by itself."""
LEAST_POINTS: Final = 40
"""Fewer points show no level."""
_BLOCK: Final = 4
"""Points of a level where the shape of a rise is asked for."""
_RISING: Final = 2
"""A rise with at least this many levels between its beginning and its height is steady."""
_MOST_NEGATIVE: Final = 0.05
"""Share of points without a logarithm up to which the others are judged."""
_NOISES: Final = 5.0
"""A rise is at least this many standard errors of a level."""
_DROPS: Final = 4.0
"""A rise is at least this many times the usual drop from a level to the next."""
_TOPS: Final = 0.6
"""A rise is at least this many times as high as the highest points of a level."""
_LOW: Final = 0.25
"""Share of the steps whose levels are below the usual one: those around the lowest."""
_MOST: Final = 0.85
"""Share of the steps that show how far points and levels stray."""
_OF_NORMAL: Final = 1.4826
"""Standard deviation of normal noise over its median deviation."""


class Rise(NamedTuple):
    """A number that is higher than it was."""

    before: float
    now: float
    step: int
    """The first one that was higher."""
    steady: bool
    """It rose level by level; else it jumped."""
    lasts: int
    """Steps since."""


class Level(NamedTuple):
    """The level of a number."""

    usual: float
    """As a logarithm: where it was before."""
    rise: Rise | None


def level(points: Sequence[CurvePoint], least_rise: float, earlier: float | None, *, stood: bool) -> Level | None:
    """The level, or None if ``points`` show too little of it.

    ``least_rise``: no smaller rise counts, as a difference of logarithms. ``earlier``: the level of the attempt before,
    as a logarithm, once this one has got as far. ``stood``: a rise was found at the last check, and stays until the
    number is back by more than half.
    """
    values = _logarithms(points)
    if len(values) < LEAST_POINTS:
        return None
    now = median(value for _, value in values[-NEWEST:])
    usual, spread = _usual(values)
    base = usual if earlier is None else min(usual, earlier)
    limit = max(least_rise, _NOISES * _noise(values), spread)
    found = Level(usual, None)
    if now - base < (limit / 2 if stood else limit):
        return found
    step, steady = _beginning(values, base, now)
    rise = Rise(math.exp(base), math.exp(now), step, steady, values[-1][0] - step)
    return found._replace(rise=rise) if stood or steady or rise.lasts >= SPIKE_STEPS else found


def returned(points: Sequence[CurvePoint], least_rise: float) -> Rise | None:
    """The latest jump that came back by itself, for people who look at the curve: no condition follows from it. None if
    there is none. ``least_rise`` as for :func:`level`; a single report has to jump twice as far as a level."""
    values = _logarithms(points)
    if len(values) < LEAST_POINTS:
        return None
    limit = max(least_rise, 2 * _NOISES * _noise(values), 2 * _usual(values)[1])
    calm, high, found = values[:NEWEST], list[tuple[int, float]](), None
    for step, value in values[NEWEST:]:
        base = median(each for _, each in calm[-NEWEST:])
        if value - base >= limit:
            high.append((step, value))
            continue
        if high:
            top = max(each for _, each in high)
            found = Rise(math.exp(base), math.exp(top), high[0][0], steady=False, lasts=step - high[0][0])
        calm.append((step, value))
        high.clear()
    return found


def _logarithms(points: Iterable[CurvePoint]) -> list[tuple[int, float]]:
    """Step and logarithm of each report; none if too many have no logarithm."""
    known = [(point.step, point.loss) for point in points if not math.isnan(point.loss)]
    reports = known[:1] + [newer for older, newer in pairwise(known) if newer[1] != older[1]]
    found = [(step, math.log(value)) for step, value in reports if value > 0]
    return found if len(found) >= (1 - _MOST_NEGATIVE) * len(reports) else []


def _usual(values: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """The lower quartile of the levels, by steps; and the rise above it that is no news: by the points of most levels,
    since older points are the extremes of many, and by the drops from one level to the next, which a rise has not."""
    levels = _levels(values, NEWEST, _middle)
    low = weighted_quantile(((height, steps) for _, height, steps in levels), _LOW)
    highest = _levels(values, NEWEST, _top)
    tops = ((top[1] - middle[1], middle[2]) for top, middle in zip(highest, levels, strict=True))
    # A curve that once fell fast drops no more.
    late = values[-1][0] - (values[-1][0] - values[0][0]) / 2
    drops = [(older[1] - newer[1], newer[2]) for older, newer in pairwise(levels) if newer[0] >= late] or [(0.0, 1)]
    return low, max(_TOPS * weighted_quantile(tops, _MOST), _DROPS * weighted_quantile(drops, _MOST))


def _levels(
    values: Sequence[tuple[int, float]], size: int, height: Callable[[list[float]], float]
) -> list[tuple[int, float, int]]:
    """First step, height, and number of steps of each ``size`` points, counted from the newest, which come last."""
    starts = range(len(values) % size, len(values), size)
    blocks = [values[start : start + size] for start in starts]
    return [(b[0][0], height([value for _, value in b]), max(1, b[-1][0] - b[0][0])) for b in blocks]


def _middle(values: list[float]) -> float:
    """The mean of both quartiles: older points are the extremes of many, and their median is one of these or those."""
    ordered, quarter = sorted(values), len(values) // 4
    return (ordered[quarter] + ordered[-1 - quarter]) / 2


def _top(values: list[float]) -> float:
    """The height above which few of them are."""
    return sorted(values)[-2 if len(values) > 2 else -1]


def _noise(values: Sequence[tuple[int, float]]) -> float:
    """Standard error of a level of :data:`NEWEST` points: by the newest points, which no one has chosen for their
    height."""
    differences = (abs(newer[1] - older[1]) for older, newer in pairwise(values[-LEAST_POINTS:]))
    return 1.2533 * _OF_NORMAL * median(differences) / math.sqrt(2 * NEWEST)


def _beginning(values: Sequence[tuple[int, float]], base: float, now: float) -> tuple[int, bool]:
    """The step from which the number is higher, and whether it rose level by level from there on."""
    levels = _levels(values, _BLOCK, median)
    low, high = base + (now - base) / 4, now - (now - base) / 4
    begins = next((at + 1 for at in range(len(levels) - 1, -1, -1) if levels[at][1] < low), 0)
    if begins == len(levels):
        return values[-1][0], False
    rise = list(takewhile(lambda height: height <= high, (height for _, height, _ in levels[begins:])))
    return levels[begins][0], len(rise) >= _RISING
