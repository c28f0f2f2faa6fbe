"""Scrolling: which lines of a long list are visible; and a text that is read until the user leaves it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from lastbeat.views.lines import signs
from lastbeat.views.lines.paint import Line, cut, line
from lastbeat_cli.terminal.screen import Screen

MOVES: Final = {
    "up": -1, "k": -1, "down": 1, "j": 1, "pageup": -10, "pagedown": 10, "home": -(10**9), "g": -(10**9),
    "end": 10**9, "G": 10**9,
}  # fmt: skip
"""Key → lines to move. 10 stands for a page, which is as long as the screen."""


def moved(place: int, key: str, count: int, page: int) -> int:
    """The new place after ``key``, among ``count`` lines."""
    step = MOVES[key]
    if abs(step) == 10:
        step = step // 10 * max(page - 1, 1)
    return max(0, min(place + step, count - 1))


@dataclass
class Viewport:
    """Shows ``height`` of some lines, from ``top`` on."""

    top: int = 0

    def follow(self, chosen: int, count: int, height: int) -> None:
        """Scroll as little as possible to show ``chosen``, without empty lines at the end."""
        self.top = min(max(self.top, chosen - height + 1), chosen)
        self.clamp(count, height)

    def clamp(self, count: int, height: int) -> None:
        """Scroll back to the end of the list if ``top`` is beyond it."""
        self.top = max(0, min(self.top, count - height))

    def of(self, lines: Sequence[object], height: int) -> tuple[int, int]:
        """First and last index (exclusive) of the visible lines."""
        self.clamp(len(lines), height)
        return self.top, min(self.top + height, len(lines))


LEAVE: Final = frozenset({"q", "Q", "escape", "left", "backspace"})
"""Keys that lead back."""


def show(screen: Screen, lines_in: Callable[[int], Sequence[Line]]) -> None:
    """Show the lines for a width of so many columns, until the user leaves them."""
    window = Viewport()
    while not screen.ended:
        columns, height = screen.size
        body = lines_in(columns)
        start, end = window.of(body, height - 1)
        foot = "q back" + (f"  ↑↓ scroll  {start + 1}-{end} of {len(body)}" if len(body) > height - 1 else "")
        blank = [line("")] * (height - 1 - (end - start))
        screen.draw(
            [signs.line_cut(each, columns) for each in (*body[start:end], *blank, line(cut(foot, columns), "dim"))]
        )
        keys = screen.wait(1.0)
        for index, key in enumerate(keys):
            if key in LEAVE:
                screen.put_back(keys[index + 1 :])
                return
            if key in MOVES:
                window.top = moved(window.top, key, max(1, len(body) - height + 2), height - 1)
