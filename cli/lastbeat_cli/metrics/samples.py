"""The report of a pass, or the dashboard's view → samples of metrics. Pure, and independent of Prometheus.

An unknown value has no sample: a zero would be a claim.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from lastbeat.model.fleet import FIGURES_LIMIT, PassReport, RunFigures, RunLine
from lastbeat.model.status import Status
from lastbeat.model.version import __version__
from lastbeat.model.view import FleetView, Row
from lastbeat.stores import registry
from lastbeat.stores.counting import KINDS
from lastbeat.stores.kind import Charge, Prices
from lastbeat.views.safe import shown
from lastbeat_cli.metrics import table
from lastbeat_cli.metrics.table import Metric

_LABEL_LIMIT: Final = 200
"""Longest label, in characters. No run id is longer."""
_CONDITIONS_LIMIT: Final = 20
"""Most conditions of one run."""
WARNING: Final = "WARNING"
"""RUNNING with conditions, as in ``--status``."""
OTHER: Final = "OTHER"
"""Any status that a newer lastbeat wrote."""
STATUSES: Final = (*(status.value for status in Status), WARNING, OTHER)
_AFTER: Final = (*(status.value for status in Status if status is not Status.UNKNOWN), OTHER)
"""The statuses that a transition can end in."""
_BEATS: Final = frozenset({Status.RUNNING, Status.TIMED_OUT})
_ENDS: Final = ("complete", "partial", "blind")
Mask = Callable[[str], str]


class Sample(NamedTuple):
    """One value of one metric. ``labels`` are in the metric's order, without the fleet label."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


class PassMetrics:
    """Sums up the passes of one process. :meth:`add` and :meth:`samples` are thread-safe."""

    def __init__(self, url: str, interval_s: float, mask: Mask = str) -> None:
        self._prices = registry.prices(url)
        self._interval_s = interval_s
        self._mask = mask
        self._lock = threading.Lock()
        self._totals: Counter[tuple[Metric, tuple[str, ...]]] = Counter()
        self._last: PassReport | None = None
        self._seen: PassReport | None = None

    def add(self, report: PassReport) -> None:
        """Add the report of one pass."""
        counted = dict(_counted(report, self._prices))
        with self._lock:
            for key, value in counted.items():
                self._totals[key] += value  # type: ignore[assignment]  # dollars have fractions
            self._last = report
            if report.blind is None:
                self._seen = report

    def samples(self) -> tuple[Sample, ...]:
        """The samples as of the last pass. After a blind pass the fleet's values stay as last seen."""
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
    """The increment of each counter by one pass. Counters exist from the first pass on, even at zero."""
    how = "blind" if report.blind is not None else "complete" if report.complete else "partial"
    yield from (((table.PASSES, (end,)), float(end == how)) for end in _ENDS)
    yield (table.DELIVERIES, ("sent",)), report.sent
    yield (table.DELIVERIES, ("failed",)), report.failed
    changed = Counter(_status_label(transition.after) for _, transition in report.transitions)
    yield from (((table.TRANSITIONS, (status,)), changed[status]) for status in _AFTER)
    yield from _request_counts(report.requests, prices)


def _request_counts(
    requests: Mapping[str, int], prices: Prices
) -> Iterator[tuple[tuple[Metric, tuple[str, ...]], float]]:
    yield from (((table.REQUESTS, (kind,)), requests.get(kind, 0)) for kind in KINDS)
    if prices.charge is Charge.LISTED:
        yield (table.COST, ()), prices.dollars(requests)


def _of_fleet(report: PassReport, mask: Mask) -> Iterator[Sample]:
    counts: Counter[str] = Counter()
    for status, count in report.statuses.items():
        counts[WARNING if status == f"{Status.RUNNING} ({WARNING})" else _status_label(Status(status))] += count
    # Unreadable runs that no pass has ever seen have no status yet; they count as UNKNOWN.
    strangers = max(0, report.unreadable_count - counts[Status.UNKNOWN.value])
    counts[Status.UNKNOWN.value] += strangers
    yield Sample(table.SEEN, (), report.at.timestamp())
    yield from (Sample(table.RUNS, (status,), counts[status]) for status in STATUSES)
    yield Sample(table.OLDER, (), report.finished)
    yield Sample(table.PENDING, (), report.pending)
    yield Sample(table.OLDEST, (), report.oldest_observation_s)
    yield from _of_runs(report.figures, counts.total(), mask)


def of_view(view: FleetView, requests: Mapping[str, int], mask: Mask = str) -> tuple[Sample, ...]:
    """The samples of the dashboard's view, and of its ``requests`` to the store until now."""
    found = [Sample(table.BUILD_INFO, (__version__,), 1.0)]
    found += [Sample(*key, value) for key, value in _request_counts(requests, registry.prices(view.root))]
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


def _of_row(row: Row, at: datetime) -> RunFigures:
    line = RunLine(row.run_id, row.status, row.reason, row.cause, None, row.conditions, row.since, row.attempt)
    # For a run that could not be read, the age of its last heartbeat is unknown.
    known = row.beat_at is not None and row.fault is None
    age_s = max(0.0, (at - row.beat_at).total_seconds()) if known and row.beat_at is not None else None
    return RunFigures(line, age_s, row.figures, None, row.pending)


def _of_runs(runs: Iterable[RunFigures], of: int, mask: Mask) -> Iterator[Sample]:
    """The metrics of single runs out of ``of`` runs in all.

    Duplicate names would fail the whole scrape. If masking makes two names equal, the second run counts as left out.
    """
    names: set[str] = set()
    for run in runs:
        name = _label(run.line.run_id, mask)
        if name not in names:
            names.add(name)
            yield from _of_run(run, name, mask)
    yield Sample(table.LEFT_OUT, (), max(0, of - len(names)))


def _of_run(run: RunFigures, name: str, mask: Mask) -> Iterator[Sample]:
    line = run.line
    cause = "" if line.cause is None else _label(line.cause, mask)
    yield Sample(table.STATUS, (name, _word(line.status, line.conditions), cause), 1.0)
    for condition in dict.fromkeys(_label(each, mask) for each in line.conditions[:_CONDITIONS_LIMIT]):
        yield Sample(table.CONDITION, (name, condition), 1.0)
    numbers: dict[Metric, float | None] = {
        table.SINCE: None if line.since is None else line.since.timestamp(),
        table.ATTEMPT: line.attempt,
        table.BEAT_AGE: run.beat_age_s if line.status in _BEATS else None,
        **{table.FIGURE[name]: value for name, value in run.figures.named().items()},
        table.STEP_AT: None if run.step_at is None else run.step_at.timestamp(),
        table.RUN_PENDING: run.pending,
    }
    for metric, value in numbers.items():
        told = _float(value)
        if told is not None:
            yield Sample(metric, (name,), told)


def _word(status: Status, conditions: tuple[str, ...]) -> str:
    return WARNING if status is Status.RUNNING and conditions else _status_label(status)


def _status_label(status: Status) -> str:
    return OTHER if status.is_foreign else status.value


def _float(value: float | None) -> float | None:
    try:
        return None if value is None else float(value)
    except OverflowError:
        return None  # A number too large for a float is not a step.


def _label(text: str, mask: Mask) -> str:
    return shown(text, mask, _LABEL_LIMIT)
