"""More lines than a screen has: which of them are to be seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MOVES: Final = {
    "up": -1, "k": -1, "down": 1, "j": 1, "pageup": -10, "pagedown": 10, "home": -(10**9), "g": -(10**9),
    "end": 10**9, "G": 10**9,
}  # fmt: skip
"""Keys and how far they move; a page counts ten of these and is as long as the screen."""


def moved(place: int, key: str, count: int, page: int) -> int:
    """The place after ``key``, of ``count``."""
    step = MOVES[key]
    if abs(step) == 10:
        step = step // 10 * max(page - 1, 1)
    return max(0, min(place + step, count - 1))


@dataclass
class Viewport:
    """Shows ``height`` of some lines, from ``top`` on."""

    top: int = 0

    def follow(self, chosen: int, count: int, height: int) -> None:
        """Move as little as it takes to have ``chosen`` in sight, and no empty lines below while some are above."""
        self.top = min(max(self.top, chosen - height + 1), chosen)
        self.clamp(count, height)

    def clamp(self, count: int, height: int) -> None:
        """No further than the end."""
        self.top = max(0, min(self.top, count - height))

    def of(self, lines: Sequence[object], height: int) -> tuple[int, int]:
        """Where what is to be seen begins and ends."""
        self.clamp(len(lines), height)
        return self.top, min(self.top + height, len(lines))
