"""The documents that a beat writes, made from what training last said."""

import json
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from lastbeat.sdk.recent import Recent
from lastbeat.sdk.run import Run
from lastbeat.sdk.values import number, text, whole

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
    instance_id: str
    process: int
    version: str


def metadata(run: Run, who: Identity, at: float) -> dict[str, Any]:
    """metadata.json: that it lives, and what it does."""
    phase, detail = run.phase_now
    status = "running"
    if run.ending is not None:
        status = "completed" if run.ending[0] == "_complete" else "failed"
    return {
        "run_id": who.run_id,
        "status": status,
        "phase": text(phase),
        "phase_detail": text(detail),
        "last_update": now_text(at),
        "start_time": now_text(who.start_time),
        "attempt": who.attempt,
        "instance_id": who.instance_id,
        "process": who.process,
        "lastbeat": who.version,
    }


@dataclass
class Pace:
    """Progress over time: points, speed, what is left. One a run, used by its beat thread alone."""

    recent: Recent = field(default_factory=Recent)
    _window: list[tuple[float, int, int]] = field(default_factory=list)
    """Unix time, step, tokens so far, of the last minutes."""

    def document(self, run: Run, at: float) -> dict[str, Any] | None:
        """progress.json, or None before the first step."""
        latest = run.latest
        if latest is None:
            return None
        step, loss, learning_rate, epoch, metrics = latest
        count, lost = whole(step), number(loss)
        if count is None:
            return None
        self.recent.add((round(at, 1), count, lost))
        self._window.append((at, count, run.tokens))
        while len(self._window) > 2 and at - self._window[0][0] > _WINDOW_S:
            self._window.pop(0)
        speed, token_speed = self._speeds()
        left = run.total_steps - count if run.total_steps is not None else None
        return {
            "run_id": run.run_id,
            "step": count,
            "total_steps": run.total_steps,
            "loss": lost,
            "learning_rate": number(learning_rate),
            "epoch": number(epoch),
            "tokens": run.tokens or None,
            "steps_per_second": speed,
            "tokens_per_second": token_speed,
            "eta_s": round(left / speed) if left is not None and left >= 0 and speed else None,
            "metrics": {str(name)[:100]: number(value) for name, value in list(metrics.items())[:METRICS_LIMIT]}
            or None,
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
