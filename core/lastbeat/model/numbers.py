"""Numbers as JSON can hold them, and as hand-made documents do."""

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
    """A float that may be NaN or infinite, also where it was written as text (``"NaN"``); None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def finite(value: object) -> float | None:
    """The same, where it is a number that can be reckoned with."""
    told = number(value)
    return told if told is not None and math.isfinite(told) else None


def amount(value: object) -> float | None:
    """The same, where it is not below zero."""
    told = finite(value)
    return told if told is not None and told >= 0 else None


def whole(value: object) -> int | None:
    """A whole number of no more than fifteen digits, or None."""
    told = finite(value)
    return int(told) if told is not None and told == int(told) and abs(told) <= _LARGEST else None
