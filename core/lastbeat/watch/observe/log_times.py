"""Which part of a log was printed before an attempt began, by the times in its lines."""

import re
from datetime import datetime, timedelta

from lastbeat.explain.scanning.prefixes import time_of
from lastbeat.explain.scanning.splitting import line_of

TOLERANCE = timedelta(minutes=2)
"""The clocks of one run differ by less than this; otherwise their times could not be compared at all."""
_ZONES = timedelta(hours=14)
_STEP = timedelta(minutes=30)
"""Nearly all time zones differ by multiples of this."""
_HEAD = 400
_EACH = 64
_NAMES_ZONE = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})? ?(?:Z|UTC\b|[+-]\d\d:?\d\d)"


def last_time(end: bytes, modified: datetime) -> datetime | None:
    """The time in the last line of ``end`` that has one, or None; ``modified`` is when the log was stored."""
    lines = end.decode("utf-8", "replace").splitlines()
    return next((at for line in reversed(lines) if (at := line_of(0, line, modified).time) is not None), None)


def bytes_before(text: bytes, since: datetime, modified: datetime) -> int:
    """How many bytes at the beginning of ``text``, a log stored at ``modified``, were printed before ``since``.

    1. Guess the log's zone: its last line was printed when the log was stored or a little before, so whole half hours
       between the two are the zone. The rest is taken for age: counting too much text beats counting too little.
    2. Look at every 64th line with a time until one is new, then at those in between: times go up, more or less.
    3. Everything before the first new line is old, provided that its lines have times. A log without times may show one
       occasionally, such as a checkpoint's, which proves nothing.
    """
    stamps = _stamps(text)
    shift = _zone(text, stamps, modified)

    def age(index: int) -> str:
        when = time_of(_line(text, stamps[index]), modified)
        return "" if when is None else "new" if when + shift >= since - TOLERANCE else "old"

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
    return end if judged and first * judged.count("old") * 5 >= lines * len(judged) else 0


def _stamps(text: bytes) -> list[int]:
    """The offsets of lines that start with a time."""
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


def _zone(text: bytes, stamps: list[int], modified: datetime) -> timedelta:
    """How far the log's times may lag because of their zone."""
    for begin in reversed(stamps):
        line = _line(text, begin)
        when = time_of(line, modified)
        if when is None:
            continue
        shift = (modified - when) // _STEP * _STEP
        return timedelta(0) if abs(shift) > _ZONES or re.search(_NAMES_ZONE, line) else shift
    return timedelta(0)
