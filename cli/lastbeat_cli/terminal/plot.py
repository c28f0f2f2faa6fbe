"""A curve in a terminal: points joined by lines, with the lowest and highest value of both axes."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from lastbeat.views.lines.paint import cells
from lastbeat.views.lines.signs import Signs, share, usual

# The dots of a braille character: two columns of four, from the top.
_DOTS: Final = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_BRAILLE: Final = 0x2800
LEAST: Final = (12, 4)
"""Smallest picture: columns and lines."""

_ENOUGH: Final = 20
_CROSS: Final = "\u00d7"  # A multiplication sign, as on the page.

Points = Sequence[tuple[float, float | None]]
"""Points from left to right. The curve has a gap where a value is None, and a cross below where it is not finite."""


def plot(  # noqa: PLR0913, PLR0917 - a picture and the labels of its axes
    points: Points,
    columns: int,
    height: int,
    signs: Signs,
    name_x: Callable[[float], str],
    name_y: Callable[[float], str],
    floor: float | None = None,
) -> list[str]:
    """``height`` lines of at most ``columns``; empty if there is no point or no room.

    The vertical axis begins at ``floor`` if it is given.
    """
    known = [(x, y) for x, y in points if y is not None and math.isfinite(x) and math.isfinite(y)]
    if not known or columns < LEAST[0] or height < LEAST[1]:
        return []
    odd = [x for x, y in points if y is not None and math.isfinite(x) and not math.isfinite(y)]
    all_x = [*(x for x, _ in known), *odd]
    low_x, high_x = min(all_x), max(all_x)
    low, high, beyond = usual([y for _, y in known], least_count=_ENOUGH)
    low = min(low, floor) if floor is not None else low
    # The last line names the steps, the one before it is the axis.
    rows = height - 2
    labels = (
        {0: ("≥" if beyond else "") + name_y(high), rows - 1: name_y(low)} if high > low else {rows // 2: name_y(low)}
    )
    if high > low and rows >= 7:
        labels[rows // 2] = name_y(low + (high / 2 - low / 2) * 2 * (1 - (rows // 2) / (rows - 1)))
    left = max(map(cells, labels.values()))
    room = columns - left - 2
    if room < 4:
        return []
    canvas = _Canvas(room, rows, signs)
    scaled = [(share(x, low_x, high_x), share(y, low, high)) if y is not None and _finite(x, y) else None
              for x, y in points]  # fmt: skip
    canvas.draw(scaled)
    canvas.cross(share(x, low_x, high_x) for x in odd)
    drawn = [
        f"{labels.get(row, ''):>{left}} {'┤' if row in labels else '│'}{text}" for row, text in enumerate(canvas.rows())
    ]
    return [*drawn, f"{'':>{left}} └{'─' * room}", _below(name_x(low_x), name_x(high_x), left + 2, room)]


def _finite(x: float, y: float) -> bool:
    return math.isfinite(x) and math.isfinite(y)


def _below(first: str, last: str, indent: int, room: int) -> str:
    if first == last or cells(first) + cells(last) + 2 > room:
        return " " * indent + last[:room]
    return " " * indent + first + " " * (room - cells(first) - cells(last)) + last


class _Canvas:
    """A grid of dots: two by four in a character, or one by two in ASCII."""

    def __init__(self, columns: int, rows: int, signs: Signs) -> None:
        self._columns, self._rows = columns, rows
        self._fine = not signs.plain
        self._wide, self._tall = (columns * 2, rows * 4) if self._fine else (columns, rows * 2)
        self._set: set[tuple[int, int]] = set()
        self._crossed: set[int] = set()

    def draw(self, points: Sequence[tuple[float, float] | None]) -> None:
        """Draw points, given as shares of width and height, and join them to their neighbours."""
        before: tuple[int, int] | None = None
        for point in points:
            if point is None:
                before = None
                continue
            here = (round(point[0] * (self._wide - 1)), round((1 - point[1]) * (self._tall - 1)))
            self._set.update(_between(before or here, here))
            before = here

    def cross(self, places: Iterable[float]) -> None:
        """Mark these shares of the width in the last row."""
        self._crossed.update(round(place * (self._columns - 1)) for place in places)

    def rows(self) -> Iterator[str]:
        """The lines from the top, without trailing spaces."""
        for row in range(self._rows):
            yield "".join(self._char(column, row) for column in range(self._columns)).rstrip()

    def _char(self, column: int, row: int) -> str:
        if row == self._rows - 1 and column in self._crossed:
            return _CROSS
        if self._fine:
            bits = sum(_DOTS[x][y] for x in range(2) for y in range(4) if (column * 2 + x, row * 4 + y) in self._set)
            return chr(_BRAILLE + bits) if bits else " "
        above, below = (column, row * 2) in self._set, (column, row * 2 + 1) in self._set
        return ":" if above and below else "'" if above else "." if below else " "


def _between(start: tuple[int, int], end: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """The dots of a straight line between two points."""
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    for step in range(steps + 1):
        yield (
            start[0] + round((end[0] - start[0]) * step / steps),
            start[1] + round((end[1] - start[1]) * step / steps),
        )
