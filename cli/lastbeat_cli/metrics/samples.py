"""What a pass, or a look of the dashboard, knows → samples of metrics. Pure: asks nobody, and knows no Prometheus.

What is not known has no sample: a zero would say that somebody looked and found none.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from lastbeat.model.fleet import FIGURES_LIMIT, PassReport, RunFigures, RunLine
from lastbeat.model.status import Status
from lastbeat.model.version import __version__
from lastbeat.model.view import FleetView, Row
from lastbeat.stores import registry
from lastbeat.stores.counting import KINDS
from lastbeat.stores.kind import Charge, Prices
from lastbeat.views.heartbeats import shown
from lastbeat_cli.metrics import table
from lastbeat_cli.metrics.table import Metric

_LABEL_LIMIT: Final = 200
"""Characters; a run id has no more."""
_CONDITIONS_LIMIT: Final = 20
WARNING: Final = "WARNING"
"""RUNNING with conditions, as ``--status`` calls it."""
OTHER: Final = "OTHER"
"""A status that a newer lastbeat gave."""
STATUSES: Final = (*(status.value for status in Status), WARNING, OTHER)
_AFTER: Final = (*(status.value for status in Status if status is not Status.UNKNOWN), OTHER)
"""What a run may change to."""
_BEATS: Final = frozenset({Status.RUNNING, Status.TIMED_OUT})
_ENDS: Final = ("complete", "partial", "blind")
Mask = Callable[[str], str]


class Sample(NamedTuple):
    """One value of one metric; ``labels`` are in the metric's order, without that of the fleet."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True, slots=True)
class OneRun:
    """One run, whoever tells of it."""

    line: RunLine
    beat_age_s: float | None = None
    step: int | None = None
    total_steps: int | None = None
    loss: float | None = None
    step_at: datetime | None = None
    pending: int = 0


class PassMetrics:
    """What the passes of one process come to. :meth:`add` and :meth:`samples` may be called from any threads."""

    def __init__(self, url: str, interval_s: float, mask: Mask = str) -> None:
        self._prices = registry.prices(url)
        self._interval_s = interval_s
        self._mask = mask
        self._lock = threading.Lock()
        self._totals: Counter[tuple[Metric, tuple[str, ...]]] = Counter()
        self._last: PassReport | None = None
        self._seen: PassReport | None = None

    def add(self, report: PassReport) -> None:
        """One pass more."""
        counted = dict(_counted(report, self._prices))
        with self._lock:
            for key, value in counted.items():
                self._totals[key] += value  # type: ignore[assignment]  # dollars have fractions
            self._last = report
            if report.blind is None:
                self._seen = report

    def samples(self) -> tuple[Sample, ...]:
        """As of the last pass. What a blind one could not see stands as it was last seen."""
        with self._lock:
            last, seen, totals = self._last, self._seen, dict(self._totals)
        found = [Sample(table.BUILD_INFO, (__version__,), 1.0), Sample(table.INTERVAL, (), self._interval_s)]
        if last is not None:
            found += [
                Sample(table.UP, (), float(last.blind is None)),
                Sample(table.DURATION, (), last.seconds),
                *(Sample(metric, labels, float(value)) for (metric, labels), value in totals.items()),
            ]
        if seen is not None:
            found += _of_fleet(seen, self._mask)
        return tuple(found)


def _counted(report: PassReport, prices: Prices) -> Iterator[tuple[tuple[Metric, tuple[str, ...]], float]]:
    """What one pass adds to each counter. One that counted nothing yet is there from the first pass on."""
    how = "blind" if report.blind is not None else "complete" if report.complete else "partial"
    yield from (((table.PASSES, (end,)), float(end == how)) for end in _ENDS)
    yield (table.DELIVERIES, ("sent",)), report.sent
    yield (table.DELIVERIES, ("failed",)), report.failed
    changed = Counter(_known(transition.after) for _, transition in report.transitions)
    yield from (((table.TRANSITIONS, (status,)), changed[status]) for status in _AFTER)
    yield from _asked(report.requests, prices)


def _asked(requests: Mapping[str, int], prices: Prices) -> Iterator[tuple[tuple[Metric, tuple[str, ...]], float]]:
    yield from (((table.REQUESTS, (kind,)), requests.get(kind, 0)) for kind in KINDS)
    if prices.charge is Charge.LISTED:
        yield (table.COST, ()), prices.dollars(requests)


def _of_fleet(report: PassReport, mask: Mask) -> Iterator[Sample]:
    counts: Counter[str] = Counter()
    for status, count in report.statuses.items():
        counts[WARNING if status == f"{Status.RUNNING} ({WARNING})" else _known(Status(status))] += count
    # Some of them no pass has ever seen: those are in no status.
    strangers = max(0, report.unreadable_count - counts[Status.UNKNOWN.value])
    counts[Status.UNKNOWN.value] += strangers
    yield Sample(table.SEEN, (), report.at.timestamp())
    yield from (Sample(table.RUNS, (status,), counts[status]) for status in STATUSES)
    yield Sample(table.OLDER, (), report.finished)
    yield Sample(table.PENDING, (), report.pending)
    yield Sample(table.OLDEST, (), report.oldest_observation_s)
    yield from _of_runs(map(_of_figures, report.figures), counts.total(), mask)


def of_view(view: FleetView, requests: Mapping[str, int], mask: Mask = str) -> tuple[Sample, ...]:
    """What the dashboard's looks know, and what they have asked of the store until now."""
    found = [Sample(table.BUILD_INFO, (__version__,), 1.0)]
    found += [Sample(*key, value) for key, value in _asked(requests, registry.prices(view.root))]
    if view.fault is not None or view.at is not None:
        found.append(Sample(table.UP, (), float(view.fault is None)))
    if view.at is not None:
        found += _of_looks(view, view.at, mask)
    return tuple(found)


def _of_looks(view: FleetView, at: datetime, mask: Mask) -> Iterator[Sample]:
    rows = [row for row in view.rows if row.status is not Status.UNKNOWN or row.complete or row.fault is not None]
    counts = Counter(_word(row.status, row.conditions) for row in rows)
    yield Sample(table.SEEN, (), at.timestamp())
    yield from (Sample(table.RUNS, (status,), counts[status]) for status in STATUSES)
    yield Sample(table.OLDER, (), view.older)
    yield Sample(table.PENDING, (), sum(row.pending for row in rows))
    if view.watching.known:
        watched = view.watching.last_pass_at is not None and not view.watching.overdue
        yield Sample(table.WATCHED, (), float(watched))
    yield from _of_runs((_of_row(row, at) for row in rows[:FIGURES_LIMIT]), len(view.rows), mask)


def _of_figures(run: RunFigures) -> OneRun:
    return OneRun(run.line, run.beat_age_s, run.step, run.total_steps, run.loss, run.step_at, run.pending)


def _of_row(row: Row, at: datetime) -> OneRun:
    line = RunLine(row.run_id, row.status, row.reason, row.cause, None, row.conditions, row.since, row.attempt)
    # Of what could not be read nobody knows whether it has beaten since.
    known = row.beat_at is not None and row.fault is None
    age_s = max(0.0, (at - row.beat_at).total_seconds()) if known and row.beat_at is not None else None
    return OneRun(line, age_s, row.step, row.total_steps, row.loss, None, row.pending)


def _of_runs(runs: Iterable[OneRun], of: int, mask: Mask) -> Iterator[Sample]:
    """The metrics of single runs, ``of`` so many. Two that masking makes one would cost the whole scrape: the first
    stands, the other counts as left out."""
    names: set[str] = set()
    for run in runs:
        name = _label(run.line.run_id, mask)
        if name not in names:
            names.add(name)
            yield from _of_run(run, name, mask)
    yield Sample(table.LEFT_OUT, (), max(0, of - len(names)))


def _of_run(run: OneRun, name: str, mask: Mask) -> Iterator[Sample]:
    line = run.line
    cause = "" if line.cause is None else _label(line.cause, mask)
    yield Sample(table.STATUS, (name, _word(line.status, line.conditions), cause), 1.0)
    for condition in dict.fromkeys(_label(each, mask) for each in line.conditions[:_CONDITIONS_LIMIT]):
        yield Sample(table.CONDITION, (name, condition), 1.0)
    numbers: dict[Metric, float | None] = {
        table.SINCE: None if line.since is None else line.since.timestamp(),
        table.ATTEMPT: line.attempt,
        table.BEAT_AGE: run.beat_age_s if line.status in _BEATS else None,
        table.STEP: run.step,
        table.TOTAL_STEPS: run.total_steps,
        table.STEP_AT: None if run.step_at is None else run.step_at.timestamp(),
        table.LOSS: run.loss,
        table.RUN_PENDING: run.pending,
    }
    for metric, value in numbers.items():
        told = _float(value)
        if told is not None:
            yield Sample(metric, (name,), told)


def _word(status: Status, conditions: tuple[str, ...]) -> str:
    return WARNING if status is Status.RUNNING and conditions else _known(status)


def _known(status: Status) -> str:
    return OTHER if status.is_foreign else status.value


def _float(value: float | None) -> float | None:
    try:
        return None if value is None else float(value)
    except OverflowError:
        return None  # A whole number that no float can hold is no step.


def _label(text: str, mask: Mask) -> str:
    return shown(text, mask, _LABEL_LIMIT)
