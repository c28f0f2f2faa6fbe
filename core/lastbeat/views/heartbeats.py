"""What people are shown of metadata.json and progress.json, beyond what a watchdog judges by."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from itertools import islice
from typing import Final, TypeVar

from lastbeat.model import runid
from lastbeat.model.data import dataclass
from lastbeat.model.document_field import (
    AMOUNT,
    ANY_NUMBER,
    NAME_CHARS,
    NUMBER,
    TEXTS,
    WHOLE,
    DocumentField,
    FieldType,
    Reading,
    array_of,
    declared,
    document_field,
    map_of,
    nullable,
    read_fields,
    row_of,
    unread,
)
from lastbeat.model.heartbeat import OTHER_FIELDS, OWN_TIMES, Heartbeat, StoredFile, heartbeat_of, parsed
from lastbeat.model.json_values import amount, finite, number, whole
from lastbeat.model.observation import Seen
from lastbeat.model.resources import RESOURCES, Resources
from lastbeat.model.runid import PROGRESS
from lastbeat.model.secrets import mask_tokens
from lastbeat.model.text import fit, one_line
from lastbeat.model.times import format_time
from lastbeat.model.view import HeartbeatFile, NodeCurves, PhaseSpan, Point
from lastbeat.views.file_cache import CachedFile, FileCache
from lastbeat.views.safe import Safe, shown

POINTS_LIMIT: Final = 240
"""Points of a run's curves that are kept at most, the first and the newest among them."""
CURVES_LIMIT: Final = 8
"""Metrics that get a curve at most."""
CURVE_POINTS: Final = 120
PHASES_LIMIT: Final = 100
METRICS_LIMIT: Final = 50
CONFIG_LIMIT: Final = 64
FACTS_LIMIT: Final = 12
NAME_LIMIT: Final = NAME_CHARS
_LEAST_REPORTS: Final = 4
"""Fewer waits between reported steps show no usual one: the first steps compile."""
_SPEED_POINTS: Final = 8
"""Points, the latest, that show the speed where the document does not state it."""
_NODE_SERIES: Final = ("gpu", "gpu_memory", "gpu_temperature_c", "gpu_power_w", "cpu", "memory", "disk")
_MOST_VALUES: Final = 240
_LONGEST_STEP_S: Final = 86400.0
Item = TypeVar("Item")


def _config(value: object, reading: Reading) -> dict[str, str | float | bool]:
    if not isinstance(value, dict):
        return {}
    known = ((name, each) for name, each in value.items() if isinstance(each, (str, bool, int, float)))
    shown = ((_named(name, reading), reading.name(each) if isinstance(each, str) else each) for name, each in known)
    usual = ((name, each) for name, each in shown if each is not None)
    return dict(islice(usual, CONFIG_LIMIT))


def _metrics(value: object, reading: Reading) -> dict[str, float | None]:
    if not isinstance(value, dict):
        return {}
    return {_named(name, reading): number(each) for name, each in islice(value.items(), METRICS_LIMIT)}


def _phases(value: object, reading: Reading) -> tuple[PhaseSpan, ...]:
    rows = value[-PHASES_LIMIT:] if isinstance(value, list) else []
    found = []
    for row in rows:
        if isinstance(row, list) and len(row) >= 2 and isinstance(row[1], str):
            at, name = reading.time(row[0]), _named(row[1], reading)
            if at is not None and name:
                found.append(PhaseSpan(at, name))
    return tuple(sorted(found, key=lambda span: span.since))


def _named(text: str, reading: Reading) -> str:
    return fit(reading.mask(text), NAME_LIMIT)


_POINT: Final = row_of({"type": "number"}, {"type": "integer"}, nullable(ANY_NUMBER), nullable(ANY_NUMBER))
_METRIC_POINT: Final = row_of({"type": "number"}, {"type": "integer"}, ANY_NUMBER)
_PHASE: Final = row_of({"type": "number"}, {"type": "string"})
_STEPS: Final = (PROGRESS,)
CURVES: Final = (
    DocumentField(
        "recent",
        unread(array_of(_POINT)),
        "The latest points, oldest first: Unix time, step, loss, learning rate.",
        _STEPS,
        apart=True,
    ),
    DocumentField(
        "metric_points",
        unread(map_of(array_of(_METRIC_POINT))),
        "Points of training's own figures, oldest first: Unix time, step, value.",
        _STEPS,
        apart=True,
    ),
)
"""Read together, see :attr:`HeartbeatFields.points`."""


@dataclass(frozen=True)
class HeartbeatFields:
    """What one heartbeat document tells, as far as it can be understood. Texts in it are cleaned and masked."""

    heartbeat: Heartbeat
    """What a watchdog reads of it; ``fault`` says why it could not be understood."""
    learning_rate: float | None = document_field(
        "learning_rate", NUMBER, "That of the latest step.", files=_STEPS, apart=True
    )
    """May be NaN or infinite, as ``epoch`` and ``metrics`` may."""
    epoch: float | None = document_field("epoch", NUMBER, "The epoch of the latest step.", files=_STEPS, apart=True)
    steps_per_s: float | None = None
    """As the document says; where it does not, as its latest points tell. Never negative, nor endless."""
    eta_s: float | None = document_field(
        "eta_s", AMOUNT, "Seconds left, as far as speed tells.", files=_STEPS, apart=True
    )
    """As of when it was written."""
    report_s: float | None = None
    """The usual seconds from one reported step to the next. None: unknown."""
    tokens: int | None = document_field(
        "tokens", WHOLE, "Tokens seen so far in this attempt.", files=_STEPS, apart=True, label="tokens"
    )
    metrics: Mapping[str, float | None] = document_field(
        "metrics",
        FieldType(_metrics, map_of(ANY_NUMBER)),
        "Figures of training's own.",
        default={},
        files=_STEPS,
        apart=True,
    )
    points: tuple[Point, ...] = ()
    """Oldest first: at most :data:`POINTS_LIMIT`, and those that tell metrics alone."""
    phases: tuple[PhaseSpan, ...] = document_field(
        "phases",
        FieldType(_phases, array_of(_PHASE)),
        "The latest changes of phase, oldest first: Unix time and name.",
        default=(),
        apart=True,
    )
    """At most :data:`PHASES_LIMIT`."""
    config: Mapping[str, str | float | bool] = document_field(
        "config",
        FieldType(_config, map_of({"type": ["string", "number", "boolean"]})),
        "What training was configured with, flat: `model.layers` and its value.",
        default={},
        apart=True,
    )
    resources: Resources | None = document_field(
        "resources", RESOURCES, "What training uses of its machine.", apart=True
    )
    node: NodeCurves | None = None
    ignored_settings: tuple[str, ...] = document_field(
        "ignored_settings",
        TEXTS,
        "Settings that are wrong and left at their default, each as `LASTBEAT_LEARN='banana'`; secrets by name alone.",
        default=(),
        apart=True,
    )
    facts: Mapping[str, str] = field(default_factory=dict)
    """What else stands in it, as it stands there; few."""


def fields_of(file: str) -> tuple[DocumentField, ...]:
    """All fields of ``file``: metadata.json, progress.json or ranks/{rank}.json."""
    return tuple(each for each in _FIELDS if file in each.files)


_FIELDS: Final = (
    *OWN_TIMES, *declared(Heartbeat).values(), *declared(HeartbeatFields).values(), *CURVES, *OTHER_FIELDS,
)  # fmt: skip
_APART: Final = frozenset(each.name for each in _FIELDS if each.apart)


def read_told(
    file: StoredFile, mask: Callable[[str], str] = str, most_points: int = POINTS_LIMIT, *, curve: bool = True
) -> HeartbeatFields:
    """Understand a heartbeat document, with at most ``most_points`` of its points. Never raises; each field is usable
    when its neighbours are broken. Only judging a run needs its ``curve``, which takes most of the time."""
    document = parsed(file)
    reading = Reading(file.modified, lambda text: mask_tokens(mask(one_line(text))), lambda text: shown(text, mask))
    heartbeat = heartbeat_of(document, file.version, reading, curve=curve)
    if isinstance(document, str):
        return HeartbeatFields(heartbeat)
    points = _points(document.get("recent"), reading, most_points)
    if most_points >= POINTS_LIMIT:
        points = _with_metrics(points, document.get("metric_points"), reading)
    told = HeartbeatFields(
        heartbeat,
        report_s=_report_s(document.get("recent")),
        points=points,
        node=_node_curves(document.get("health"), reading),
        facts=_facts(document, mask),
        **read_fields(HeartbeatFields, document, reading),
    )
    speed = heartbeat.steps_per_s if heartbeat.steps_per_s is not None else _speed(points)
    return replace(
        told, steps_per_s=speed, eta_s=told.eta_s if told.eta_s is not None else _remaining_s(heartbeat, speed)
    )


def ignoring(settings: Sequence[str]) -> str:
    """That a run ignores these settings, without a full stop."""
    return f"This run ignores {', '.join(settings)}"


def thinned(items: Sequence[Item], most: int) -> tuple[Item, ...]:
    """At most ``most`` (2 or more) of ``items``, evenly spread, the first and the last among them."""
    if len(items) <= most:
        return tuple(items)
    last = len(items) - 1
    return tuple(items[index * last // (most - 1)] for index in range(most))


def _points(value: object, reading: Reading, most: int) -> tuple[Point, ...]:
    """Unix time, step, loss and, if known, learning rate."""
    rows = thinned(value, most) if isinstance(value, list) else ()
    found = (point for point in (_point(row, reading) for row in rows) if point is not None)
    return tuple(sorted(found, key=lambda point: point.at))


def _with_metrics(points: tuple[Point, ...], value: object, reading: Reading) -> tuple[Point, ...]:
    """``points`` with the metrics of the same time and step; other metrics get a point of their own."""
    if not isinstance(value, dict):
        return points
    found = {(point.at, point.step): point for point in points}
    for name, rows in islice(value.items(), CURVES_LIMIT):
        for row in thinned(rows, CURVE_POINTS) if isinstance(rows, list) else ():
            point = _point(row, reading)
            if point is None or point.loss is None:
                continue
            place = (point.at, point.step)
            known = found.get(place, Point(*place))
            found[place] = replace(known, metrics={**known.metrics, _named(name, reading): point.loss})
    return tuple(sorted(found.values(), key=lambda point: point.at))


def _point(row: object, reading: Reading) -> Point | None:
    if not isinstance(row, list) or not 2 <= len(row) <= 8:
        return None
    at, step = reading.time(row[0]), whole(row[1])
    if at is None or step is None:
        return None
    loss, learning_rate, *_ = (*row[2:], None, None)
    return Point(at, step, number(loss), number(learning_rate))


def _node_curves(health: object, reading: Reading) -> NodeCurves | None:
    """The last hours of a run's node by its ``health``, or None if no history can be understood."""
    told = health.get("history") if isinstance(health, dict) else None
    if not isinstance(told, dict):
        return None
    began, each_s, series = reading.time(told.get("from")), finite(told.get("each_s")), told.get("series")
    if began is None or each_s is None or not 0 < each_s <= _LONGEST_STEP_S:
        return None
    if not isinstance(series, dict):
        return None
    columns = {name: series[name] for name in _NODE_SERIES if isinstance(series.get(name), list)}
    known = {name: tuple(map(amount, column)) for name, column in columns.items() if len(column) <= _MOST_VALUES}
    found = {name: column for name, column in known.items() if any(value is not None for value in column)}
    return NodeCurves(began, each_s, found) if found else None


def _facts(document: Mapping[str, object], mask: Callable[[str], str]) -> dict[str, str]:
    rest = (
        (name, each)
        for name, each in document.items()
        if name not in _APART and isinstance(each, (str, int, float)) and each != ""
    )
    return {shown(name, mask, NAME_LIMIT): shown(_as_text(each), mask) for name, each in islice(rest, FACTS_LIMIT)}


def _as_text(value: str | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    # A whole number may have more digits than Python turns into text.
    return value if isinstance(value, str) else str(value) if finite(value) is not None else "a number"


def _speed(points: Sequence[Point]) -> float | None:
    """Steps a second over the latest points."""
    latest = points[-_SPEED_POINTS:]
    if len(latest) < 2:
        return None
    span_s, steps = (latest[-1].at - latest[0].at).total_seconds(), latest[-1].step - latest[0].step
    return float(f"{steps / span_s:.4g}") if span_s > 0 and steps > 0 else None


def _report_s(recent: object) -> float | None:
    """The usual seconds from one reported step to the next: the mean time of a step times the steps between the two
    closest reports, for points are thinned out. None: too few points."""
    waits: list[tuple[float, int]] = []
    last_at, last_step = 0.0, None
    for row in recent if isinstance(recent, list) else ():
        if not isinstance(row, list) or len(row) < 2:
            continue
        at, step = finite(row[0]), whole(row[1])
        if not at or step is None:
            continue
        if last_step is not None and at > last_at and step > last_step:
            waits.append((at - last_at, step - last_step))
        last_at, last_step = at, step
    if len(waits) < _LEAST_REPORTS:
        return None
    steps = sum(steps for _, steps in waits)
    return sum(wait_s for wait_s, _ in waits) / steps * min(steps for _, steps in waits)


def _remaining_s(heartbeat: Heartbeat, steps_per_s: float | None) -> float | None:
    step, total = heartbeat.step, heartbeat.total_steps
    if step is None or total is None or not steps_per_s or total < step:
        return None
    return float(round((total - step) / steps_per_s))


NAMES = (runid.METADATA, runid.PROGRESS)
_MOST_RANKS: Final = 10**7
"""A larger world is a mistake."""


@dataclass(frozen=True)
class Beats:
    """What both heartbeats say."""

    metadata: HeartbeatFields | None = None
    progress: HeartbeatFields | None = None
    """The source of progress: progress.json, or a metadata.json with a step. None if it is of an earlier attempt."""
    shown: tuple[HeartbeatFile, ...] = ()
    world_size: int | None = None
    notes: tuple[str, ...] = ()


def heartbeat_fields(cache: FileCache, mask: Callable[[str], str]) -> dict[str, HeartbeatFields]:
    """What each heartbeat says that ``cache`` could read, by name."""
    found = {name: cache.understood(name, lambda blob: read_told(blob, mask)) for name in NAMES}
    return {name: each for name, each in found.items() if each is not None}


def beats_of(
    got: Mapping[str, CachedFile], told: Mapping[str, HeartbeatFields], seen: Seen | None, safe: Safe
) -> Beats:
    """``told`` is what the heartbeats in ``got`` say. ``seen`` is what counts for this attempt; None if that could not
    be found out, so all of it may."""
    metadata, progress = told.get(runid.METADATA), told.get(runid.PROGRESS)
    notes = []
    if seen is not None:
        if metadata is not None and seen.metadata is None:
            notes.append("metadata.json was written by an earlier attempt, and does not count.")
            metadata = None
        if progress is not None and seen.progress is None:
            notes.append("progress.json was written by an earlier attempt, and does not count.")
            progress = None
    shown = tuple(_beat(name, got[name], told.get(name), safe) for name in NAMES if name in got)
    return Beats(metadata, progress or metadata, shown, _world_size(metadata), tuple(notes))


def _beat(name: str, read: CachedFile, told: HeartbeatFields | None, safe: Safe) -> HeartbeatFile:
    fault = None if read.fault is None else safe.name(f"it could not be read: {read.fault}")
    if told is None:
        return HeartbeatFile(name, read.entry.modified, None, fault or "it went away while it was read")
    beat = told.heartbeat
    return HeartbeatFile(name, beat.modified, beat.own_time, fault or beat.fault, _shown_facts(told))


def _world_size(metadata: HeartbeatFields | None) -> int | None:
    size = metadata.heartbeat.world_size if metadata is not None else None
    return size if size is not None and 0 <= size < _MOST_RANKS else None


def _shown_facts(told: HeartbeatFields) -> dict[str, str]:
    """What people see of it beside its name: the fields that have a label, then others as they stand there."""
    labelled = {
        each.label: _fact(value)
        for part in (told.heartbeat, told)
        for attribute, each in declared(type(part)).items()
        if each.label and (value := getattr(part, attribute)) is not None
    }
    return {**labelled, **{name: text for name, text in told.facts.items() if name not in labelled}}


def _fact(value: object) -> str:
    return str(format_time(value.replace(microsecond=0)) if isinstance(value, datetime) else value)
