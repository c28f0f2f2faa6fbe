"""Points of a run's curves: few, reaching back to its beginning, and true to what training said in between."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf, isfinite
from time import monotonic

MAX_POINTS = 160
BETWEEN_LIMIT = 512
"""How many points are held between two beats, besides the extremes."""
SAMPLED = 24
"""How many of them a beat adds to the curve, at most."""
MAX_KINDS = 8
"""How many kinds of steps are distinguished by their metrics between two beats."""
_FLAT = 0.004
"""A line that is never further off than this part of the whole range looks the same."""
_SLIGHT = 0.001
"""The least and the greatest loss between two beats are exact up to this part of them."""
Point = tuple[float, int, float | str | None, float | str | None]
"""Unix time in s, step, loss and learning rate (text where they are not finite). Time and step of two points tell how
fast training was between them, so the time is not rounded to more than a millisecond."""
StepMetrics = tuple[float, object, dict[str, object]]
"""When a step was, by the monotonic clock, the step and its metrics, as training gave them."""


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
    """Points of the steps between two beats, as few as their curve needs.

    Training calls :meth:`add` and :meth:`keep_metrics`, which read nothing but Python's own numbers. The beat thread
    replaces the sampler, then takes its points. Training only appends to deques and the beat thread only pops, so the
    next beat finds a step that was under way meanwhile.
    """

    __slots__ = ("_greatest", "_least", "_metrics", "_odd", "_points", "_stride", "due", "high", "low")

    def __init__(self) -> None:
        self.due = 0
        """The number of the step from which on the next point is kept, whatever its loss."""
        self.low, self.high = inf, -inf
        """A loss outside of these is kept. They lie slightly beyond the least and the greatest so far, or a loss that
        falls with each step would be kept with each step."""
        self._stride = 1
        self._points: deque[Point] = deque()
        self._least: deque[Point] = deque(maxlen=1)
        self._greatest: deque[Point] = deque(maxlen=1)
        self._odd: deque[Point] = deque(maxlen=1)
        self._metrics: dict[tuple[int, str], StepMetrics] = {}

    def add(self, number: int, step: object, loss: object, learning_rate: object) -> None:
        """Keep the step if it is due, or if its loss is outside ``low`` to ``high`` or no number. ``number`` counts
        steps; ``step`` is what training calls this one."""
        # Others may be tensors, and reading those may wait for a device.
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
        """Keep the metrics of a step in place of earlier ones of their kind: as many, with the same first name. That
        tells validations from steps."""
        kind = _kind(metrics)
        known = self._metrics.get(kind)
        if metrics and (len(self._metrics) < MAX_KINDS if known is None else known[2] is not metrics):
            self._metrics[kind] = (monotonic(), step, metrics)

    def take(self) -> list[Point]:
        """Take the points away, and return at most :data:`SAMPLED`, oldest first: the first, the last, the least, the
        greatest, and those without which a line through the others would lie. Times are of the monotonic clock."""
        found = {point for held in (self._points, self._least, self._greatest, self._odd) for point in _emptied(held)}
        return sampled(sorted(found, key=lambda point: point[:2]))

    def take_metrics(self, latest: dict[str, object]) -> list[StepMetrics]:
        """Take the metrics away, oldest first, without those of the kind of ``latest``."""
        taken: list[StepMetrics] = []
        self._metrics.pop(_kind(latest), None)
        with suppress(KeyError):
            while True:
                taken.append(self._metrics.popitem()[1])
        return sorted(taken, key=lambda each: each[0])


def _kind(metrics: dict[str, object]) -> tuple[int, str]:
    first = next(iter(metrics), "")
    # No other text: hashing it could run training's code.
    return len(metrics), first if type(first) is str else ""


def _emptied(held: deque[Point]) -> Iterator[Point]:
    """What it holds. Training may go on adding meanwhile, so it is not walked through."""
    with suppress(IndexError):
        while True:
            yield held.popleft()


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
