"""What metadata.json and progress.json tell people, beyond what a watchdog judges by."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice, pairwise
from typing import Any, Final, TypeVar

from lastbeat.model.numbers import amount, finite, number, whole
from lastbeat.model.observation import Heartbeat
from lastbeat.model.secrets import mask_tokens
from lastbeat.model.text import fit, one_line, owner_name
from lastbeat.model.times import parse_time
from lastbeat.model.view import Gpu, NodeCurves, PhaseSpan, Point, Resources
from lastbeat.observe.documents import read_heartbeat
from lastbeat.stores.port import Blob

POINTS_LIMIT: Final = 240
"""So many points of a run's curves are kept, the first and the newest among them."""
CURVES_LIMIT: Final = 8
"""So many of training's own figures get a curve."""
CURVE_POINTS: Final = 120
PHASES_LIMIT: Final = 100
METRICS_LIMIT: Final = 50
FACTS_LIMIT: Final = 12
TEXT_LIMIT: Final = 200
NAME_LIMIT: Final = 100
_LEAST_REPORTS: Final = 4
"""Fewer waits between reported steps show no usual one: the first steps compile."""
_SPEED_POINTS: Final = 8
"""Where nobody told how fast training is, this many of the latest points tell it."""
_PLAUSIBLE: Final = timedelta(days=3653)
_UNDERSTOOD: Final = frozenset({
    "run_id", "phase", "instance_id", "start_time", "attempt", "last_update", "last_updated", "timestamp", "step",
    "total_steps", "loss", "learning_rate", "epoch", "tokens", "steps_per_second", "tokens_per_second", "eta_s",
    "metrics", "metric_points", "recent", "phases", "resources", "thread_error",
    "ignored_settings",
})  # fmt: skip
_GPUS_LIMIT: Final = 16
_MOST_TEXTS: Final = 8
"""How many items of a list of texts are read."""
_MOST_REASONS: Final = 8
_REASONS: Final = {
    "hw_thermal": "heat",
    "sw_thermal": "heat",
    "hw_power_brake": "its power supply",
    "hw_slowdown": "its hardware",
}
_NODE_SERIES: Final = ("gpu", "gpu_memory", "gpu_temperature_c", "gpu_power_w", "cpu", "memory", "disk")
_MOST_VALUES: Final = 240
_LONGEST_STEP_S: Final = 86400.0
Item = TypeVar("Item")


@dataclass(frozen=True)
class HeartbeatFields:
    """What one heartbeat document tells, as far as it can be understood. Texts in it are cleaned and masked."""

    heartbeat: Heartbeat
    """What a watchdog reads of it; ``fault`` says why it could not be understood."""
    learning_rate: float | None = None
    """May be NaN or infinite, as ``epoch`` and ``metrics`` may."""
    epoch: float | None = None
    steps_per_s: float | None = None
    """As the document says; where it does not, as its latest points tell. Never negative, nor endless."""
    tokens_per_s: float | None = None
    eta_s: float | None = None
    """Seconds that were left when it was written."""
    report_s: float | None = None
    """The usual seconds from one reported step to the next. None: unknown."""
    tokens: int | None = None
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    points: tuple[Point, ...] = ()
    """Oldest first: at most :data:`POINTS_LIMIT`, and those that tell metrics alone."""
    phases: tuple[PhaseSpan, ...] = ()
    """Oldest first, the latest :data:`PHASES_LIMIT`."""
    resources: Resources | None = None
    node: NodeCurves | None = None
    ignored_settings: tuple[str, ...] = ()
    """What training goes on without, as ``LASTBEAT_LEARN='banana'``."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What else stands in it, as it stands there; few."""


def read_told(blob: Blob, mask: Callable[[str], str] = str, most_points: int = POINTS_LIMIT) -> HeartbeatFields:
    """Understand a heartbeat document, with at most ``most_points`` of its points. Never raises; each field is usable
    when its neighbours are broken."""
    heartbeat = _safe(read_heartbeat(blob, lambda text: mask_tokens(mask(one_line(text)))), mask)
    document = _document(blob)
    if not document:
        return HeartbeatFields(heartbeat)
    points = _points(document.get("recent"), blob.modified, most_points)
    if most_points >= POINTS_LIMIT:
        points = _with_metrics(points, document.get("metric_points"), blob.modified, mask)
    told = HeartbeatFields(
        heartbeat,
        learning_rate=number(document.get("learning_rate")),
        epoch=number(document.get("epoch")),
        steps_per_s=amount(document.get("steps_per_second")),
        tokens_per_s=amount(document.get("tokens_per_second")),
        eta_s=amount(document.get("eta_s")),
        report_s=_report_s(document.get("recent")),
        tokens=whole(document.get("tokens")),
        metrics=_metrics(document.get("metrics"), mask),
        points=points,
        phases=_phases(document.get("phases"), blob.modified, mask),
        node=read_node_curves(document.get("health"), blob.modified),
        resources=_resources(document.get("resources"), mask),
        ignored_settings=_texts(document.get("ignored_settings"), mask),
        facts=_facts(document, mask),
    )
    speed = told.steps_per_s if told.steps_per_s is not None else _speed(points)
    return replace(told, steps_per_s=speed, eta_s=told.eta_s if told.eta_s is not None else _left(heartbeat, speed))


def shown(text: str, mask: Callable[[str], str] = str, limit: int = TEXT_LIMIT) -> str:
    """``text`` as people may be shown it: one line, harmless, without secrets, bounded."""
    # Masked before it is cut, so that no part of a secret is left at the end.
    return fit(mask_tokens(mask(one_line(text))), limit)


def ignoring(settings: Sequence[str]) -> str:
    """That a run ignores these settings, without a full stop."""
    return f"This run ignores {', '.join(settings)}"


def thinned(items: Sequence[Item], most: int) -> tuple[Item, ...]:
    """At most ``most`` (2 or more) of ``items``, evenly spread, the first and the last among them."""
    if len(items) <= most:
        return tuple(items)
    last = len(items) - 1
    return tuple(items[index * last // (most - 1)] for index in range(most))


def _safe(heartbeat: Heartbeat, mask: Callable[[str], str]) -> Heartbeat:
    def safe(text: str | None) -> str | None:
        return None if text is None else shown(text, mask) or None

    return replace(
        heartbeat,
        fault=safe(heartbeat.fault),
        phase=safe(heartbeat.phase),
        instance_id=safe(heartbeat.instance_id),
        zone=safe(heartbeat.zone),
        instance_type=safe(heartbeat.instance_type),
        host=safe(heartbeat.host),
        owner=owner_name(safe(heartbeat.owner)),
        team=owner_name(safe(heartbeat.team)),
        thread_error=safe(heartbeat.thread_error),
    )


def _document(blob: Blob) -> dict[str, Any]:
    """Empty where it is none; why, :func:`read_heartbeat` says."""
    if blob.size_bytes > len(blob.body):
        return {}
    try:
        document = json.loads(blob.body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _texts(value: object, mask: Callable[[str], str]) -> tuple[str, ...]:
    texts = value[:_MOST_TEXTS] if isinstance(value, list) else ()
    return tuple(shown(text, mask, NAME_LIMIT) for text in texts if isinstance(text, str) and text.strip())


def _metrics(value: object, mask: Callable[[str], str]) -> dict[str, float | None]:
    if not isinstance(value, dict):
        return {}
    return {shown(name, mask, NAME_LIMIT): number(each) for name, each in islice(value.items(), METRICS_LIMIT)}


def _points(value: object, modified: datetime, most: int) -> tuple[Point, ...]:
    """Unix time, step, loss and, if known, learning rate."""
    rows = thinned(value, most) if isinstance(value, list) else ()
    found = (point for point in (_point(row, modified) for row in rows) if point is not None)
    return tuple(sorted(found, key=lambda point: point.at))


def _with_metrics(
    points: tuple[Point, ...], value: object, modified: datetime, mask: Callable[[str], str]
) -> tuple[Point, ...]:
    """``points`` with the metrics that were told at the same time and step; others get a point of their own."""
    if not isinstance(value, dict):
        return points
    found = {(point.at, point.step): point for point in points}
    for name, rows in islice(value.items(), CURVES_LIMIT):
        for row in thinned(rows, CURVE_POINTS) if isinstance(rows, list) else ():
            point = _point(row, modified)
            if point is None or point.loss is None:
                continue
            place = (point.at, point.step)
            known = found.get(place, Point(*place))
            found[place] = replace(known, metrics={**known.metrics, shown(name, mask, NAME_LIMIT): point.loss})
    return tuple(sorted(found.values(), key=lambda point: point.at))


def _point(row: object, modified: datetime) -> Point | None:
    if not isinstance(row, list) or not 2 <= len(row) <= 8:
        return None
    at, step = _time(row[0], modified), whole(row[1])
    if at is None or step is None:
        return None
    loss, learning_rate, *_ = (*row[2:], None, None)
    return Point(at, step, number(loss), number(learning_rate))


def _phases(value: object, modified: datetime, mask: Callable[[str], str]) -> tuple[PhaseSpan, ...]:
    rows = value[-PHASES_LIMIT:] if isinstance(value, list) else []
    found = []
    for row in rows:
        if isinstance(row, list) and len(row) >= 2 and isinstance(row[1], str):
            at, name = _time(row[0], modified), shown(row[1], mask, NAME_LIMIT)
            if at is not None and name:
                found.append(PhaseSpan(at, name))
    return tuple(sorted(found, key=lambda span: span.since))


def _resources(value: object, mask: Callable[[str], str]) -> Resources | None:
    """What training says that it uses: processor, memory, GPUs. None: nothing that can be understood."""
    if not isinstance(value, dict):
        return None
    listed = value.get("gpus")
    gpus = (_gpu(each, mask) for each in listed[:_GPUS_LIMIT]) if isinstance(listed, list) else ()
    found = Resources(
        cpu=amount(value.get("cpu")),
        rss_bytes=_byte_count(value.get("rss_bytes")),
        memory_available_bytes=_byte_count(value.get("memory_available_bytes")),
        memory_total_bytes=_byte_count(value.get("memory_total_bytes")),
        gpus=tuple(gpu for gpu in gpus if gpu is not None),
    )
    return None if found == Resources() else found


def _gpu(value: object, mask: Callable[[str], str]) -> Gpu | None:
    if not isinstance(value, dict):
        return None
    name, used = value.get("name"), finite(value.get("utilization"))
    return Gpu(
        name=shown(name, mask, NAME_LIMIT) if isinstance(name, str) and name.strip() else "GPU",
        utilization=used if used is not None and 0 <= used <= 1 else None,
        memory_used_bytes=_byte_count(value.get("memory_used_bytes")),
        memory_total_bytes=_byte_count(value.get("memory_total_bytes")),
        temperature_c=amount(value.get("temperature_c")),
        power_w=amount(value.get("power_w")),
        throttle=_throttle(value.get("throttle")),
        lost=value.get("lost") is True,
    )


def _throttle(value: object) -> tuple[str, ...]:
    """Why a GPU is slowed down, in the words that are known."""
    listed = value[:_MOST_REASONS] if isinstance(value, list) else ()
    return tuple(_REASONS[word] for word in listed if isinstance(word, str) and word in _REASONS)


def _byte_count(value: object) -> int | None:
    told = whole(value)
    return told if told is not None and told >= 0 else None


def read_node_curves(health: object, modified: datetime) -> NodeCurves | None:
    """The last hours of a run's node, by ``health`` of a document that was written at ``modified``. None: it has no
    history that can be understood."""
    told = health.get("history") if isinstance(health, dict) else None
    if not isinstance(told, dict):
        return None
    began, each_s, series = _time(told.get("from"), modified), finite(told.get("each_s")), told.get("series")
    if began is None or each_s is None or not 0 < each_s <= _LONGEST_STEP_S:
        return None
    if not isinstance(series, dict):
        return None
    columns = {name: series[name] for name in _NODE_SERIES if isinstance(series.get(name), list)}
    known = {name: tuple(map(_level, column)) for name, column in columns.items() if len(column) <= _MOST_VALUES}
    found = {name: column for name, column in known.items() if any(value is not None for value in column)}
    return NodeCurves(began, each_s, found) if found else None


def _level(value: object) -> float | None:
    told = finite(value)
    return told if told is not None and told >= 0 else None


def _time(value: object, modified: datetime) -> datetime | None:
    when = parse_time(value)
    return when if when is not None and abs(when - modified) < _PLAUSIBLE else None


def _facts(document: Mapping[str, object], mask: Callable[[str], str]) -> dict[str, str]:
    rest = (
        (name, each)
        for name, each in document.items()
        if name not in _UNDERSTOOD and isinstance(each, (str, int, float)) and each != ""
    )
    return {shown(name, mask, NAME_LIMIT): shown(_said(each), mask) for name, each in islice(rest, FACTS_LIMIT)}


def _said(value: str | float) -> str:
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
    rows = [row for row in recent if isinstance(row, list) and len(row) > 1] if isinstance(recent, list) else []
    points = [(at, step) for at, step in ((finite(row[0]), whole(row[1])) for row in rows) if at and step is not None]
    waits = [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(points)]
    waits = [(wait_s, steps) for wait_s, steps in waits if wait_s > 0 and steps > 0]
    if len(waits) < _LEAST_REPORTS:
        return None
    steps = sum(steps for _, steps in waits)
    return sum(wait_s for wait_s, _ in waits) / steps * min(steps for _, steps in waits)


def _left(heartbeat: Heartbeat, steps_per_s: float | None) -> float | None:
    step, total = heartbeat.step, heartbeat.total_steps
    if step is None or total is None or not steps_per_s or total < step:
        return None
    return float(round((total - step) / steps_per_s))
