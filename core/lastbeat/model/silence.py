"""A silence: for which runs, until when and why there are no alerts."""

import re
from datetime import datetime, timedelta
from fnmatch import fnmatchcase, translate

from lastbeat.model.data import dataclass
from lastbeat.model.pattern import Pattern
from lastbeat.model.persisted import Persisted
from lastbeat.model.runid import check_run_id
from lastbeat.model.text import one_line
from lastbeat.model.times import format_time

SILENCES = "_watchdog/silences.json"
"""Beside the runs: the silences of the fleet."""

WHY_LIMIT = 200
LEAST_S, MOST_S = 60.0, 30 * 86400.0
_CLOCKS = timedelta(seconds=10)
"""How far two watchers may disagree about the store's time: a silence has to hold at once."""
_GLOB = Pattern(r"(?:[A-Za-z0-9._\-+=@:*?]|\[!?[A-Za-z0-9._\-+=@:]+\])+")


class InvalidSilenceError(ValueError):
    """An invalid silence; the message says why."""


@dataclass(frozen=True)
class Silence(Persisted):
    """Transitions of the runs it covers are recorded but raise no alerts."""

    id: str
    runs: str
    """A glob over run ids: ``*``, ``?``, ``[...]``; upper and lower case differ."""
    starts_at: datetime
    until: datetime
    why: str
    """The reason; empty if none was given."""
    by: str
    """Its author: ``user@host``, or the name and the network address of a visitor of the page."""

    def covers(self, run_id: str, now: datetime) -> bool:
        """Whether it applies to this run now, by the store's clock."""
        return self.starts_at - _CLOCKS <= now < self.until and fnmatchcase(run_id, self.runs)

    def is_over(self, now: datetime) -> bool:
        return now >= self.until

    @property
    def summary(self) -> str:
        """Who silenced what and why, in one line, for the record."""
        until = format_time(self.until.replace(microsecond=0))
        which = f"silence {self.id} of {self.runs} until {until}, by {self.by}"
        return f"{self.why} ({which})" if self.why else which

    @property
    def author(self) -> str:
        """Who silenced it, and the reason where one was given: ``ana@desk: node repair``."""
        return f"{self.by}: {self.why}" if self.why else self.by


def check_glob(text: str) -> str:
    """Return ``text`` unchanged, or raise :class:`InvalidSilenceError`: a glob that can match no run is a mistake."""
    shown = repr(text if len(text) <= 60 else text[:60] + "…")
    if not text or len(text) > 200:
        raise InvalidSilenceError(f"the glob of runs {shown} has {len(text)} characters; use for example 'mistral-*'")
    if not _GLOB.fullmatch(text):
        raise InvalidSilenceError(
            f"the glob of runs {shown} can match no run; it is made of A-Z a-z 0-9 . _ - + = @ : and * ? [abc] [!abc]"
        )
    try:
        re.compile(translate(text))
    except re.error as fault:
        raise InvalidSilenceError(f"the glob of runs {shown} is none: {fault}") from None
    if not is_pattern(text) or text.startswith("_"):
        try:
            check_run_id(text)
        except ValueError as fault:
            raise InvalidSilenceError(str(fault)) from None
    return text


def is_pattern(glob: str) -> bool:
    """Whether it may cover more than one run."""
    return any(char in glob for char in "*?[")


def check_why(text: str) -> str:
    """Return ``text`` in one line, empty if it gives no reason, or raise :class:`InvalidSilenceError`."""
    why = one_line(text)
    if len(why) > WHY_LIMIT:
        raise InvalidSilenceError(f"the reason has {len(why)} characters; {WHY_LIMIT} is the most")
    return why
