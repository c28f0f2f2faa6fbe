"""Which part of a log was printed before an attempt began, by the times that its lines name."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta

TOLERANCE = timedelta(minutes=2)
"""Clocks of one run differ by less, or the log's times could not be compared at all."""
_ZONES = timedelta(hours=14)
_STEP = timedelta(minutes=30)
"""Zones differ by multiples of this, but for very few."""
_HEAD = 400
_EACH = 64
_NAMES_ZONE = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})? ?(?:Z|UTC\b|[+-]\d\d:?\d\d)"


def earlier(text: bytes, since: datetime, modified: datetime) -> int:
    """How many bytes at the beginning of ``text``, a log that was stored at ``modified``, were printed before
    ``since``: everything up to the first line whose own time is not older, if there are any that are.

    A time that names no zone may be local time. The last line of a log was printed when it was stored or before, and
    what is left of the difference without full half hours is taken for its age: too much text counts rather than too
    little.
    """
    # Loaded with the rest of what reads logs, and not before there is a log.
    from lastbeat.scanning.prefixes import time_of  # noqa: PLC0415

    stamps = _stamps(text)
    shift = _zone(text, stamps, modified, time_of)

    def age(index: int) -> str:
        when = time_of(_line(text, stamps[index]), modified)
        return "" if when is None else "new" if when + shift >= since - TOLERANCE else "old"

    # Every so many lines, and then those in between one by one: times go up, more or less.
    ages: dict[int, str] = {}
    last = 0
    for last in range(0, len(stamps), _EACH):
        ages[last] = age(last)
        if ages[last] == "new":
            break
    group = range(max(0, last - _EACH), last) if ages.get(last) == "new" else range(last, len(stamps))
    for index in group:
        ages[index] = age(index)
        if ages[index] == "new":
            break
    first = min((index for index, found in ages.items() if found == "new"), default=len(stamps))
    end = stamps[first] if first < len(stamps) else len(text)
    judged = [found for index, found in ages.items() if index < first]
    lines = text.count(b"\n", 0, end) + (not text.endswith(b"\n", 0, end))
    # A log without times may name one now and then: that of its checkpoint, say.
    return end if judged and first * judged.count("old") * 5 >= lines * len(judged) else 0


def _stamps(text: bytes) -> list[int]:
    """Where the lines begin that have a time near their beginning."""
    found: list[int] = []
    at = 0
    for clock in re.finditer(rb":[0-5]\d:[0-5]\d", text):
        if clock.start() < at:
            continue
        begin = text.rfind(b"\n", max(0, clock.start() - _HEAD), clock.start()) + 1
        if begin or clock.start() < _HEAD:
            found.append(begin)
        at = text.find(b"\n", clock.end())
        if at < 0:
            break
    return found


def _line(text: bytes, begin: int) -> str:
    return text[begin : begin + _HEAD].partition(b"\n")[0].decode("utf-8", "replace")


def _zone(
    text: bytes, stamps: list[int], modified: datetime, time_of: Callable[[str, datetime], datetime | None]
) -> timedelta:
    """By how much the log's times are behind because they are another zone's, perhaps."""
    for begin in reversed(stamps):
        line = _line(text, begin)
        when = time_of(line, modified)
        if when is None:
            continue
        shift = (modified - when) // _STEP * _STEP
        return timedelta(0) if abs(shift) > _ZONES or re.search(_NAMES_ZONE, line) else shift
    return timedelta(0)
