"""The latest points of a run: few, and reaching back as far as possible."""

from dataclasses import dataclass, field

LIMIT = 120
Point = tuple[float, int, float | str | None, float | str | None]
"""Unix time in s, step, loss and learning rate (text where they are not finite). Time and step of two points tell how
fast training was between them, so the time is not rounded to more than a millisecond."""


@dataclass
class Recent:
    """At most ``LIMIT`` points, the first and the newest always among them.

    When they are full every second one goes and the spacing doubles, so the span that they cover is unbounded.
    """

    _kept: list[Point] = field(default_factory=list)
    _newest: Point | None = None
    _spacing: int = 1
    _seen: int = 0

    def add(self, point: Point) -> None:
        """Take one more point."""
        if self._seen % self._spacing == 0:
            self._kept.append(point)
        self._newest = point
        self._seen += 1
        if len(self._kept) >= LIMIT:
            self._kept = self._kept[::2]
            self._spacing *= 2

    @property
    def points(self) -> list[Point]:
        """Oldest first."""
        if self._newest is None or self._kept[-1] is self._newest:
            return list(self._kept)
        return [*self._kept, self._newest]
