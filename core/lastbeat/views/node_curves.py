"""The last hours of a run's node, as its metadata.json tells."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from lastbeat.model.numbers import finite
from lastbeat.model.times import parse_time
from lastbeat.model.view import NodeCurves

_SERIES: Final = ("gpu", "gpu_memory", "gpu_temperature_c", "gpu_power_w", "cpu", "memory", "disk")
_MOST: Final = 240
_LONGEST_S: Final = 86400.0


def read_node_curves(health: object, plausible: Callable[[datetime], bool]) -> NodeCurves | None:
    """``health`` of metadata.json; None where it has no history that can be understood. ``plausible`` says whether a
    time may be one of this document's."""
    told = health.get("history") if isinstance(health, dict) else None
    if not isinstance(told, dict):
        return None
    began, each_s, series = parse_time(told.get("from")), finite(told.get("each_s")), told.get("series")
    if began is None or not plausible(began) or each_s is None or not 0 < each_s <= _LONGEST_S:
        return None
    if not isinstance(series, dict):
        return None
    columns = {name: series[name] for name in _SERIES if isinstance(series.get(name), list)}
    known = {name: tuple(map(_number, column)) for name, column in columns.items() if len(column) <= _MOST}
    found = {name: column for name, column in known.items() if any(value is not None for value in column)}
    return NodeCurves(began, each_s, found) if found else None


def _number(value: object) -> float | None:
    told = finite(value)
    return told if told is not None and told >= 0 else None
