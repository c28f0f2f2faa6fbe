"""Reading the record's fields: the right type, or an error that says which was wrong."""

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from lastbeat.model.times import parse_time

T = TypeVar("T")


def optional(value: Any, read: Callable[[Any], T]) -> T | None:
    return None if value is None else read(value)


def text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:40]!r} is no text")
    return value


def whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{str(value)[:40]!r} is no whole number")
    return value


def real(value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise TypeError(f"{str(value)[:40]!r} is no finite number")
    return float(value)


def pair(value: object) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise TypeError(f"{str(value)[:40]!r} is no pair of numbers")
    return real(value[0]), real(value[1])


def all_texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(f"{str(values)[:40]!r} is no list")
    return tuple(text(value) for value in values)


def time(value: object) -> datetime | None:
    return None if value is None else must(value)


def must(value: object) -> datetime:
    when = parse_time(value)
    if when is None:
        raise ValueError(f"{str(value)[:40]!r} is not a time")
    return when


def texts(value: Mapping[str, object]) -> dict[str, str]:
    return {str(key): str(text) for key, text in value.items()}
