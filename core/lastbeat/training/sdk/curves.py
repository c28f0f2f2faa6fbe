"""Curves of few points, which reach back to the run's beginning and keep every peak."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf, isfinite
from time import monotonic
from typing import Any, TypeVar

MAX_POINTS = 160
TAIL_SPACING_S = 25.0
"""Least time in s between two points at the end of a curve, which stay until they are the oldest of these."""
BETWEEN_LIMIT = 512
"""Most points that are held between two beats, besides the extremes."""
SAMPLED = 24
"""Most points that a beat adds to the curve."""
MAX_KINDS = 8
"""Most kinds of steps that are distinguished by their metrics between two beats."""
_FLAT = 0.004
"""Largest error of a drawn line, as a share of the whole range; a smaller one cannot be seen."""
_SLIGHT = 0.001
"""Largest relative error of the least and the greatest loss between two beats."""
Point = tuple[float, int, float | str | None, float | str | None]
"""Unix time in s, step, loss and learning rate (text where they are not finite). Time and step of two points give the
speed of training between them, so the time keeps its milliseconds."""
_Added = tuple[float, int, float | str | None, float | str | None, int]
"""A point, and its number among all that were added."""
T = TypeVar("T")
AnyPoint = TypeVar("AnyPoint", bound=tuple[Any, ...])
StepMetrics = tuple[float, object, dict[str, object]]
"""Time of a step by the monotonic clock, the step, and its metrics as training gave them."""


@dataclass
class RecentPoints:
    """At most ``limit`` points, always including the first, the newest, and those of the least and the greatest loss.

    When they are full, each four neighbours are reduced to their least and greatest. From then on each kept pair stands
    for twice as many points. So the covered span is unbounded, and no peak is lost.

    Three in ten are of the last minutes, :data:`TAIL_SPACING_S` apart whatever their loss. Watchers see in these how
    fast training is now, and its loss without a choice of extremes.
    """

    limit: int = MAX_POINTS
    _kept: list[_Added] = field(default_factory=list)
    _group: list[_Added] = field(default_factory=list)
    """The least and the greatest point since the last kept one, in order of time."""
    _in_group: int = 0
    _newest: _Added | None = None
    _spacing: int = 1
    _tail: deque[_Added] = field(default_factory=deque)

    def add(self, point: Point) -> None:
        """Add a point that is newer than all before."""
        self._newest = newest = (*point, self._newest[-1] + 1 if self._newest is not None else 0)
        if not self._tail or abs(newest[0] - self._tail[-1][0]) >= TAIL_SPACING_S:
            self._tail.append(newest)
        if len(self._tail) > self._tail_limit:
            self._tail.popleft()
        if not self._kept:
            self._kept.append(newest)
            return
        self._group = extremes([*self._group, newest])
        self._in_group += 1
        if self._in_group < 2 * self._spacing:
            return
        self._kept += self._group
        self._group, self._in_group = [], 0
        if len(self._kept) > self.limit - self._tail_limit - 3:
            self._kept = halved(self._kept)
            self._spacing *= 2

    @property
    def points(self) -> list[Point]:
        """All kept points, oldest first."""
        newest = [] if self._newest is None else [self._newest]
        known = {added[-1]: added[:-1] for added in (*self._kept, *self._group, *self._tail, *newest)}
        return [known[number] for number in sorted(known)]

    @property
    def _tail_limit(self) -> int:
        return 3 * self.limit // 10


class StepSampler:
    """Collects the points between two beats that their curve needs.

    Training calls :meth:`add` and :meth:`keep_metrics`, which read only Python's own numbers. The beat thread replaces
    the sampler, then takes its points. Training only appends to deques and the beat thread only pops. So a step that is
    added during the exchange appears in the next beat.
    """

    __slots__ = ("_greatest", "_least", "_metrics", "_odd", "_points", "_stride", "due", "high", "low")

    def __init__(self) -> None:
        self.due = 0
        """From the step with this number on, the next point is kept whatever its loss."""
        self.low, self.high = inf, -inf
        """A loss outside these bounds is kept. They lie slightly beyond the least and the greatest loss so far;
        otherwise a loss that falls with each step would be kept with each step."""
        self._stride = 1
        self._points: deque[Point] = deque()
        self._least: deque[Point] = deque(maxlen=1)
        self._greatest: deque[Point] = deque(maxlen=1)
        self._odd: deque[Point] = deque(maxlen=1)
        self._metrics: dict[tuple[int, str], StepMetrics] = {}

    def add(self, number: int, step: object, loss: object, learning_rate: object) -> None:
        """Keep the step if it is due, or if its loss is outside ``low`` to ``high`` or not a number. ``number`` counts
        steps; ``step`` is training's own number for this one."""
        # Other types may be tensors, and reading those may wait for a device.
        if type(loss) is not float or type(step) is not int:
            return
        point = (monotonic(), step, loss, learning_rate if type(learning_rate) is float else None)
        if loss < self.low:
            self.low = loss - _SLIGHT * abs(loss)
            self._least.append(point)
        if loss > self.high:
            self.high = loss + _SLIGHT * abs(loss)
            self._greatest.append(point)
        if loss != loss and not self._odd:  # noqa: PLR0124 - the one value that is not what it is
            self._odd.append(point)
        if number < self.due:
            return
        self._points.append(point)
        if len(self._points) == BETWEEN_LIMIT:
            self._points = deque(list(self._points)[::2])
            self._stride *= 2
        self.due = number + self._stride

    def keep_metrics(self, step: object, metrics: dict[str, object]) -> None:
        """Keep the metrics of a step in place of earlier ones of their kind. Metrics are of one kind if they are
        equally many and have the same first name. That distinguishes validations from steps."""
        kind = _kind(metrics)
        known = self._metrics.get(kind)
        if metrics and (len(self._metrics) < MAX_KINDS if known is None else known[2] is not metrics):
            self._metrics[kind] = (monotonic(), step, metrics)

    def take(self) -> list[Point]:
        """Remove all points and return them, oldest first, the least and the greatest among them. Times are by the
        monotonic clock."""
        found = {point for held in (self._points, self._least, self._greatest, self._odd) for point in emptied(held)}
        return sorted(found, key=lambda point: point[:2])

    def take_metrics(self, latest: dict[str, object]) -> list[StepMetrics]:
        """Remove all metrics and return them oldest first, without those of the kind of ``latest``."""
        taken: list[StepMetrics] = []
        self._metrics.pop(_kind(latest), None)
        with suppress(KeyError):
            while True:
                taken.append(self._metrics.popitem()[1])
        return sorted(taken, key=lambda each: each[0])


def _kind(metrics: dict[str, object]) -> tuple[int, str]:
    first = next(iter(metrics), "")
    # Hashing a subclass of str could run training's code.
    return len(metrics), first if type(first) is str else ""


def emptied(held: deque[T]) -> Iterator[T]:
    """Remove and yield all items of ``held``. Training may append meanwhile, so it cannot be iterated over."""
    with suppress(IndexError):
        while True:
            yield held.popleft()


def extremes(points: Sequence[AnyPoint]) -> list[AnyPoint]:
    """The least and the greatest point, in order of time. A loss that is not a number counts as the greatest, so that
    it stays visible."""
    if len(points) < 3:
        return list(points)
    values = [_value(point) for point in points]
    least = min(range(len(points)), key=values.__getitem__)
    greatest = max(range(len(points) - 1, -1, -1), key=values.__getitem__)
    if least == greatest:
        # All losses are equal: take the first point and the last.
        least, greatest = 0, len(points) - 1
    return [points[index] for index in sorted((least, greatest))]


def halved(points: Sequence[AnyPoint]) -> list[AnyPoint]:
    """About half of the points: the first, and the least and the greatest of each four neighbours."""
    kept = [points[0]]
    for start in range(1, len(points), 4):
        kept += extremes(points[start : start + 4])
    return kept


def sampled(points: Sequence[Point], most: int = SAMPLED) -> list[Point]:
    """At most ``most`` of the points: the first, the last, the least and the greatest loss, and those that the
    drawn line needs. By Ramer, Douglas and Peucker: a point is added where the line is furthest off."""
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
    """Distance of each point from the line through the marks beside it, and the point's index."""
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


def _value(point: tuple[Any, ...]) -> float:
    """A point's loss: 0 if unknown, infinity if it is not a finite number."""
    loss = point[2]
    if loss is None:
        return 0.0
    return loss if isinstance(loss, float | int) and isfinite(loss) else float("inf")
