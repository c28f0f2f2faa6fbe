"""When the digest of a fleet is due: once a day, at a time of day in a zone."""

import re
from datetime import datetime, time, timedelta, timezone, tzinfo
from difflib import get_close_matches
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from lastbeat.model.data import dataclass

DIGEST: Final = "_watchdog/digest.json"
"""Beside the runs: the record of the last digest, with its outbox."""
DIGEST_ID: Final = "_digest"
"""In a digest it takes the place of the run id. No run can have it."""
_TIME: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?:\s+(\S+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class DigestTime:
    """A time of day in a zone."""

    at: time
    zone: str = "UTC"

    def due_at(self, now: datetime) -> datetime:
        """The last moment, not after ``now``, at which a digest was due.

        On the day on which clocks skip this time, it is due as long after midnight as on the day before; where they
        show it twice, the first time counts.
        """
        zone = time_zone(self.zone)
        today = now.astimezone(zone).date()
        due, before = (
            datetime.combine(day, self.at, zone).astimezone(timezone.utc) for day in (today, today - timedelta(days=1))
        )
        return due if due <= now else before

    def is_due(self, last: datetime, now: datetime) -> bool:
        """Whether a digest is due, after the one that was due at ``last``: at most one a day, even if the time changes
        between the two."""
        due, zone = self.due_at(now), time_zone(self.zone)
        return due > last and due.astimezone(zone).date() > last.astimezone(zone).date()


def read_time(text: str) -> DigestTime:
    """``08:00 Europe/Zurich``. Raises ``ValueError`` with the end of a sentence."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError("is no time of day with a zone")
    zone = match[3] or "UTC"
    try:
        time_zone(zone)
    except ValueError as why:
        raise ValueError(f"names no zone: {why}") from None
    return DigestTime(time(int(match[1]), int(match[2])), zone)


def time_zone(name: str) -> tzinfo:
    """The zone of this name. Raises ``ValueError`` with what to do."""
    if name == "UTC":
        return timezone.utc
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:  # ZoneInfoNotFoundError is a KeyError.
        near = get_close_matches(name[:60], sorted(available_timezones()), 1)
        hint = f"the nearest is {near[0]}" if near else "UTC is always known, and others come with 'pip install tzdata'"
        raise ValueError(f"no time zone is called {name[:60]!r} on this machine ({hint})") from error
