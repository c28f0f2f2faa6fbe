"""From where to where a picture goes: so that a few great values do not make a flat line of all others."""

from collections.abc import Sequence
from typing import Final

_BEYOND: Final = 3.0
"""So many times the span of nine tenths of the values is beyond what is usual."""


def usual(values: Sequence[float], *, least_count: int) -> tuple[float, float, bool]:
    """The least and the greatest that are shown of finite ``values``, and whether some lie above it.

    Of fewer than ``least_count`` all are shown.
    """
    ordered = sorted(values)
    low, most = ordered[0], ordered[-1]
    common = ordered[(len(ordered) - 1) * 9 // 10]
    # Halves, for a difference of two great numbers may be infinite.
    if len(ordered) >= least_count and common > low and most / 2 - low / 2 > _BEYOND * (common / 2 - low / 2):
        return low, low + (common - low) * _BEYOND / 2, True
    return low, most, False


def share(value: float, low: float, high: float) -> float:
    """Where ``value`` lies between both, from 0 to 1; in the middle where there is nothing between them."""
    span = high / 2 - low / 2
    return max(0.0, min((value / 2 - low / 2) / span, 1.0)) if span > 0 else 0.5
