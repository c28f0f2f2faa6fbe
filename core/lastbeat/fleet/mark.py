"""The mark that passes leave beside the runs: it shows that a watchdog is active, and the cost of watching.

Training reads it to warn when the watchdog has stopped, the views show that too, and ``lastbeat cost`` derives a
month's costs from it. No decision depends on it: a mark that is lost, damaged or overwritten costs a few figures.

If requests cost money, a write costs as much as a listing, so not every pass leaves a mark. A process leaves one with
its first pass, and then every ``interval_s``. The mark contains that interval, from which readers see that marks have
stopped. It describes all passes since the last mark; ``pass_s`` is the time between two passes.
"""

import json
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from lastbeat.model import runid
from lastbeat.model.fleet import PassReport, Shard
from lastbeat.model.json_values import json_object
from lastbeat.model.policy import FleetPolicy
from lastbeat.model.status import Status
from lastbeat.model.times import format_time, parse_time
from lastbeat.model.version import __version__
from lastbeat.stores.limited import TimelyStore
from lastbeat.stores.port import Store, StoreError

LIMIT_BYTES: Final = 16 * 1024
"""Most bytes of a mark that readers read; a written mark takes about half of them."""
RECENT: Final = 60
"""Number of passes that a mark describes in short. That is an hour, which includes all occasional work."""
EVERY_S: Final = 1200.0
"""Time in s between marks if requests cost money; marks are :data:`LATE` after an hour."""
LATE: Final = 3
"""Marks have stopped if none came for this many of their intervals."""
_KINDS: Final = ("LIST", "GET", "PUT", "DELETE")
_MOST = 10**9
"""Upper bound of any count of one pass."""


@dataclass(frozen=True, slots=True)
class ShortPass:
    """One pass, in short."""

    at: datetime
    requests: Mapping[str, int]
    active: int
    """Number of runs that were running."""
    runs: int
    """Number of all runs, including ended ones."""
    part: bool = False
    """Whether the pass, and so its figures, covered only a shard of the fleet."""


@dataclass(frozen=True, slots=True)
class PassMark:
    """A mark that was read."""

    at: datetime
    """Start of the pass that left the mark."""
    every_s: float
    """Time in s between two marks."""
    interval_s: float
    """Time in s between two passes."""
    recent: tuple[ShortPass, ...]
    """The latest passes, oldest first."""

    @property
    def late_s(self) -> float:
        """Age in s of a mark from which marks have stopped."""
        return LATE * self.every_s


class MarkWriter:
    """Writes the marks of one process. Remembers the last passes, and reads those of the previous process once."""

    def __init__(self, store: Store, fleet: FleetPolicy, shard: Shard | None = None) -> None:
        self._store = TimelyStore(store)
        self._prices = store.traits.prices
        self._interval_s = fleet.interval_s
        self._every_s = max(fleet.interval_s, EVERY_S) if not self._prices.free else fleet.interval_s
        self._shard = shard or Shard()
        self._left_at: datetime | None = None
        """The time of this process's last pass that left a mark."""
        self._recent: deque[ShortPass] | None = None

    def write(self, report: PassReport, until: float = float("inf")) -> PassReport:
        """Remember a pass that saw the store, and write a mark if one is due. Returns the report with the requests of
        this call, and a note if the mark could not be written. Ends by ``until``, a time of ``time.monotonic()``."""
        self._store.until = until
        due = self._due(report.at)
        own = {"PUT": 1} if due else {}
        if self._recent is None:
            own["GET"] = 1
            self._recent = deque(self._remembered(), maxlen=RECENT)
        report = replace(report, requests=_sum(report.requests, own))
        whole = self._shard == Shard()
        self._recent.append(ShortPass(report.at, report.requests, _active(report), _runs(report), part=not whole))
        if not due:
            return report
        try:
            self._store.write(runid.SWEEP_MARK, json.dumps(self._document(report, self._recent)).encode())
        except StoreError as error:
            note = f"The mark of this pass could not be written, so jobs may report that they are not watched: {error}"
            return replace(report, notes=(*report.notes, note))
        self._left_at = report.at
        return report

    def _due(self, at: datetime) -> bool:
        if self._prices.free or self._left_at is None:
            return True
        # Passes are not punctual: half an interval early is better than nearly a whole one late.
        return abs((at - self._left_at).total_seconds()) >= self._every_s - self._interval_s / 2

    def amend(self, report: PassReport, until: float = float("inf")) -> PassReport:
        """Count the requests of the last pass after its mark, for the next mark. If they cost more than two writes and
        the pass left a mark, write it again, because this process may make no other pass. Returns the report with that
        write."""
        if not self._recent:
            return report
        self._store.until = until
        own = {"PUT": 1}
        dollars = self._prices.dollars
        much = dollars(report.requests) - dollars(self._recent[-1].requests) > 2 * dollars(own)
        at_once = much and self._left_at == report.at and time.monotonic() < until
        if at_once:
            report = replace(report, requests=_sum(report.requests, own))
        self._recent[-1] = replace(self._recent[-1], requests=report.requests)
        if at_once:
            with suppress(StoreError):  # There is a mark already, and the next one has these figures too.
                self._store.write(runid.SWEEP_MARK, json.dumps(self._document(report, self._recent)).encode())
        return report

    def _remembered(self) -> tuple[ShortPass, ...]:
        """The passes of an earlier process, if it had the same interval."""
        try:
            found = read_mark(self._store)
        except StoreError:
            return ()  # Only a few figures are lost. The pass itself reports a store that does not answer.
        return found.recent if found is not None and found.interval_s == self._interval_s else ()

    def _document(self, report: PassReport, recent: "deque[ShortPass]") -> dict[str, object]:
        return {
            "at": format_time(report.at),
            "interval_s": self._every_s,
            "pass_s": self._interval_s,
            "seconds": round(report.seconds, 3),
            "runs": _runs(report),
            "statuses": dict(report.statuses),
            "requests": dict(report.requests),
            "dollars": round(self._prices.dollars(report.requests), 9),
            "plan": report.plan,
            "complete": report.complete,
            "oldest_observation_s": round(report.oldest_observation_s, 1),
            "unreadable": report.unreadable_count,
            "alerts": {"sent": report.sent, "failed": report.failed, "pending": report.pending},
            "version": __version__,
            "shard": {"after": self._shard.after, "until": self._shard.until},
            "recent": [
                {
                    "at": format_time(each.at.replace(microsecond=0)),
                    "requests": [min(each.requests.get(kind, 0), _MOST) for kind in _KINDS],
                    "active": each.active,
                    "runs": each.runs,
                    "part": each.part,
                }
                for each in recent
            ],
        }


def read_mark(store: Store) -> PassMark | None:
    """The last mark; None if there is none that can be read. Raises :class:`StoreError`."""
    blob = store.read(runid.SWEEP_MARK, LIMIT_BYTES)
    return parse_mark(blob.body) if blob is not None else None


def parse_mark(body: bytes) -> PassMark | None:
    """The mark in ``body``, which any program may have written; None if it is not a mark."""
    document = json_object(body) or {}
    at, every_s, listed = parse_time(document.get("at")), _time_s(document.get("interval_s")), document.get("recent")
    if at is None or every_s is None:
        return None
    recent = map(_short, listed[-RECENT:]) if isinstance(listed, list) else ()
    # Without ``pass_s``, each pass left a mark.
    interval_s = _time_s(document.get("pass_s")) or every_s
    return PassMark(at, every_s, interval_s, tuple(each for each in recent if each is not None))


def _time_s(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e7:
        return None
    return float(value)


def _short(value: object) -> ShortPass | None:
    if not isinstance(value, dict):
        return None
    at, counts = parse_time(value.get("at")), value.get("requests")
    if at is None or not isinstance(counts, list) or len(counts) != len(_KINDS):
        return None
    active, runs = value.get("active"), value.get("runs")
    requests = {kind: _count(count) for kind, count in zip(_KINDS, counts, strict=True)}
    return ShortPass(at, requests, _count(active), _count(runs), part=value.get("part") is True)


def _count(value: object) -> int:
    """``value`` as a count; 0 if it cannot be one."""
    return min(max(value, 0), _MOST) if isinstance(value, int) and not isinstance(value, bool) else 0


def _active(report: PassReport) -> int:
    return report.statuses.get(Status.RUNNING.value, 0) + report.statuses.get("RUNNING (WARNING)", 0)


def _runs(report: PassReport) -> int:
    return sum(report.statuses.values()) + report.finished


def _sum(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    kinds = dict.fromkeys((*_KINDS, *first, *second))
    return {kind: first.get(kind, 0) + second.get(kind, 0) for kind in kinds}
