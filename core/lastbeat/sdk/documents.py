"""The documents that a beat writes, made from what training last said."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from lastbeat.sdk.instance import Instance
from lastbeat.sdk.reading import Reader
from lastbeat.sdk.recent import Recent
from lastbeat.sdk.run import CANCELLED, Run
from lastbeat.sdk.values import text, whole

METRICS_LIMIT = 50
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


def metadata(run: Run, who: Identity, at: float, resources: dict[str, Any] | None = None) -> dict[str, Any]:
    """metadata.json: that it lives, what it does and did, and what it uses."""
    phase, detail = run.phase_now
    status = "running"
    if run.ending is not None:
        sentinel, why = run.ending
        status = "completed" if sentinel == "_complete" else "cancelled" if why.startswith(CANCELLED) else "failed"
    return {
        "run_id": who.run_id,
        "status": status,
        "phase": text(phase),
        "phase_detail": text(detail),
        "last_update": now_text(at),
        "start_time": now_text(who.start_time),
        "attempt": who.attempt,
        "instance_id": who.instance.id,
        "zone": who.instance.zone,
        "instance_type": who.instance.type,
        "host": who.instance.host,
        "process": who.process,
        "resources": resources,
        "phases": told_phases(run.phases.copy()),
        "lastbeat": who.version,
    }


def told_phases(changes: Iterable[tuple[float, object]]) -> list[tuple[float, str]]:
    """Unix time and name of each phase, oldest first; what only changes its detail is no new phase."""
    told: list[tuple[float, str]] = []
    for at, given in changes:
        name = text(given)
        if name is not None and (not told or told[-1][1] != name):
            told.append((round(at, 3), name))
    return told


@dataclass
class Pace:
    """Progress over time: points, speed, what is left. One a run, used by its beat thread alone."""

    recent: Recent = field(default_factory=Recent)
    reader: Reader = field(default_factory=Reader)
    _window: list[tuple[float, int, int]] = field(default_factory=list)
    """Unix time, step, tokens so far, of the last minutes."""

    def document(self, run: Run, at: float) -> dict[str, Any] | None:
        """progress.json, or None before the first step."""
        latest = run.latest
        if latest is None:
            return None
        step, *plain, given = latest
        named = list(given.items())[:METRICS_LIMIT]
        said, lost, learning_rate, epoch, *metrics = self.reader.read([step, *plain, *(value for _, value in named)])
        # A whole number is taken as it is: as a float it would lose digits beyond 2 ** 53.
        count = step if type(step) is int else whole(said)
        if count is None:
            return None
        self.recent.add((round(at, 3), count, lost, learning_rate))
        self._window.append((at, count, run.tokens))
        while len(self._window) > 2 and at - self._window[0][0] > _WINDOW_S:
            self._window.pop(0)
        speed, token_speed = self._speeds()
        left = run.total_steps - count if run.total_steps is not None else None
        return {
            "run_id": run.run_id,
            "phase": text(run.phase_now[0]),
            "step": count,
            "total_steps": run.total_steps,
            "loss": lost,
            "learning_rate": learning_rate,
            "epoch": epoch,
            "tokens": run.tokens or None,
            "steps_per_second": speed,
            "tokens_per_second": token_speed,
            "eta_s": round(left / speed) if left is not None and left >= 0 and speed else None,
            "metrics": {name[:100]: value for (name, _), value in zip(named, metrics, strict=True)} or None,
            "recent": self.recent.points,
            "last_updated": now_text(at),
        }

    def _speeds(self) -> tuple[float | None, float | None]:
        (then, first, few), (now, last, many) = self._window[0], self._window[-1]
        span = now - then
        if span <= 0 or last <= first:
            return None, None
        return _rounded((last - first) / span), _rounded((many - few) / span) or None


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
