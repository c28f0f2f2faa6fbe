"""Reads the documents that training wrote, be they minimal, hand-made, broken or hostile."""

import json
import math
from collections.abc import Callable
from datetime import datetime, timedelta

from lastbeat.model.health import HEALTH_CONDITIONS, HealthCondition
from lastbeat.model.in_place import FIELD, read_in_place
from lastbeat.model.numbers import finite, number, whole
from lastbeat.model.observation import Heartbeat, LeftSection, OpenSection
from lastbeat.model.rerun import FIELD as RERUN
from lastbeat.model.rerun import read_rerun
from lastbeat.model.secrets import mask_tokens
from lastbeat.model.stragglers_told import read_stragglers
from lastbeat.model.text import owner_name
from lastbeat.model.times import names_zone, parse_time
from lastbeat.stores.port import Blob

DOCUMENT_LIMIT_BYTES = 256 * 1024
_TEXT_LIMIT = 200
_TIME_KEYS = ("last_update", "last_updated", "timestamp")
_PLAUSIBLE = timedelta(days=3653)
_LEAD = timedelta(minutes=1)
_LIMIT_MIN = 30 * 24 * 60
_MOST_SECTIONS = 16
_MOST_CONDITIONS = 16
_HEALTH_TEXT, _HEALTH_RAW = 300, 4096
_POINT = 3
"""A point of ``recent`` has at least a time, a step and a loss."""


def read_heartbeat(blob: Blob, mask: Callable[[str], str] = mask_tokens) -> Heartbeat:
    """Parse a heartbeat document as far as possible. ``mask`` hides secrets in its text before that is cut: a cut could
    leave part of a secret behind.

    Never raises: ``fault`` says what is wrong, and it still counts as a heartbeat at its ``LastModified``. Fields of an
    unexpected type are missing; unknown fields are ignored.
    """
    document = _parse(blob)
    if isinstance(document, str):
        return Heartbeat(modified=blob.modified, version=blob.version, fault=document)
    times = ((key, _time(document.get(key), blob)) for key in _TIME_KEYS)
    own_key, own = next(((key, time) for key, time in times if time is not None), ("", None))
    start = _time(document.get("start_time"), blob)
    fault = _time_fault(document, mask)
    if start is not None and start > (own or blob.modified) + _LEAD:
        # It would make every sentinel look older than the attempt.
        fault, start = "its start_time is later than the document itself; write both times in UTC", None
    return Heartbeat(
        modified=blob.modified,
        version=blob.version,
        own_time=own,
        zoned=names_zone(document.get(own_key)),
        clock_offset_s=_offset(document.get("clock_offset_s")),
        beat_s=_span(document.get("beat_seconds")),
        longest_gap_s=_span(document.get("longest_gap_s")),
        stale_s=_minutes(document.get("stale_minutes")),
        stall_s=_minutes(document.get("stall_minutes")),
        fault=fault,
        phase=_text(document.get("phase"), mask),
        instance_id=_text(document.get("instance_id"), mask),
        zone=_text(document.get("zone"), mask),
        instance_type=_text(document.get("instance_type"), mask),
        host=_text(document.get("host"), mask),
        start_time=start,
        attempt=whole(document.get("attempt")),
        owner=owner_name(_text(document.get("owner"), mask)),
        team=owner_name(_text(document.get("team"), mask)),
        thread_error=_text(document.get("thread_error"), mask),
        world_size=whole(document.get("world_size")),
        rank_beat_s=_span(document.get("rank_beat_seconds")),
        sections=_sections(document.get("sections"), mask),
        left_sections=_left_sections(document.get("left_sections")),
        stragglers=read_stragglers(document.get("stragglers"), mask),
        health=_health(document.get("health"), mask, blob),
        in_place=read_in_place(document.get(FIELD)),
        rerun=read_rerun(document.get(RERUN), mask),
        step=whole(document.get("step")),
        total_steps=whole(document.get("total_steps")),
        loss=number(document.get("loss")),
        not_finite_since=_not_finite_since(document),
        first_point=_first_point(document.get("recent"), blob),
        step_reached_at=_step_reached_at(document, blob),
    )


def _time(value: object, blob: Blob) -> datetime | None:
    """A plausible time for this file: no clock is off by ten years, but placeholders are (year 1, 9999)."""
    when = parse_time(value)
    return when if when is not None and abs(when - blob.modified) < _PLAUSIBLE else None


def _offset(value: object) -> float | None:
    offset_s = finite(value)
    return offset_s if offset_s is not None and abs(offset_s) < _PLAUSIBLE.total_seconds() else None


def _span(value: object) -> float | None:
    span_s = finite(value)
    return span_s if span_s is not None and 0 < span_s < _PLAUSIBLE.total_seconds() else None


def _minutes(value: object) -> float | None:
    """Minutes as seconds, one at least: a smaller limit would have each look write. One of years nobody meant."""
    span_min = finite(value)
    return max(span_min, 1.0) * 60 if span_min is not None and 0 < span_min <= _LIMIT_MIN else None


def _sections(value: object, mask: Callable[[str], str]) -> tuple[OpenSection, ...]:
    """The open sections, as far as they are understood."""
    found = list[OpenSection]()
    for each in value[:_MOST_SECTIONS] if isinstance(value, list) else ():
        open_s = finite(each.get("open_s")) if isinstance(each, dict) else None
        if open_s is None or not 0 <= open_s < _PLAUSIBLE.total_seconds():
            continue
        name = _text(each.get("name"), mask)
        if name is None and "name" in each:
            continue
        spans = (_span(each.get(key)) for key in ("limit_s", "usual_s", "awaited_s"))
        found.append(OpenSection(name, open_s, *spans))
    return tuple(found)


def _left_sections(value: object) -> tuple[LeftSection, ...]:
    """The sections that were left lately, as far as they are understood."""
    found = list[LeftSection]()
    for each in value[:_MOST_SECTIONS] if isinstance(value, list) else ():
        told = each if isinstance(each, dict) else {}
        took_s, ago_s, limit_s = (_span(told.get(name)) for name in ("took_s", "ago_s", "limit_s"))
        if took_s is not None and limit_s is not None:
            # It may have been left at that very moment.
            found.append(LeftSection(took_s, ago_s or 0.0, limit_s))
    return tuple(found)


def read_conditions(value: object, mask: Callable[[str], str], blob: Blob) -> tuple[HealthCondition, ...]:
    """The conditions of a node that a document lists: those that are known by name, each once."""
    found: dict[str, HealthCondition] = {}
    for each in value[:_MOST_CONDITIONS] if isinstance(value, list) else ():
        name = each.get("name") if isinstance(each, dict) else None
        if isinstance(name, str) and name in HEALTH_CONDITIONS and name not in found:
            text = each.get("text")
            shown = mask(text[:_HEALTH_RAW])[:_HEALTH_TEXT] if isinstance(text, str) else ""
            found[name] = HealthCondition(name, shown, _time(each.get("since"), blob))
    return tuple(found.values())


def _health(value: object, mask: Callable[[str], str], blob: Blob) -> tuple[HealthCondition, ...] | None:
    listed = value.get("conditions") if isinstance(value, dict) else None
    return read_conditions(listed, mask, blob) if isinstance(listed, list) else None


def _not_finite_since(document: dict[str, object]) -> int | None:
    """The first step of the points at the end of ``recent`` whose loss is not finite; None if the loss itself is."""
    loss, points = number(document.get("loss")), document.get("recent")
    if loss is None or math.isfinite(loss):
        return None
    since = whole(document.get("step"))
    for point in reversed(points if isinstance(points, list) else []):
        value = number(point[2]) if isinstance(point, list) and len(point) >= _POINT else None
        if value is None or math.isfinite(value):
            break
        since = whole(point[1])
    return since


def _first_point(points: object, blob: Blob) -> tuple[datetime, int] | None:
    first = points[0] if isinstance(points, list) and points else None
    if not isinstance(first, list) or len(first) < _POINT - 1:
        return None
    at, step = _time(first[0], blob), whole(first[1])
    return None if at is None or step is None else (at, step)


def _step_reached_at(document: dict[str, object], blob: Blob) -> datetime | None:
    """The time of the earliest of the points at the end of ``recent`` that have the document's own step."""
    step, points = whole(document.get("step")), document.get("recent")
    reached: datetime | None = None
    for point in reversed(points if step is not None and isinstance(points, list) else []):
        if not isinstance(point, list) or len(point) < _POINT - 1 or whole(point[1]) != step:
            break
        reached = _time(point[0], blob) or reached
    return reached


def _time_fault(document: dict[str, object], mask: Callable[[str], str]) -> str | None:
    for key in (*_TIME_KEYS, "start_time"):
        value = document.get(key)
        if isinstance(value, str) and value.strip() and parse_time(value) is None:
            return f"its {key} {mask(value)[:40]!r} is not a time; write for example 2025-08-04T17:16:21Z"
    return None


def _parse(blob: Blob) -> dict[str, object] | str:
    if blob.size_bytes > len(blob.body):
        return f"it is {blob.size_bytes:,} bytes long; a heartbeat of more than {len(blob.body):,} is not read"
    if not blob.body.strip():
        return "it is empty"
    try:
        document = json.loads(blob.body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return f"it is not UTF-8 text (byte {error.start})"
    except json.JSONDecodeError as error:
        return f"it is not JSON: {error.msg} at line {error.lineno} column {error.colno}"
    except (ValueError, RecursionError):
        return "it is not JSON that can be read: a number or a nesting is too large"
    if not isinstance(document, dict):
        return f"it is a JSON {_json_type(document)} where an object belongs"
    return document


def _json_type(value: object) -> str:
    if value is None:
        return "null"
    names: dict[type, str] = {list: "list", str: "string", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), "value")


def _text(value: object, mask: Callable[[str], str]) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return mask(str(value))[:_TEXT_LIMIT] or None
