"""The documents that a beat writes, made from what training last said."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import islice
from typing import Any

from lastbeat.sdk.instance import Instance
from lastbeat.sdk.reading import Reader
from lastbeat.sdk.recent import Between, Recent
from lastbeat.sdk.run import CANCELLED, Run
from lastbeat.sdk.values import at_hand, number, text, whole

METRICS_LIMIT = 50
CURVES_LIMIT = 8
CURVE_POINTS = 60
_NAME_CHARS = 100
_WINDOW_S = 300.0


def now_text(at: float) -> str:
    """Unix time as ISO 8601 with ``Z``."""
    return datetime.fromtimestamp(at, tz=timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def encode(document: dict[str, Any]) -> bytes:
    """JSON without bare NaN; what is unknown is left out."""
    known = {name: value for name, value in document.items() if value is not None}
    return json.dumps(known, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Identity:
    """What does not change during an attempt."""

    run_id: str
    attempt: int
    start_time: float
    instance: Instance
    process: int
    version: str


def metadata(
    run: Run,
    who: Identity,
    at: float | None,
    resources: dict[str, Any] | None = None,
    reader: Reader | None = None,
    offset_s: float | None = None,
) -> dict[str, Any]:
    """metadata.json: that it lives, what it does and did, and what it uses. ``offset_s`` is how far the store's clock
    is ahead; while that is unknown, a document without a time of its own (``at`` is None) leaves nothing to doubt."""
    phases = run.phases.copy()
    now, about = run.phase_now
    asked = [("phase", now, text), ("phase detail", about, text), *(("phase", name, text) for _, name in phases)]
    phase, detail, *names = (reader or Reader()).told(asked)
    status = "running"
    if run.ending is not None:
        sentinel, why = run.ending
        status = "completed" if sentinel == "_complete" else "cancelled" if why.startswith(CANCELLED) else "failed"
    return {
        "run_id": who.run_id,
        "status": status,
        "phase": phase,
        "phase_detail": detail,
        "last_update": now_text(at) if at is not None else None,
        "clock_offset_s": offset_s,
        "start_time": now_text(who.start_time),
        "attempt": who.attempt,
        "instance_id": who.instance.id,
        "zone": who.instance.zone,
        "instance_type": who.instance.type,
        "host": who.instance.host,
        "process": who.process,
        "resources": resources,
        "phases": told_phases(zip((at for at, _ in phases), names, strict=True)),
        "thread_error": run.thread_error.line if run.thread_error is not None else None,
        "lastbeat": who.version,
    }


def told_phases(changes: Iterable[tuple[float, str | None]]) -> list[tuple[float, str]]:
    """Unix time and name of each phase, oldest first; what only changes its detail is no new phase."""
    told: list[tuple[float, str]] = []
    for at, name in changes:
        if name is not None and (not told or told[-1][1] != name):
            told.append((round(at, 3), name))
    return told


@dataclass
class Pace:
    """Progress over time: points, speed, what is left. One a run, used by its beat thread alone."""

    recent: Recent = field(default_factory=Recent)
    reader: Reader = field(default_factory=Reader)
    curves: dict[str, Recent] = field(default_factory=dict)
    """Points of metrics by name, the first :data:`CURVES_LIMIT` that training told."""
    _beat_at: float = 0.0
    _window: list[tuple[float, int, int]] = field(default_factory=list)
    """Unix time, step, tokens so far, of the last minutes."""

    def document(self, run: Run, at: float) -> dict[str, Any] | None:
        """progress.json, or None before the first step."""
        # Taken first, so that none of its steps is newer than the latest.
        between, run.between = run.between, Between()
        latest = run.latest
        if latest is None:
            return None
        step, loss, learning_rate, epoch, given = latest
        named = [(text(name) or "", value) for name, value in islice(given.items(), METRICS_LIMIT)]
        # What is least likely to hang comes first: of what is not at hand nothing is read behind it.
        count, total, tokens, phase, *told = self.reader.told(
            [
                ("step", step, whole),
                ("total_steps", run.total_steps, whole),
                ("tokens", run.tokens, whole),
                ("phase", run.phase_now[0], text),
                ("loss", loss, number),
                ("learning_rate", learning_rate, number),
                ("epoch", epoch, number),
                *((f"metric {name[:_NAME_CHARS]!r}", value, number) for name, value in named),
            ]
        )
        if count is None:
            return None
        lost, rate, epoch, *metrics = told
        for point in between.sampled():
            if self._is_new(point, at) and point[1] != count:
                self.recent.add((round(point[0], 3), point[1], number(point[2]), number(point[3])))
        self.recent.add((round(at, 3), count, lost, rate))
        self._add_metrics(between, given, at)
        self._metrics_at(at, count, {name: value for (name, _), value in zip(named, metrics, strict=True)})
        self._beat_at = at
        self._window.append((at, count, tokens or 0))
        while len(self._window) > 2 and at - self._window[0][0] > _WINDOW_S:
            self._window.pop(0)
        speed, token_speed = self._speeds()
        left = total - count if total is not None else None
        return {
            "run_id": run.run_id,
            "phase": phase,
            "step": count,
            "total_steps": total,
            "loss": lost,
            "learning_rate": rate,
            "epoch": epoch,
            "tokens": tokens or None,
            "steps_per_second": speed,
            "tokens_per_second": token_speed,
            "eta_s": round(left / speed) if left is not None and left >= 0 and speed else None,
            "metrics": {name[:_NAME_CHARS]: value for (name, _), value in zip(named, metrics, strict=True)} or None,
            "recent": self.recent.points,
            "metric_points": {name: [each[:3] for each in of.points] for name, of in self.curves.items()} or None,
            "last_updated": now_text(at),
        }

    def _is_new(self, point: tuple[float, object, object, object], at: float) -> bool:
        """Whether it belongs between the beat before and this one, by a clock that went on meanwhile."""
        return self._beat_at < point[0] <= at

    def _add_metrics(self, between: Between, given: dict[str, object], at: float) -> None:
        """What the steps between two beats told that are not the latest one."""
        for when, step, metrics in sorted(between.metrics.values(), key=lambda each: each[0]):
            if metrics is given or not at_hand(step) or not self._is_new((when, None, None, None), at):
                continue
            told = {text(name) or "": number(value) for name, value in islice(metrics.items(), METRICS_LIMIT)
                    if at_hand(value)}  # fmt: skip
            count = whole(step)
            if count is not None:
                self._metrics_at(when, count, told)

    def _metrics_at(self, at: float, step: int, told: dict[str, Any]) -> None:
        for name, value in told.items():
            if value is None or (name not in self.curves and len(self.curves) >= CURVES_LIMIT):
                continue
            curve = self.curves.setdefault(name[:_NAME_CHARS], Recent(CURVE_POINTS))
            # A step that is told again, while training stands still, is no other point.
            if not curve.points or curve.points[-1][1] != step:
                curve.add((round(at, 3), step, value, None))

    def _speeds(self) -> tuple[float | None, float | None]:
        (then, first, few), (now, last, many) = self._window[0], self._window[-1]
        span = now - then
        if span <= 0 or last <= first:
            return None, None
        return _rounded((last - first) / span), _rounded((many - few) / span) or None


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
