"""What JSON documents hold, those made by hand too: objects and numbers; and medians of numbers."""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

_LARGEST: Final = 10**15
_LONGEST_TEXT: Final = 40


def encode(document: Mapping[str, object]) -> bytes:
    """``document`` without what is unknown in it."""
    known = {name: value for name, value in document.items() if value is not None}
    return json.dumps(known, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def json_object(body: bytes | str) -> dict[str, Any] | None:
    """The JSON object that another program wrote; None if it is none. Never raises."""
    try:
        found = json.loads(body.decode("utf-8-sig") if isinstance(body, bytes) else body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def json_number(value: float | None) -> float | str | None:
    """``value``, or ``"NaN"``, ``"Infinity"``, ``"-Infinity"``, for which JSON has no numbers."""
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def number(value: object) -> float | None:
    """A float, perhaps NaN or infinite, also if written as text (``"NaN"``). None for anything else."""
    if type(value) is float:
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def median(values: Iterable[float]) -> float:
    """As ``statistics.median``, which takes 4 ms to import. Raises ``ValueError`` where there are no values."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("there is no median of nothing")
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def weighted_quantile(weighted: Iterable[tuple[float, float]], share: float) -> float:
    """The least of the values, each with its weight, up to which ``share`` of all weight lies. Raises ``IndexError``
    where there are no values."""
    ordered = sorted(weighted)
    least, so_far = share * sum(weight for _, weight in ordered), 0.0
    for value, weight in ordered:
        so_far += weight
        if so_far >= least:
            return value
    return ordered[-1][0]


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
    if type(value) is int:
        return value if -_LARGEST <= value <= _LARGEST else None
    told = finite(value)
    return int(told) if told is not None and told == int(told) and abs(told) <= _LARGEST else None
