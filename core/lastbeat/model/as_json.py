"""Frozen data as JSON can hold it. Pure."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final

from lastbeat.model.json_values import json_number
from lastbeat.model.times import format_time

Json = dict[str, Any]
_DIGITS: Final = 6


def as_json(value: object) -> Any:
    """``value``, with each dataclass in it as an object of all its fields, and each time as ISO 8601 text."""
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return rounded(value)
    if isinstance(value, (tuple, list)):
        return [as_json(each) for each in value]
    if isinstance(value, Mapping):
        return {name: as_json(each) for name, each in value.items()}
    if is_dataclass(value):
        # What a newer version has written into a record is not for programs of today.
        return {each.name: as_json(getattr(value, each.name)) for each in fields(value) if each.name != "unknown"}
    return value


def picked(value: object, names: str) -> Json:
    """The attributes of ``value`` that ``names`` lists, as JSON can hold them."""
    return {name: as_json(getattr(value, name)) for name in names.split()}


def rounded(value: float | None) -> float | str | None:
    """``value`` with as many digits as people can make use of; as text where JSON has no such number."""
    return json_number(shortened(value))


def shortened(value: float | None) -> float | None:
    """``value`` with as many digits as people can make use of."""
    return None if value is None else float(f"{value:.{_DIGITS}g}")
