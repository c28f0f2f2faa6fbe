"""One-shot reports of a run, from shell scripts and cron jobs, each in a process of its own.

State that one report passes to the next (attempt, start time, phases, points) is read from the store.
"""

import logging
import time
from dataclasses import dataclass
from typing import Any

from lastbeat.model import runid
from lastbeat.model.json_values import encode, whole
from lastbeat.model.preemption import Preemption, encode_preemption
from lastbeat.model.text import owner_name
from lastbeat.model.times import parse_time
from lastbeat.stores.port import Blob, ConflictError, Expect, Store, StoreError
from lastbeat.training.node.resources import machine_memory
from lastbeat.training.sdk.beat_tasks import RunEnvironment
from lastbeat.training.sdk.curves import Point, RecentPoints
from lastbeat.training.sdk.documents import (
    LEAST_OFFSET_S,
    ClockOffset,
    attempt_of,
    distinct_phases,
    iso_time,
    next_attempt,
    parsed,
)
from lastbeat.training.sdk.run import MAX_PHASES
from lastbeat.training.sdk.values import as_number, as_text

log = logging.getLogger(__name__)

_LIMIT_BYTES = 256 * 1024
_MAX_TIME = 1e12
_NOT_FINITE = {"NaN", "Infinity", "-Infinity"}


@dataclass(frozen=True, slots=True)
class Report:
    """One report from a script; None where it does not report the field."""

    phase: str | None = None
    step: int | None = None
    total_steps: int | None = None
    loss: float | None = None
    learning_rate: float | None = None
    attempt: int | None = None


def beat(environment: RunEnvironment, run_id: str, report: Report, *, begin: bool = False) -> bool:
    """Write metadata.json, and progress.json if a step is reported. Returns whether an attempt began.

    1. Read the existing metadata.json. ``begin``, a higher attempt or a missing file begins an attempt; otherwise
       attempt, start time and phase carry over.
    2. Learn the offset of the store's clock: from the last beat if it was this machine's, else by writing
       metadata.json once without its own time, so that a slow clock cannot make it look old.
    3. Write metadata.json. From here on the old sentinels are older than the attempt.
    4. Delete the last attempt's sentinels if an attempt began, then write progress.json.

    Raises :class:`StoreError`.
    """
    store, folder, now = environment.store, f"{run_id}/", time.time()
    identity, instance_id = environment.identity, environment.identity.instance.id
    blob = store.read(folder + runid.METADATA, _LIMIT_BYTES)
    before = parsed(blob.body) if blob is not None else {}
    known = attempt_of(blob.body) if blob is not None else None
    start_time = before.get("start_time") if parse_time(before.get("start_time")) is not None else None
    new = begin or known is None or (report.attempt is not None and report.attempt > max(known, 1))
    if new:
        attempt = report.attempt or next_attempt(known, environment.restarts)
        start_time = iso_time(now)
    else:
        attempt = report.attempt or max(known or 1, 1)
    phase = as_text(report.phase) or (None if new else as_text(before.get("phase"))) or "training"
    changes = [] if new else _phase_changes(before.get("phases"))
    document = {
        "run_id": run_id,
        "status": "running",
        "phase": phase,
        "last_update": iso_time(now),
        "start_time": start_time,
        "attempt": attempt,
        "instance_id": instance_id,
        "owner": identity.owner or (None if new else owner_name(as_text(before.get("owner")))),
        "team": identity.team or (None if new else owner_name(as_text(before.get("team")))),
        "phases": distinct_phases([*changes, (now, phase)])[-MAX_PHASES:],
        # The machine's alone, because this process does not train.
        "resources": machine_memory(),
        "lastbeat": identity.version,
    }
    offset_s = None if new or blob is None else _last_offset_s(blob, before, instance_id)
    if offset_s is None:
        offset = ClockOffset()
        offset.write(store, folder + runid.METADATA, encode({**document, "last_update": None}))
        offset_s = offset.seconds
    store.write(folder + runid.METADATA, encode({**document, "clock_offset_s": offset_s}))
    if new:
        for name in runid.SENTINELS:
            store.delete(folder + name)
    if report.step is not None:
        _write_progress(store, run_id, report, now, phase=phase, new=new)
    return new


def _last_offset_s(blob: Blob, before: dict[str, Any], instance_id: str) -> float | None:
    """The store's clock minus this machine's at the last beat, in s; None if another machine wrote that beat."""
    own = parse_time(before.get("last_update"))
    if own is None or before.get("instance_id") != instance_id:
        return None
    offset_s = (blob.modified - own).total_seconds()
    return 0.0 if abs(offset_s) < LEAST_OFFSET_S else round(offset_s, 1)


def _write_progress(store: Store, run_id: str, report: Report, now: float, *, phase: object, new: bool) -> None:
    key = f"{run_id}/{runid.PROGRESS}"
    blob = None if new else store.read(key, _LIMIT_BYTES)
    before = parsed(blob.body) if blob is not None else {}
    recent = RecentPoints()
    for point in _points(before.get("recent")):
        recent.add(point)
    assert report.step is not None  # noqa: S101 - checked by the only caller
    recent.add((round(now, 3), report.step, as_number(report.loss), as_number(report.learning_rate)))
    document = {
        "run_id": run_id,
        "phase": phase,
        "step": report.step,
        "total_steps": report.total_steps if report.total_steps is not None else whole(before.get("total_steps")),
        "loss": as_number(report.loss),
        "learning_rate": as_number(report.learning_rate),
        "recent": recent.points,
        "last_updated": iso_time(now),
    }
    store.write(key, encode(document))


def fail(environment: RunEnvironment, run_id: str, message: str) -> bool:
    """Write ``_error``. Returns False if this attempt has one already: the first error stays.

    Raises :class:`StoreError`.
    """
    store, key = environment.store, f"{run_id}/{runid.ERROR}"
    body = message.encode("utf-8", "replace")
    try:
        store.write(key, body, Expect.NOTHING)
    except ConflictError:
        # Without a known start, the latest error counts.
        if _attempt_has_error(store, run_id, if_unknown=False):
            return False
        # It belongs to an earlier attempt.
        store.write(key, body)
    return True


def complete(environment: RunEnvironment, run_id: str) -> bool:
    """Write ``_complete``. Returns False if an ``_error`` of this attempt outranks it, as far as this job may read.

    Raises :class:`StoreError` if the report was not written.
    """
    environment.store.write(f"{run_id}/{runid.COMPLETE}", b"")
    try:
        return not _attempt_has_error(environment.store, run_id, if_unknown=True)
    except StoreError as error:
        log.info("_complete is written; whether an _error outranks it cannot be read: %s", error)
        return True


def preempted(environment: RunEnvironment, run_id: str, said: Preemption) -> None:
    """Write ``_preempted``. Raises :class:`StoreError`."""
    environment.store.write(f"{run_id}/{runid.PREEMPTED}", encode_preemption(said))


def _attempt_has_error(store: Store, run_id: str, *, if_unknown: bool) -> bool:
    """Whether the ``_error`` that exists is of this attempt; ``if_unknown`` where the attempt's start is unknown."""
    error = store.read(f"{run_id}/{runid.ERROR}", 0)
    if error is None:
        return False
    began_s = _attempt_started(store, run_id)
    return if_unknown if began_s is None else error.modified.timestamp() >= began_s


def _attempt_started(store: Store, run_id: str) -> float | None:
    """Start of this attempt in Unix time, or None if it is unknown."""
    blob = store.read(f"{run_id}/{runid.METADATA}", _LIMIT_BYTES)
    began = parse_time(parsed(blob.body).get("start_time")) if blob is not None else None
    # A second earlier, for stores that stamp whole seconds.
    return began.timestamp() - 1 if began is not None else None


def _points(value: object) -> list[Point]:
    # The learning rate may be left out.
    rows = (row for row in _rows(value) if len(row) in {3, 4} and isinstance(row[1], int))
    return [(row[0], row[1], _figure(row[2]), _figure(row[3]) if len(row) > 3 else None) for row in rows]


def _figure(value: object) -> float | str | None:
    return value if isinstance(value, str) and value in _NOT_FINITE else as_number(value)


def _phase_changes(value: object) -> list[tuple[float, str | None]]:
    return [(row[0], row[1]) for row in _rows(value) if len(row) == 2 and isinstance(row[1], str)]


def _rows(value: object) -> list[list[Any]]:
    """The last rows of a table whose first column is a time."""
    rows = [row for row in value if isinstance(row, list) and row] if isinstance(value, list) else []
    return [row for row in rows[-1000:] if isinstance(row[0], (int, float)) and abs(row[0]) < _MAX_TIME]
