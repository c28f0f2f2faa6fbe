"""The mark that passes leave beside the runs: that somebody watches, and what it costs.

Whoever trains reads it to warn of a watchdog that has stopped, people who look are told so, too, and ``lastbeat cost``
tells from it what watching costs. Nothing rests on it: a mark that is lost, damaged or overwritten by another watcher's
costs a few figures.

Where a write costs money it would cost as much as a listing, so not every pass leaves one: a process does so with its
first pass, and then as often as the mark itself says (``interval_s``, by which every reader, of earlier versions too,
tells that marks have stopped to come). It tells of all the passes since; how often those are made is ``pass_s``.
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
from lastbeat.model.policy import FleetPolicy
from lastbeat.model.status import Status
from lastbeat.model.times import format_time, parse_time
from lastbeat.model.version import __version__
from lastbeat.stores.limited import TimelyStore
from lastbeat.stores.port import Store, StoreError

LIMIT_BYTES: Final = 16 * 1024
"""The most that anybody reads of a mark; what is written stays at about half of it."""
RECENT: Final = 60
"""Passes that a mark remembers in short: at one a minute, an hour, in which all that is done now and then was done."""
EVERY_S: Final = 1200.0
"""Where it costs money a mark is left this often: a third of what :data:`LATE` makes of it, an hour."""
LATE: Final = 3
"""Marks that have not come for so many of their intervals have stopped."""
_KINDS: Final = ("LIST", "GET", "PUT", "DELETE")
_MOST = 10**9
"""No count of one pass is larger."""


@dataclass(frozen=True, slots=True)
class ShortPass:
    """What is remembered of one pass."""

    at: datetime
    requests: Mapping[str, int]
    active: int
    """Runs that were running: those that watching is for."""
    runs: int
    """With those that have ended."""
    part: bool = False
    """Whether it was over a shard of the fleet: then so are its figures."""


@dataclass(frozen=True, slots=True)
class PassMark:
    """A mark that was read."""

    at: datetime
    """When the pass was made that left it."""
    every_s: float
    """Time between two marks."""
    interval_s: float
    """Time between two passes."""
    recent: tuple[ShortPass, ...]
    """Oldest first."""

    @property
    def late_s(self) -> float:
        """How old a mark is when marks have stopped to come."""
        return LATE * self.every_s


class MarkWriter:
    """Writes the marks of the passes of one process, which remembers the last passes and so reads them only once."""

    def __init__(self, store: Store, fleet: FleetPolicy, shard: Shard | None = None) -> None:
        self._store = TimelyStore(store)
        self._prices = store.traits.prices
        self._interval_s = fleet.interval_s
        self._every_s = max(fleet.interval_s, EVERY_S) if not self._prices.free else fleet.interval_s
        self._shard = shard or Shard()
        self._left_at: datetime | None = None
        """Of the last pass of this process that left one."""
        self._recent: deque[ShortPass] | None = None

    def write(self, report: PassReport, until: float = float("inf")) -> PassReport:
        """Remember a pass that could see, and write its mark where one is due. Its report, with what that cost, and why
        there is none. Waits for the store until ``until``, a time of ``time.monotonic()``."""
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
            note = f"The mark of this pass could not be written, so that trainings may think nobody watches: {error}"
            return replace(report, notes=(*report.notes, note))
        self._left_at = report.at
        return report

    def _due(self, at: datetime) -> bool:
        if self._prices.free or self._left_at is None:
            return True
        # Half an interval early is better than nearly a whole one late.
        return abs((at - self._left_at).total_seconds()) >= self._every_s - self._interval_s / 2

    def amend(self, report: PassReport, until: float = float("inf")) -> PassReport:
        """What the last pass asked after its mark. Where it left one and that was much, it is written again, for this
        process may make no other pass; else the next one tells it. The report, with what this cost."""
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
            with suppress(StoreError):  # A mark there is, and a few figures are told by the next.
                self._store.write(runid.SWEEP_MARK, json.dumps(self._document(report, self._recent)).encode())
        return report

    def _remembered(self) -> tuple[ShortPass, ...]:
        """What an earlier process left; nothing where passes were made at another pace."""
        try:
            found = read_mark(self._store)
        except StoreError:
            return ()  # A few figures; whether the store answers is found out, and told, by everything else.
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
    """The mark of the last pass; None where there is none that can be read. Raises :class:`StoreError`."""
    blob = store.read(runid.SWEEP_MARK, LIMIT_BYTES)
    return parse_mark(blob.body) if blob is not None else None


def parse_mark(body: bytes) -> PassMark | None:
    """Read a mark, which anybody may have written; None where it is none."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    at, every_s, listed = parse_time(document.get("at")), _time_s(document.get("interval_s")), document.get("recent")
    if at is None or every_s is None:
        return None
    recent = map(_short, listed[-RECENT:]) if isinstance(listed, list) else ()
    # Earlier versions left one with each pass.
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
    """What cannot be a count is none."""
    return min(max(value, 0), _MOST) if isinstance(value, int) and not isinstance(value, bool) else 0


def _active(report: PassReport) -> int:
    return report.statuses.get(Status.RUNNING.value, 0) + report.statuses.get("RUNNING (WARNING)", 0)


def _runs(report: PassReport) -> int:
    return sum(report.statuses.values()) + report.finished


def _sum(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    kinds = dict.fromkeys((*_KINDS, *first, *second))
    return {kind: first.get(kind, 0) + second.get(kind, 0) for kind in kinds}
