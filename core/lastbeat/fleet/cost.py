"""What a month costs in requests: watching as it was measured, beating and polling as they are made. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from lastbeat.fleet.mark import PassMark
from lastbeat.fleet.prices import MONTH_S, dollars

POLL_S = 60.0
"""A script that polls a run asks this often, and at each time for two heads and two documents."""
MARK_READ_BEATS = 10
"""A training looks in so many beats once whether anybody watches."""


@dataclass(frozen=True, slots=True)
class Bill:
    """Requests of a month, by kind."""

    requests: Mapping[str, float]

    @property
    def count(self) -> float:
        return sum(self.requests.values())

    @property
    def dollars(self) -> float:
        return dollars(self.requests)

    def times(self, factor: float) -> "Bill":
        """So many of it."""
        return Bill({kind: count * factor for kind, count in self.requests.items()})


@dataclass(frozen=True, slots=True)
class MonthEstimate:
    """What the last passes tell of a month of passes like them."""

    fleet: Bill | None
    """None where passes were over parts of the fleet, of which nobody can say how many there are in a month."""
    run: Bill | None
    """What falls to one active run; None where none was active."""
    passes: int
    """Measured ones."""
    active: float
    """Runs that were running, on average."""
    runs: float
    """All of them, on average."""


def watching(mark: PassMark) -> MonthEstimate | None:
    """From the passes that ``mark`` remembers; None where it remembers none."""
    recent = mark.recent
    if not recent:
        return None
    kinds = dict.fromkeys(kind for short in recent for kind in short.requests)
    asked = Bill({kind: sum(short.requests.get(kind, 0) for short in recent) for kind in kinds})
    active, each = sum(short.active for short in recent), MONTH_S / mark.interval_s
    return MonthEstimate(
        fleet=None if any(short.part for short in recent) else asked.times(each / len(recent)),
        # Of passes over parts, too: each asks in proportion to the runs that it sees.
        run=asked.times(each / active) if active else None,
        passes=len(recent),
        active=active / len(recent),
        runs=sum(short.runs for short in recent) / len(recent),
    )


def beating(beat_s: float) -> Bill:
    """metadata.json with each beat, progress.json with each, since steps advance between any two of them, and now and
    then a look at the mark of the last pass."""
    beats = MONTH_S / beat_s
    return Bill({"PUT": 2 * beats, "GET": beats / MARK_READ_BEATS})


def writing(every_s: float) -> Bill:
    """One document more, written every so often."""
    return Bill({"PUT": MONTH_S / every_s})


def polling() -> Bill:
    """One run asked in the way of a script."""
    polls = MONTH_S / POLL_S
    return Bill({"HEAD": 2 * polls, "GET": 2 * polls})
