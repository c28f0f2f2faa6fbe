"""All about one run as JSON can hold it. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from lastbeat.explain.signals.hints import restart_hint
from lastbeat.model.cause import Cause, Evidence, MissingRanks
from lastbeat.model.document import clean
from lastbeat.model.numbers import json_number
from lastbeat.model.reaction import CommandRun
from lastbeat.model.record import Transition
from lastbeat.model.resources import Resources
from lastbeat.model.restart import FoundCheckpoint
from lastbeat.model.similar import SimilarFailure
from lastbeat.model.state import RecordedCause
from lastbeat.model.times import format_time
from lastbeat.model.view import (
    Excerpt,
    HeartbeatFile,
    JobLine,
    LimitInForce,
    NodeCurves,
    Point,
    RankLine,
    RunView,
    SentAlert,
    Span,
)
from lastbeat.views.account import account
from lastbeat.views.documents import row_document
from lastbeat.views.goodput import goodput_document

SCHEMA: Final = 1
_DIGITS: Final = 6
_SPEEDS: Final = 300
"""Shortest stretch, as a part of the whole, for which a speed is shown: points may be milliseconds apart."""
Json = dict[str, Any]


def run_document(view: RunView, made_at: datetime | None = None) -> dict[str, object]:
    """The document with all of its documented keys; unknown values are null. ``made_at`` is when it was made."""
    told = account(view)
    document: Json = {
        "schema": SCHEMA,
        "at": format_time(view.at),
        "made_at": format_time(made_at or view.at),
        "where": view.where,
        "link": view.link,
        "stale_s": view.stale_s,
        "limits": [_limit(each) for each in view.limits],
        "exceeded": _limit(view.exceeded) if view.exceeded is not None else None,
        "seen_at": format_time(view.seen_at),
        "run": row_document(view.row),
        "conditions": dict(view.conditions),
        "explained": _explained(view.explained, view.at),
        "evidence": excerpt_document(view.evidence),
        "beats": [_beat(beat) for beat in view.beats],
        "points": points_document(view.points),
        "curves": curves_document(view.points),
        "metrics": {name: _number(value) for name, value in view.metrics.items()},
        "learning_rate": _number(view.learning_rate),
        "epoch": _number(view.epoch),
        "resources": _resources(view.resources),
        "node": _node(view.node),
        "phases": [[format_time(each.since), each.phase] for each in view.phases],
        "ranks": [_rank(line) for line in view.ranks],
        "ranks_left_out": view.ranks_left_out,
        "suspects": view.suspects,
        "world_size": view.world_size,
        "history": [_transition(each) for each in view.history],
        "transitions": view.transitions,
        "job": job_line_document(view.job) if view.job is not None else None,
        "goodput": goodput_document(view.goodput) if view.goodput is not None else None,
        "attempts": [_span(span) for span in view.attempts],
        "alerts": {
            "pending": view.alerts_pending,
            "delivered": view.alerts_delivered,
            "dropped": view.alerts_dropped,
            "list": [_alert(alert) for alert in view.alerts],
        },
        "log": excerpt_document(view.log),
        "logs": [[name, format_time(at), size] for name, at, size in view.logs],
        "stacks": excerpt_document(view.stacks),
        "error_text": view.error_text,
        "account": {
            "excerpts": [excerpt_document(each) for each in told.excerpts],
            "log": [excerpt_document(each) for each in told.log],
        },
        "notes": list(view.notes),
    }
    return {name: clean(value) for name, value in document.items()}


def points_document(points: Sequence[Point]) -> Json:
    """Columns of one length. How fast training was at a point is taken from the point before it."""
    return {
        "at": [round(point.at.timestamp(), 3) for point in points],
        "step": [point.step for point in points],
        "loss": [_number(point.loss) for point in points],
        "learning_rate": [_number(point.learning_rate) for point in points],
        "steps_per_s": speeds(points),
    }


def curves_document(points: Sequence[Point]) -> Json:
    """A column for each of training's own figures, as long as those of the points."""
    names = dict.fromkeys(name for point in points for name in point.metrics)
    return {name: [_number(point.metrics.get(name)) for point in points] for name in names}


def speeds(points: Sequence[Point]) -> list[float | None]:
    """Steps a second at each point, since one that is far enough behind to tell; None for the first, where none is, and
    where time or steps went back: there another attempt, or another clock, began."""
    told: list[float | None] = []
    least_s = (points[-1].at - points[0].at).total_seconds() / _SPEEDS if points else 0.0
    before: Point | None = None
    for point in points:
        span_s = (point.at - before.at).total_seconds() if before is not None else 0.0
        steps = point.step - before.step if before is not None else 0
        back = span_s < 0 or steps < 0
        tells = before is not None and not back and span_s > 0 and span_s >= least_s
        told.append(_short(steps / span_s) if tells else None)
        if before is None or back or tells or span_s == 0:
            before = point
    return told


def excerpt_document(excerpt: Excerpt | None) -> Json | None:
    if excerpt is None:
        return None
    return {
        "file": excerpt.file,
        "lines": list(excerpt.lines),
        "first_line": excerpt.first_line,
        "marked": excerpt.marked,
        "modified": format_time(excerpt.modified),
        "size_bytes": excerpt.size_bytes,
        "note": excerpt.note,
    }


def _limit(limit: LimitInForce) -> Json:
    return {"name": limit.name, "limit_s": _number(limit.limit_s), "source": limit.source, "text": limit.text}


def _explained(explained: RecordedCause | None, now: datetime) -> Json | None:
    if explained is None:
        return None
    cause = explained.cause
    return {
        "error_type": cause.error_type,
        "evidence": _evidence(cause.evidence),
        "confidence": round(cause.confidence, 3),
        "subsystem": cause.subsystem,
        "restartable": cause.restartable,
        "hint": cause.hint or None,
        "restart": restart_hint(cause.restartable, cause.confidence),
        "signal": cause.signal or None,
        "frames": list(cause.frames),
        "also_seen": list(explained.also_seen),
        "second": _second(explained.second),
        "missing": None if explained.missing is None else missing_document(explained.missing),
        "fingerprint": cause.fingerprint or None,
        "similar": _similar(explained.similar, now),
    }


def missing_document(missing: MissingRanks) -> Json:
    """The ranks to look at, where all others report a timeout."""
    ranks = [
        {
            "rank": each.rank,
            "host": each.host,
            "log": each.log or None,
            "last_line_at": format_time(each.time),
            "step": each.step,
            "stack": each.stack or None,
        }
        for each in missing.ranks
    ]
    return {"ranks": ranks, "count": missing.count, "world_size": missing.world_size, "text": missing.sentence}


def _second(cause: Cause | None) -> Json | None:
    """What it may be as well, where it is undecided which of the two."""
    if cause is None:
        return None
    return {
        "error_type": cause.error_type,
        "evidence": _evidence(cause.evidence),
        "confidence": round(cause.confidence, 3),
        "hint": cause.hint or None,
        "restart": restart_hint(cause.restartable, cause.confidence),
    }


def _similar(found: SimilarFailure | None, now: datetime) -> Json | None:
    if found is None:
        return None
    return {
        "run_id": found.run_id,
        "at": format_time(found.at),
        "attempt": found.attempt,
        "own": found.own,
        "runs": found.runs,
        "aftermath": found.aftermath or None,
        "text": found.told(now),
    }


def _evidence(evidence: Evidence) -> Json:
    return {
        "file": evidence.file,
        "line": evidence.line,
        "text": evidence.text,
        "rank": evidence.rank,
        "host": evidence.host,
        "time": format_time(evidence.time),
    }


def _transition(transition: Transition) -> Json:
    return {
        "number": transition.number,
        "at": format_time(transition.at),
        "before": transition.before.value if transition.before is not None else None,
        "after": transition.after.value,
        "reason": transition.reason,
        "cause": transition.cause,
        "attempt": transition.attempt,
        "silenced": transition.silenced,
        "step": transition.step,
    }


def _beat(beat: HeartbeatFile) -> Json:
    return {
        "name": beat.name,
        "modified": format_time(beat.modified),
        "own_time": format_time(beat.own_time),
        "fault": beat.fault,
        "facts": dict(beat.facts),
    }


def _resources(found: Resources | None) -> Json | None:
    if found is None:
        return None
    return {
        "cpu": _number(found.cpu),
        "rss_bytes": found.rss_bytes,
        "memory_available_bytes": found.memory_available_bytes,
        "memory_total_bytes": found.memory_total_bytes,
        "gpus": [
            {
                "name": gpu.name,
                "utilization": _number(gpu.utilization),
                "memory_used_bytes": gpu.memory_used_bytes,
                "memory_total_bytes": gpu.memory_total_bytes,
                "temperature_c": _number(gpu.temperature_c),
                "power_w": _number(gpu.power_w),
                "throttle": list(gpu.throttle),
                "lost": gpu.lost,
            }
            for gpu in found.gpus
        ],
    }


def _node(found: NodeCurves | None) -> Json | None:
    if found is None:
        return None
    series = {name: [_number(value) for value in column] for name, column in found.series.items()}
    return {"from": format_time(found.began_at), "each_s": _number(found.each_s), "series": series}


def _rank(line: RankLine) -> Json:
    return {
        "rank": line.rank,
        "modified": format_time(line.modified),
        "step": line.step,
        "loss": _number(line.loss),
        "phase": line.phase,
        "status": line.status,
        "host": line.host,
        "behind": line.behind,
        "fault": line.fault,
    }


def job_line_document(line: JobLine) -> Json:
    """The job of a supervised run, and what was decided about restarts."""
    job, ruling = line.job, line.ruling
    return {
        "policy": line.policy or None,
        "launcher": line.launcher or (job.launcher if job is not None else None),
        "id": job.id if job is not None else None,
        "name": job.name if job is not None else None,
        "state": job.state.value if job is not None else None,
        "nodes": list(job.nodes) if job is not None else [],
        "restarts": line.restarts,
        "budgets": None
        if line.budgets is None
        else [{"name": each.name, "used": each.used, "limit": each.limit, "left": each.left} for each in line.budgets],
        "supervised_by": line.supervised_by,
        "supervised_since": format_time(line.supervised_since),
        "over": line.over,
        "checkpoint": None if line.checkpoint is None else _checkpoint(line.checkpoint),
        "next": line.next_job,
        "starts_at": format_time(line.starts_at),
        "notes": [{"at": format_time(each.at), "on": each.on, "text": each.text} for each in line.notes],
        "commands": [_command(each) for each in line.commands],
        "ruling": None
        if ruling is None
        else {
            "job": ruling.number,
            "action": "restart" if ruling.restart else "stop",
            "reason": ruling.reason,
            "attempt": ruling.attempt or None,
            "resume_from": ruling.resume_from,
            "resume_step": ruling.resume_step,
            "passed_over": ruling.passed_over or None,
            "lives_on": ruling.job or None,
            "at": format_time(ruling.at),
        },
    }


def _checkpoint(found: FoundCheckpoint) -> Json:
    return {
        "url": found.url,
        "step": found.step,
        "saved_at": format_time(found.saved_at),
        "found_at": format_time(found.found_at),
    }


def _command(run: CommandRun) -> Json:
    return {
        "name": run.name,
        "on": run.on,
        "at": format_time(run.at),
        "limit_s": run.limit_s,
        "host": run.place or None,
        "ended_at": format_time(run.ended_at),
        "failed": run.failed,
        "how": run.how or None,
        "output": run.output or None,
    }


def _span(span: Span) -> list[object]:
    return [format_time(span.since), str(span.status), span.attempt]


def _alert(alert: SentAlert) -> Json:
    return {
        "number": alert.number,
        "event": alert.event,
        "at": format_time(alert.at),
        "reason": alert.reason,
        "deliveries": [[channel, state, format_time(at)] for channel, state, at in alert.deliveries],
        "error": alert.error,
    }


def _number(value: float | None) -> float | str | None:
    return json_number(_short(value))


def _short(value: float | None) -> float | None:
    """As many digits as people can make use of."""
    return None if value is None else float(f"{value:.{_DIGITS}g}")
