"""Limits of a fleet: how long its runs may be silent, stand still or take to begin, by globs over their ids.

Each limit is found by itself: of the entries that cover a run and name that limit, the most specific one holds. That is
the run's own id, then the glob with the most characters that stand for themselves, then the one with the fewest ``*``.
"""

import re
import zlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import ClassVar, Final

from lastbeat.model.data import dataclass
from lastbeat.model.persisted import Form, Persisted
from lastbeat.model.silence import is_pattern

LIMITS: Final = "_watchdog/limits.json"
"""Beside the runs: the limits of the fleet."""
EVERY_RUN: Final = "*"
LEARNED: Final = "learned"
FIXED: Final = "fixed"
MOST_MINUTES: Final = 30 * 24 * 60.0
"""Nobody means a longer one."""
MEND: Final = "see what is wrong with it: lastbeat limits; until it can be read, no limit makes a run TIMED_OUT here"


@dataclass(frozen=True)
class LimitEntry(Persisted):
    """Limits of the runs that a glob covers, as they are kept. What is None is not said here."""

    FORM: ClassVar = Form.SPARSE

    runs: str
    """A glob over run ids: ``*``, ``?``, ``[...]``; upper and lower case differ."""
    stale_minutes: float | None = None
    """Silence for longer than this is TIMED_OUT."""
    stale: str | None = None
    """``learned``: sooner, if the run's own beats show that it is; ``fixed``: not so."""
    stall_minutes: float | None = None
    """No new step for this long raises ``stalled``, for twice as long is TIMED_OUT. 0: that is not watched."""
    start_minutes: float | None = None
    """How long a run may take to its first heartbeat."""
    by: str = ""
    """Who set it, as ``user@host``."""
    at: datetime | None = None
    """When it was last set."""

    @property
    def says_nothing(self) -> bool:
        """Whether it names no limit, not even one that this version does not know."""
        known = (self.stale_minutes, self.stale, self.stall_minutes, self.start_minutes)
        return all(each is None for each in known) and not self.unknown


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The fleet's limits for one run: seconds, and the glob that sets them. None where the fleet sets none."""

    stale: tuple[float, str] | None = None
    stall: tuple[float, str] | None = None
    """0: not watched."""
    start: tuple[float, str] | None = None
    learned: tuple[bool, str] | None = None

    @property
    def token(self) -> int:
        """Tells whether something else holds now than before; 0: the fleet's limits say nothing of the run."""
        told = (self.stale, self.stall, self.start, self.learned)
        return 0 if not any(told) else zlib.crc32(repr([each and each[0] for each in told]).encode()) or 1


NO_LIMITS: Final = RunLimits()


def by_specificity(entries: Iterable[LimitEntry]) -> tuple[LimitEntry, ...]:
    """The most specific first."""
    return tuple(sorted(entries, key=lambda entry: _order(entry.runs)))


def _order(glob: str) -> tuple[bool, int, int, str]:
    plain = re.sub(r"\[!?[^\]]*\]|[*?]", "", glob)
    return is_pattern(glob), -len(plain), glob.count("*"), glob


def limits_of(run_id: str, entries: Sequence[LimitEntry]) -> RunLimits:
    """What holds for the run; ``entries`` are in the order of :func:`by_specificity`."""
    covering = [entry for entry in entries if fnmatchcase(run_id, entry.runs)]
    if not covering:
        return NO_LIMITS
    stale = next(((e.stale_minutes * 60, e.runs) for e in covering if e.stale_minutes is not None), None)
    stall = next(((e.stall_minutes * 60, e.runs) for e in covering if e.stall_minutes is not None), None)
    start = next(((e.start_minutes * 60, e.runs) for e in covering if e.start_minutes is not None), None)
    # With any other word, a misspelt one perhaps, the fixed limit holds.
    learned = next(((e.stale == LEARNED, e.runs) for e in covering if e.stale is not None), None)
    return RunLimits(stale, stall, start, learned)
