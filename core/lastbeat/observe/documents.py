"""Reading what training wrote: minimal, hand-made, broken or hostile documents alike."""

import json
import math
from datetime import datetime, timedelta

from lastbeat.model.observation import Heartbeat
from lastbeat.model.times import parse_time
from lastbeat.stores.port import Blob

DOCUMENT_LIMIT_BYTES = 256 * 1024
_TEXT_LIMIT = 200
_TIME_KEYS = ("last_update", "last_updated", "timestamp")
_LARGEST = 10**15
_PLAUSIBLE = timedelta(days=3653)
_LEAD = timedelta(minutes=1)


def read_heartbeat(blob: Blob) -> Heartbeat:
    """Understand a heartbeat document as far as it can be understood.

    Never raises: whatever is wrong with it is said in ``fault``, and it still is a heartbeat at its
    ``LastModified``. Fields of an unexpected type are missing, unknown fields are ignored.
    """
    document = _parse(blob)
    if isinstance(document, str):
        return Heartbeat(modified=blob.modified, version=blob.version, fault=document)
    own = next((time for time in (_time(document.get(key), blob) for key in _TIME_KEYS) if time is not None), None)
    start = _time(document.get("start_time"), blob)
    fault = _time_fault(document)
    if start is not None and start > (own or blob.modified) + _LEAD:
        # Left in, it would make every sentinel look older than the attempt.
        fault, start = "its start_time is later than the document itself; write both times in UTC", None
    return Heartbeat(
        modified=blob.modified,
        version=blob.version,
        own_time=own,
        fault=fault,
        phase=_text(document.get("phase")),
        instance_id=_text(document.get("instance_id")),
        zone=_text(document.get("zone")),
        instance_type=_text(document.get("instance_type")),
        host=_text(document.get("host")),
        start_time=start,
        attempt=_whole(document.get("attempt")),
        step=_whole(document.get("step")),
        total_steps=_whole(document.get("total_steps")),
        loss=_number(document.get("loss")),
    )


def _time(value: object, blob: Blob) -> datetime | None:
    """A time that can have to do with this file: no clock is off by ten years, but a placeholder is (year 1, 9999)."""
    when = parse_time(value)
    return when if when is not None and abs(when - blob.modified) < _PLAUSIBLE else None


def _time_fault(document: dict[str, object]) -> str | None:
    for key in (*_TIME_KEYS, "start_time"):
        value = document.get(key)
        if isinstance(value, str) and value.strip() and parse_time(value) is None:
            return f"its {key} {value[:40]!r} is not a time; write for example 2025-08-04T17:16:21Z"
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


def _text(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return str(value)[:_TEXT_LIMIT] or None


def _number(value: object) -> float | None:
    """A float that may be NaN or infinite, also where it was written as text (``"NaN"``, ``"-inf"``)."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str) and len(value) > 40:
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _finite(value: object) -> float | None:
    number = _number(value)
    return number if number is not None and math.isfinite(number) else None


def _whole(value: object) -> int | None:
    number = _finite(value)
    if number is None or number != int(number) or abs(number) > _LARGEST:
        return None
    return int(number)
