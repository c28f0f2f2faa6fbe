"""A run reported by single calls: what shell scripts and cron jobs do, each call a process of its own."""

import json
import math
import time
from dataclasses import dataclass
from typing import Any

from lastbeat.model import runid
from lastbeat.model.times import parse_time
from lastbeat.sdk.attempts import attempt_of, next_attempt
from lastbeat.sdk.clock_offset import LEAST_S, ClockOffset
from lastbeat.sdk.documents import encode, now_text, told_phases
from lastbeat.sdk.recent import Point, Recent
from lastbeat.sdk.reporter import Surroundings
from lastbeat.sdk.resources import machine
from lastbeat.sdk.run import PHASES
from lastbeat.sdk.values import number, text
from lastbeat.stores.port import Blob, ConflictError, Expect, Store

_LIMIT_BYTES = 256 * 1024
_LATEST = 1e12
_NOT_FINITE = {"NaN", "Infinity", "-Infinity"}


@dataclass(frozen=True, slots=True)
class Said:
    """What a script says of its run; None is nothing said."""

    phase: str | None = None
    step: int | None = None
    total_steps: int | None = None
    loss: float | None = None
    learning_rate: float | None = None
    attempt: int | None = None


def beat(around: Surroundings, run_id: str, said: Said, *, begin: bool = False) -> None:
    """Write metadata.json, and progress.json if a step was said.

    Attempt, start time and phase go on from what lies there. ``begin``, a higher attempt, or nothing there begins an
    attempt: its start time is now, and the last one's sentinels are removed. Raises :class:`StoreError`.
    """
    store, folder, now = around.store, f"{run_id}/", time.time()
    blob = store.read(folder + runid.METADATA, _LIMIT_BYTES)
    before = _document(blob.body) if blob is not None else {}
    known = attempt_of(blob.body) if blob is not None else None
    start_time = before.get("start_time") if parse_time(before.get("start_time")) is not None else None
    new = begin or known is None or (said.attempt is not None and said.attempt > max(known, 1))
    if new:
        attempt = said.attempt or next_attempt(known, around.restarts)
        start_time = now_text(now)
    else:
        attempt = said.attempt or max(known or 1, 1)
    phase = text(said.phase) or (None if new else text(before.get("phase"))) or "training"
    document = {
        "run_id": run_id,
        "status": "running",
        "phase": phase,
        "last_update": now_text(now),
        "start_time": start_time,
        "attempt": attempt,
        "instance_id": around.instance_id,
        "phases": None,
        # Of the machine alone: this process is not what trains.
        "resources": machine(),
        "lastbeat": around.version,
    }
    changes = [] if new else _changes(before.get("phases"))
    document["phases"] = told_phases([*changes, (now, phase)])[-PHASES:]
    offset_s = None if new or blob is None else _last_offset_s(blob, before, around.instance_id)
    # The start time first: from then on the old sentinels are older than the attempt, deleted or not.
    if offset_s is None:
        # Without a time of its own until it is known how far this machine's clock is off: nobody must think it old.
        offset = ClockOffset()
        offset.write(store, folder + runid.METADATA, encode({**document, "last_update": None}))
        offset_s = offset.seconds
    store.write(folder + runid.METADATA, encode({**document, "clock_offset_s": offset_s}))
    if new:
        for name in (runid.ERROR, runid.COMPLETE):
            store.delete(folder + name)
    if said.step is not None:
        _progress(store, run_id, said, now, phase=phase, new=new)


def _last_offset_s(blob: Blob, before: dict[str, Any], instance_id: str) -> float | None:
    """How far the store's clock was ahead of this machine's at the last beat; None where that was another's."""
    own = parse_time(before.get("last_update"))
    if own is None or before.get("instance_id") != instance_id:
        return None
    offset_s = (blob.modified - own).total_seconds()
    return 0.0 if abs(offset_s) < LEAST_S else round(offset_s, 1)


def _progress(store: Store, run_id: str, said: Said, now: float, *, phase: object, new: bool) -> None:
    key = f"{run_id}/{runid.PROGRESS}"
    blob = None if new else store.read(key, _LIMIT_BYTES)
    before = _document(blob.body) if blob is not None else {}
    recent = Recent()
    for point in _points(before.get("recent")):
        recent.add(point)
    assert said.step is not None  # noqa: S101 - asked by the only caller
    recent.add((round(now, 3), said.step, number(said.loss), number(said.learning_rate)))
    document = {
        "run_id": run_id,
        "phase": phase,
        "step": said.step,
        "total_steps": said.total_steps if said.total_steps is not None else _whole(before.get("total_steps")),
        "loss": number(said.loss),
        "learning_rate": number(said.learning_rate),
        "recent": recent.points,
        "last_updated": now_text(now),
    }
    store.write(key, encode(document))


def fail(around: Surroundings, run_id: str, message: str) -> bool:
    """Write ``_error``. Whether it was written: of several errors of one attempt the first one stays.

    Raises :class:`StoreError`.
    """
    store, key = around.store, f"{run_id}/{runid.ERROR}"
    body = message.encode("utf-8", "replace")
    try:
        store.write(key, body, Expect.NOTHING)
    except ConflictError:
        there = store.read(key, 0)
        if there is not None and there.modified.timestamp() >= _started(store, run_id):
            return False
        # It is an earlier attempt's.
        store.write(key, body)
    return True


def complete(around: Surroundings, run_id: str, note: str = "") -> None:
    """Write ``_complete``. Raises :class:`StoreError`."""
    around.store.write(f"{run_id}/{runid.COMPLETE}", note.encode("utf-8", "replace"))


def _started(store: Store, run_id: str) -> float:
    """When this attempt began, in unix time; infinite where nobody said so, so that the latest word counts."""
    blob = store.read(f"{run_id}/{runid.METADATA}", _LIMIT_BYTES)
    began = parse_time(_document(blob.body).get("start_time")) if blob is not None else None
    # A second off, for stores that stamp whole ones.
    return began.timestamp() - 1 if began is not None else math.inf


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _points(value: object) -> list[Point]:
    # Three values were written before learning rates were.
    rows = [row for row in value if isinstance(row, list) and len(row) in {3, 4}] if isinstance(value, list) else []
    return [
        (row[0], row[1], _plain(row[2]), _plain(row[3]) if len(row) > 3 else None)
        for row in rows[-1000:]
        if _is_time(row[0]) and isinstance(row[1], int)
    ]


def _plain(value: object) -> float | str | None:
    return value if isinstance(value, str) and value in _NOT_FINITE else number(value)


def _changes(value: object) -> list[tuple[float, str | None]]:
    rows = [row for row in value if isinstance(row, list) and len(row) == 2] if isinstance(value, list) else []
    return [(row[0], row[1]) for row in rows[-1000:] if _is_time(row[0]) and isinstance(row[1], str)]


def _is_time(value: object) -> bool:
    return isinstance(value, (int, float)) and abs(value) < _LATEST


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
