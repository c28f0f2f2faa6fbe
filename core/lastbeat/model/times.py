"""Times and durations as documents write them and as people read them."""

import re
from datetime import datetime, timedelta, timezone
from math import inf
from typing import Final

from lastbeat.model.pattern import Pattern

_ISO = Pattern(
    r"(\d{4})-?(\d\d)-?(\d\d)(?:[Tt ](\d\d):?(\d\d)(?::?(\d\d))?(?:[.,](\d{1,12}))?)?"
    r"\s*(Z|z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?"
)
_DIGITS = (("d", 4), ("h", 5), ("m", 6), ("s", 8))
"""Unit of a duration → most digits before its point."""
_DURATION = Pattern("".join(rf"(?:(\d{{1,{most}}}(?:\.\d{{1,9}})?){unit})?" for unit, most in _DIGITS), re.ASCII)
_NUMBER = Pattern(r"(?:\d{1,15}\.?\d{0,15}|\.\d{1,15})(?:e[+-]?\d{1,2})?", re.ASCII | re.IGNORECASE)
# Epoch numbers by magnitude: seconds until the year 5138, then milli-, micro- and nanoseconds.
_EPOCH_UNITS = ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (1e20, 1e9))


def parse_time(value: object) -> datetime | None:
    """Parse a timestamp as training scripts write it. ``None``: it is none.

    Accepts ISO 8601, basic or extended, with ``Z``, an offset or nothing (then it is UTC), with any number of fraction
    digits or a day alone; and epoch numbers in s, ms, µs or ns, as a number or as text. Never raises.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return _from_epoch(value)
    if not isinstance(value, str) or len(value) > 64:
        return None
    text = value.strip()
    if re.fullmatch(r"\d{9,20}(\.\d+)?", text, re.ASCII):
        return _from_epoch(float(text))
    match = _ISO.fullmatch(text)
    if match is None or not text.isascii():
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    micros = (fraction or "")[:6].ljust(6, "0")
    clock = f"{hour or '00'}:{minute or '00'}:{second or '00'}.{micros}"
    try:
        parsed = datetime.fromisoformat(f"{year}-{month}-{day}T{clock}{_offset(zone)}")
        return parsed.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None


def names_zone(value: object) -> bool:
    """Whether a time that :func:`parse_time` accepts names its zone. Epoch numbers do."""
    if not isinstance(value, str):
        return True
    match = _ISO.fullmatch(value.strip()) if len(value) <= 64 else None
    return match is None or match[8] is not None


def _offset(zone: str | None) -> str:
    if zone is None or zone.upper() in {"Z", "UTC", "GMT"}:
        return "+00:00"
    digits = zone[1:].replace(":", "").ljust(4, "0")
    return f"{zone[0]}{digits[:2]}:{digits[2:]}"


def _from_epoch(value: float) -> datetime | None:
    # 1e8 is March 1973: smaller numbers are steps, versions or uptimes, not times.
    if not 1e8 <= value < 1e20:
        return None
    for limit, per_second in _EPOCH_UNITS:
        if value < limit:
            return datetime.fromtimestamp(value / per_second, tz=timezone.utc)
    return None


def format_time(when: datetime | None) -> str | None:
    """ISO 8601 in UTC with ``Z``; fractions only where there are any."""
    if when is None:
        return None
    return when.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


def parse_duration(text: str) -> timedelta | None:
    """A duration as people write it, and as :func:`format_duration` does: ``30m``, ``1.5h``, ``1h30m``, ``1d 4h``."""
    match = _DURATION.fullmatch("".join(text[:40].split()))
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def parse_span(text: str, unit_s: float | None = 1.0) -> float | None:
    """A span in seconds: a duration (:func:`parse_duration`), or a bare number of ``unit_s`` seconds.

    Returns None for any other text, and for a bare number if ``unit_s`` is None.
    """
    length = parse_duration(text)
    if length is not None:
        return length.total_seconds()
    if unit_s is None or not _NUMBER.fullmatch(text.strip()):
        return None
    return float(text) * unit_s


def format_minutes(seconds: float) -> str:
    """A limit as people set it: ``10m``, ``0.5m``."""
    return f"{seconds / 60:g}m"


def format_duration(duration: timedelta | float) -> str:
    """A duration in its two largest units: ``45s``, ``3m 10s``, ``2h 05m``, ``3d 4h``."""
    total = duration.total_seconds() if isinstance(duration, timedelta) else duration
    seconds = max(0, int(total))
    if seconds < 60:
        return f"{seconds}s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}m {seconds:02d}s" if seconds else f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h {minutes:02d}m"
    days, hours = divmod(hours, 24)
    return f"{days}d {hours}h"


_MOST_DOUBLINGS: Final = 20


def backoff_s(failures: int, first_s: float, cap_s: float = inf) -> float:
    """The seconds to wait after so many failures in a row: none after no failure, ``first_s`` after one, twice as long
    after each further one, and ``cap_s`` at most."""
    return min(first_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), cap_s) if failures > 0 else 0.0
