"""The range of a picture's axis, chosen so that a few outliers do not flatten all other values."""

from collections.abc import Sequence
from typing import Final

_BEYOND: Final = 3.0
"""Values beyond this multiple of the span of the lower nine tenths are outliers."""


def usual(values: Sequence[float], *, least_count: int) -> tuple[float, float, bool]:
    """The lower and upper end of the axis for finite ``values``, and whether some values lie above.

    Fewer than ``least_count`` values are all shown.
    """
    ordered = sorted(values)
    low, most = ordered[0], ordered[-1]
    common = ordered[(len(ordered) - 1) * 9 // 10]
    # Computed with halves, because the difference of two huge numbers may be infinite.
    if len(ordered) >= least_count and common > low and most / 2 - low / 2 > _BEYOND * (common / 2 - low / 2):
        return low, low + (common - low) * _BEYOND / 2, True
    return low, most, False


def share(value: float, low: float, high: float) -> float:
    """The position of ``value`` between ``low`` and ``high``, from 0 to 1; 0.5 if they are equal."""
    span = high / 2 - low / 2
    return max(0.0, min((value / 2 - low / 2) / span, 1.0)) if span > 0 else 0.5
