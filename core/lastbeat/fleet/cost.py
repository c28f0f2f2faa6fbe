"""Requests in a month and their price: measured for watching, computed for heartbeats and polling. Pure.

Prices are those of S3, approximate: they compare two plans, and show an order of magnitude. Traffic within a region is
free; storage is not counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lastbeat.fleet.mark import PassMark
from lastbeat.stores.kind import S3_LIST

MONTH_S: Final = 30 * 86400.0
"""Length of a month in s, for all monthly figures."""
POLL_S = 60.0
"""Time in s between two polls of a polling script. Each poll makes two HEAD and two GET requests."""
MARK_READ_BEATS = 10
"""Training reads the mark once in this many beats."""


@dataclass(frozen=True, slots=True)
class Bill:
    """Requests in a month, by kind."""

    requests: Mapping[str, float]

    @property
    def count(self) -> float:
        return sum(self.requests.values())

    @property
    def dollars(self) -> float:
        return S3_LIST.dollars(self.requests)

    def times(self, factor: float) -> "Bill":
        """``factor`` times as many requests."""
        return Bill({kind: count * factor for kind, count in self.requests.items()})


@dataclass(frozen=True, slots=True)
class MonthEstimate:
    """A month of passes like the last ones."""

    fleet: Bill | None
    """None if passes covered shards, since the mark does not say how many there are."""
    run: Bill | None
    """The share of one active run; None if none was active."""
    passes: int
    """Number of measured passes."""
    active: float
    """Runs that were running, on average."""
    runs: float
    """All runs, on average."""


def watching(mark: PassMark) -> MonthEstimate | None:
    """The estimate from the passes that ``mark`` describes; None if there are none."""
    recent = mark.recent
    if not recent:
        return None
    kinds = dict.fromkeys(kind for short in recent for kind in short.requests)
    asked = Bill({kind: sum(short.requests.get(kind, 0) for short in recent) for kind in kinds})
    active, each = sum(short.active for short in recent), MONTH_S / mark.interval_s
    return MonthEstimate(
        fleet=None if any(short.part for short in recent) else asked.times(each / len(recent)),
        # Also for shards: each asks in proportion to its runs.
        run=asked.times(each / active) if active else None,
        passes=len(recent),
        active=active / len(recent),
        runs=sum(short.runs for short in recent) / len(recent),
    )


def beating(beat_s: float) -> Bill:
    """Requests of a run's heartbeats: metadata.json and progress.json with each beat, and the mark now and then."""
    beats = MONTH_S / beat_s
    return Bill({"PUT": 2 * beats, "GET": beats / MARK_READ_BEATS})


def writing(every_s: float) -> Bill:
    """Requests of one more document, written every ``every_s`` seconds."""
    return Bill({"PUT": MONTH_S / every_s})


def polling() -> Bill:
    """Requests of a script that polls one run."""
    polls = MONTH_S / POLL_S
    return Bill({"HEAD": 2 * polls, "GET": 2 * polls})
