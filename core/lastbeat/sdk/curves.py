"""Points of a run's curves: few, reaching back to its beginning, and true to what training said in between."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from time import time

MAX_POINTS = 160
BETWEEN_LIMIT = 512
"""So many points are held between two beats."""
SAMPLED = 24
"""So many of them are told, at most."""
KINDS = 8
"""So many kinds of steps (with these metrics, with those) are told apart between two beats."""
_FLAT = 0.004
"""A line that is never further off than this part of the whole range looks the same."""
Point = tuple[float, int, float | str | None, float | str | None]
"""Unix time in s, step, loss and learning rate (text where they are not finite). Time and step of two points tell how
fast training was between them, so the time is not rounded to more than a millisecond."""


@dataclass
class RecentPoints:
    """At most ``limit`` points, the first and the newest always among them, and the least and the greatest loss.

    When they are full, of each four neighbours the two go that are neither the least nor the greatest of them, and from
    then on twice as many make two. So the span that they cover is unbounded, and no peak gets lost.
    """

    limit: int = MAX_POINTS
    _kept: list[Point] = field(default_factory=list)
    _group: list[Point] = field(default_factory=list)
    """The least and the greatest, in their order, of the points that came since the last one that is kept."""
    _in_group: int = 0
    _newest: Point | None = None
    _spacing: int = 1

    def add(self, point: Point) -> None:
        """Take one more point, newer than those before."""
        self._newest = point
        if not self._kept:
            self._kept.append(point)
            return
        self._group = extremes([*self._group, point])
        self._in_group += 1
        if self._in_group < 2 * self._spacing:
            return
        self._kept += self._group
        self._group, self._in_group = [], 0
        if len(self._kept) > self.limit - 3:
            self._kept = halved(self._kept)
            self._spacing *= 2

    @property
    def points(self) -> list[Point]:
        """Oldest first."""
        told = [*self._kept, *self._group]
        return told if self._newest is None or told[-1] is self._newest else [*told, self._newest]


class StepSampler:
    """What training says between two beats. :meth:`add` is called by training, with each step: it costs a few hundred
    nanoseconds, and touches nothing but Python's own numbers."""

    __slots__ = ("_count", "_greatest", "_high", "_least", "_low", "_newest", "_odd", "_points", "_stride", "metrics")

    def __init__(self) -> None:
        self._points: list[Point] = []
        self._count, self._stride = 0, 1
        self._low, self._high = inf, -inf
        self._least: Point | None = None
        self._greatest: Point | None = None
        self._odd: Point | None = None
        self._newest: Point | None = None
        self.metrics: dict[tuple[int, str], tuple[float, object, dict[str, object]]] = {}
        """By how many there are and the first one's name, which tells steps from validations: Unix time, step and
        metrics of the latest step that told these, as training gave them."""

    def add(self, step: object, loss: object, learning_rate: object, metrics: dict[str, object]) -> None:
        """Take one more step."""
        now = time()
        if metrics:
            kinds, kind = self.metrics, (len(metrics), next(iter(metrics)))
            if len(kinds) < KINDS or kind in kinds:
                kinds[kind] = (now, step, metrics)
        # Others may be tensors, and reading those may wait for a device.
        if type(loss) is not float or type(step) is not int:
            return
        count = self._count
        self._count = count + 1
        self._newest = point = (now, step, loss, learning_rate if type(learning_rate) is float else None)
        if not count % self._stride:
            self._points.append(point)
            if len(self._points) >= BETWEEN_LIMIT:
                self._points = self._points[::2]
                self._stride *= 2
        if not self._low <= loss <= self._high:
            self._keep(point, loss)

    def _keep(self, point: Point, loss: float) -> None:
        """It is less or more than all before, or no number, the first of which has to be seen."""
        if loss != loss:  # noqa: PLR0124 - the one value that is not what it is
            self._odd = self._odd or point
            return
        if loss < self._low:
            self._low, self._least = loss, point
        if loss > self._high:
            self._high, self._greatest = loss, point

    def sampled(self) -> list[Point]:
        """Few of the points, oldest first: the first, the last, the least, the greatest, and those without which a line
        through the others would lie."""
        kept = (self._least, self._greatest, self._odd, self._newest)
        found = {*self._points, *(each for each in kept if each is not None)}
        return sampled(sorted(found, key=lambda point: point[:2]))


def extremes(points: Sequence[Point]) -> list[Point]:
    """The least and the greatest of them, in their order. What is no number is the greatest: it has to be seen."""
    if len(points) < 3:
        return list(points)
    values = [_value(point) for point in points]
    least = min(range(len(points)), key=values.__getitem__)
    greatest = max(range(len(points) - 1, -1, -1), key=values.__getitem__)
    if least == greatest:
        # All the same: the first of them and the last.
        least, greatest = 0, len(points) - 1
    return [points[index] for index in sorted((least, greatest))]


def halved(points: Sequence[Point]) -> list[Point]:
    """About half of the points: the first, and of each four neighbours the least and the greatest."""
    kept = [points[0]]
    for start in range(1, len(points), 4):
        kept += extremes(points[start : start + 4])
    return kept


def sampled(points: Sequence[Point], most: int = SAMPLED) -> list[Point]:
    """At most ``most`` of the points, by Ramer, Douglas and Peucker: where a line is furthest off, a point is added."""
    if len(points) <= 2:
        return list(points)
    known = [index for index, point in enumerate(points) if isfinite(_value(point))]
    odd = next((index for index, point in enumerate(points) if not isfinite(_value(point))), None)
    wanted = {0, len(points) - 1} | ({odd} if odd is not None else set())
    if known:
        value: Callable[[int], float] = lambda index: _value(points[index])  # noqa: E731 - a name for a key
        wanted |= {min(known, key=value), max(known, key=value)}
        values = [value(index) for index in known]
        range_ = max(values) - min(values)
        while len(wanted) < most and range_ > 0:
            marks = sorted(index for index in wanted if isfinite(value(index)))
            off, index = max(_off(points, known, marks), default=(0.0, -1))
            if off < _FLAT * range_:
                break
            wanted.add(index)
    return [points[index] for index in sorted(wanted)]


def _off(points: Sequence[Point], known: Sequence[int], marks: Sequence[int]) -> Iterator[tuple[float, int]]:
    """How far each point lies from the line through the marks beside it, and which it is."""
    place = 0
    for index in known:
        while place + 1 < len(marks) and marks[place + 1] <= index:
            place += 1
        if place + 1 >= len(marks) or marks[place] >= index:
            continue
        (left, right), at = (points[marks[place]], points[marks[place + 1]]), points[index]
        span = right[1] - left[1]
        share = (at[1] - left[1]) / span if span else 0.0
        line = _value(left) * (1 - share) + _value(right) * share
        yield abs(_value(at) - line), index


def _value(point: Point) -> float:
    """What is not known is nothing in particular; what is no number is beyond all."""
    loss = point[2]
    if loss is None:
        return 0.0
    return loss if isinstance(loss, float | int) and isfinite(loss) else float("inf")
