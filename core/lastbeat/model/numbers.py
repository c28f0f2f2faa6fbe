"""Numbers as JSON can hold them, and as hand-made documents hold them."""

import math
from typing import Final

_LARGEST: Final = 10**15
_LONGEST_TEXT: Final = 40


def json_number(value: float | None) -> float | str | None:
    """``value``, or ``"NaN"``, ``"Infinity"``, ``"-Infinity"``, for which JSON has no numbers."""
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def number(value: object) -> float | None:
    """A float, perhaps NaN or infinite, also if written as text (``"NaN"``). None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def finite(value: object) -> float | None:
    """As :func:`number`, but None unless finite."""
    told = number(value)
    return told if told is not None and math.isfinite(told) else None


def amount(value: object) -> float | None:
    """As :func:`finite`, but None if negative."""
    told = finite(value)
    return told if told is not None and told >= 0 else None


def whole(value: object) -> int | None:
    """A whole number of at most fifteen digits, or None."""
    told = finite(value)
    return int(told) if told is not None and told == int(told) and abs(told) <= _LARGEST else None
