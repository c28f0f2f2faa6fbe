"""Fleets and rows as JSON can hold them: what ``lastbeat fleet --json`` prints and the page gets. Pure.

Every row has its ``rank``, its place in the order of need, from 0 (see :mod:`lastbeat.views.order`). That alone is no
change of a row: in a delta, rows that are not named keep their order among themselves, and those that are named go to
the places that their ranks tell.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Final

from lastbeat.model import document
from lastbeat.model.numbers import json_number
from lastbeat.model.record import Acknowledgement
from lastbeat.model.silence import Silence
from lastbeat.model.version import __version__
from lastbeat.model.view import FleetView, JobGist, Row, Span, StoreOutage

SCHEMA: Final = 1


@dataclass(frozen=True, slots=True)
class Delta:
    """What changed of a view since its reader's sequence number."""

    since: int
    changed: Sequence[Row]
    gone: Sequence[str] = ()


def fleet_document(  # noqa: PLR0913 - what a document has beside the view, each by its name
    view: FleetView,
    *,
    made_at: datetime | None = None,
    live: bool = False,
    interval_s: float | None = None,
    stale_s: float | None = None,
    seq: int = 0,
    epoch: str = "",
    delta: Delta | None = None,
) -> dict[str, object]:
    """The document with all of its documented keys; unknown values are null. ``made_at`` is when it was made."""
    ranks = {row.run_id: place for place, row in enumerate(view.rows)}
    rows: Iterable[Row] = view.rows
    if delta is not None:
        rows = sorted((row for row in delta.changed if row.run_id in ranks), key=lambda row: ranks[row.run_id])
    return {
        "schema": SCHEMA,
        "root": clean(view.root),
        "at": _time(view.at),
        "made_at": _time(made_at if made_at is not None else view.at),
        "version": __version__,
        "live": live,
        "interval_s": interval_s,
        "seq": seq,
        "since": delta.since if delta is not None else None,
        "epoch": epoch,
        "stale_s": stale_s,
        "older": view.older,
        "unread": view.unread,
        "counts": dict(view.counts),
        "silenced": view.silenced,
        "silences": [silence_document(each) for each in view.silences],
        "watching": {
            "last_pass_at": _time(view.watching.last_pass_at),
            "interval_s": view.watching.interval_s,
            "overdue": view.watching.overdue,
            "known": view.watching.known,
            "recorded_at": _time(view.watching.recorded_at),
        },
        "fault": _fault(view.fault),
        "ignored": [clean(name) for name in view.ignored],
        "notes": [clean(note) for note in view.notes],
        "gone": list(delta.gone) if delta is not None else [],
        "runs": [row_document(row, ranks[row.run_id]) for row in rows],
    }


def row_document(row: Row, rank: int | None = None) -> dict[str, object]:
    """One run. ``rank``: its place in the order of need."""
    return {
        "run_id": row.run_id,
        "status": row.status.value,
        "shown": row.shown,
        "recorded": row.recorded,
        "rank": rank,
        "reason": clean(row.reason),
        "cause": clean(row.cause),
        "action": clean(row.action),
        "conditions": [clean(name) for name in row.conditions],
        "since": _time(row.since),
        "attempt": row.attempt,
        "phase": clean(row.phase),
        "step": row.step,
        "total_steps": row.total_steps,
        "step_at": _time(row.step_at),
        "stands_still": row.stands_still,
        "stall_limited": row.stall_limited,
        "eta_s": None if row.eta_s is None else round(row.eta_s),
        "loss": _number(row.loss, 6),
        "losses": [_number(loss, 4) if _is_number(loss) else None for loss in row.losses],
        "steps_per_s": _number(row.steps_per_s, 4),
        "tokens_per_s": _number(row.tokens_per_s, 4),
        "beat_at": _time(row.beat_at),
        "host": clean(row.host),
        "owner": clean(row.owner),
        "team": clean(row.team),
        "tags": [clean(tag) for tag in row.tags],
        "strip": [span_document(span) for span in row.strip],
        "watched_since": _time(row.watched_since),
        "pending": row.pending,
        "doubt": clean(row.doubt),
        "fault": clean(row.fault),
        "complete": row.complete,
        "silenced": None if row.silence is None else silence_document(row.silence),
        "acknowledged": None if row.acknowledged is None else acknowledgement_document(row.acknowledged),
        "job": None if row.job is None else job_document(row.job),
    }


def silence_document(silence: Silence) -> dict[str, object]:
    """Why people are not told of a run, and until when."""
    return {
        "id": clean(silence.id),
        "runs": clean(silence.runs),
        "until": _time(silence.until),
        "why": clean(silence.why),
        "by": clean(silence.by),
    }


def acknowledgement_document(given: Acknowledgement) -> dict[str, object]:
    """Who looks after a run, since when."""
    return {"at": _time(given.at), "by": clean(given.by), "note": clean(given.note)}


def job_document(job: JobGist) -> dict[str, object]:
    """The job of a supervised run, and its restarts."""
    return {
        "launcher": clean(job.launcher),
        "id": clean(job.id),
        "state": None if job.state is None else job.state.value,
        "restarts": job.restarts,
        "attempt": clean(job.attempt) or None,
        "waits": job.waits,
        "starts_at": _time(job.starts_at),
        "text": clean(job.text),
    }


def span_document(span: Span) -> list[object]:
    """When, what, and of which attempt."""
    return [_time(span.since), span.status.value, span.attempt]


def clean(text: str | None) -> str | None:
    """``text`` as UTF-8 can hold it; nearly all of it is ASCII, and then there is nothing to look for."""
    return text if text is None or text.isascii() else str(document.clean(text))


def _fault(fault: StoreOutage | None) -> Mapping[str, object] | None:
    if fault is None:
        return None
    return {"reason": clean(fault.reason), "advice": clean(fault.advice), "since": _time(fault.since)}


def _time(when: datetime | None) -> str | None:
    """Whole seconds: no store is more exact about when a file was written."""
    if when is None:
        return None
    return when.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _is_number(value: float | None) -> bool:
    return isinstance(json_number(value), (int, float))


def _number(value: float | None, digits: int) -> float | str | None:
    """With so many significant digits; as text where JSON has no such number."""
    told = json_number(value)
    if not isinstance(told, (int, float)):
        return told
    short = float(f"{told:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
