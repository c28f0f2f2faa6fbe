"""All about one run as JSON can hold it. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from lastbeat.explain.signals.hints import restart_hint
from lastbeat.model.as_json import Json, as_json, picked, rounded, shortened
from lastbeat.model.cause import Cause
from lastbeat.model.document import clean
from lastbeat.model.reaction import CommandRun
from lastbeat.model.restart import RestartRuling
from lastbeat.model.similar import SimilarFailure
from lastbeat.model.state import RecordedCause
from lastbeat.model.times import format_time
from lastbeat.model.view import JobLine, LimitInForce, Point, RunView
from lastbeat.views.account import account
from lastbeat.views.documents import row_document
from lastbeat.views.goodput import goodput_document
from lastbeat.views.rank_documents import missing_document, stuck_document

SCHEMA: Final = 1
_SPEEDS: Final = 300
"""Shortest stretch, as a part of the whole, for which a speed is shown: points may be milliseconds apart."""
_RANK: Final = "rank modified step loss phase status host behind fault"
_TRANSITION: Final = "number at before after reason cause attempt silenced step"


def run_document(view: RunView, made_at: datetime | None = None) -> dict[str, object]:
    """The document with all of its documented keys; unknown values are null. ``made_at`` is when it was made."""
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
        **picked(view, "evidence beats keeps_curves metrics learning_rate epoch config training_notes resources"),
        "points": points_document(view.points),
        "curves": curves_document(view.points),
        "node": None
        if view.node is None
        else {"from": format_time(view.node.began_at), **picked(view.node, "each_s series")},
        "phases": [[format_time(each.since), each.phase] for each in view.phases],
        "ranks": [picked(line, _RANK) for line in view.ranks],
        "history": [picked(each, _TRANSITION) for each in view.history],
        "interventions": [picked(each, "at by what") for each in view.interventions],
        **picked(view, "ranks_left_out suspects world_size transitions"),
        "job": job_line_document(view.job) if view.job is not None else None,
        "goodput": goodput_document(view.goodput) if view.goodput is not None else None,
        "attempts": [[format_time(each.since), str(each.status), each.attempt] for each in view.attempts],
        "alerts": {
            "pending": view.alerts_pending,
            "delivered": view.alerts_delivered,
            "dropped": view.alerts_dropped,
            "list": as_json(view.alerts),
        },
        **picked(view, "log logs stacks error_text notes"),
        "account": as_json(account(view)),
    }
    return {name: clean(value) for name, value in document.items()}


def points_document(points: Sequence[Point]) -> Json:
    """Columns of one length. How fast training was at a point is taken from the point before it."""
    return {
        "at": [round(point.at.timestamp(), 3) for point in points],
        "step": [point.step for point in points],
        "loss": [rounded(point.loss) for point in points],
        "learning_rate": [rounded(point.learning_rate) for point in points],
        "steps_per_s": speeds(points),
    }


def curves_document(points: Sequence[Point]) -> Json:
    """A column for each of training's own figures, as long as those of the points."""
    names = dict.fromkeys(name for point in points for name in point.metrics)
    return {name: [rounded(point.metrics.get(name)) for point in points] for name in names}


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
        told.append(shortened(steps / span_s) if tells else None)
        if before is None or back or tells or span_s == 0:
            before = point
    return told


def _limit(limit: LimitInForce) -> Json:
    return picked(limit, "name limit_s source text")


def _explained(explained: RecordedCause | None, now: datetime) -> Json | None:
    if explained is None:
        return None
    missing = explained.missing
    return {
        **_cause(explained.cause),
        **picked(explained.cause, "subsystem restartable frames"),
        "signal": explained.cause.signal or None,
        "fingerprint": explained.cause.fingerprint or None,
        "also_seen": list(explained.also_seen),
        # What it may be as well, where it is undecided which of the two.
        "second": None if explained.second is None else _cause(explained.second),
        "missing": None if missing is None else missing_document(missing),
        "stuck": None if explained.stuck is None else stuck_document(explained.stuck),
        "similar": None if explained.similar is None else _similar(explained.similar, now),
    }


def _cause(cause: Cause) -> Json:
    return {
        "error_type": cause.error_type,
        "evidence": as_json(cause.evidence),
        "confidence": round(cause.confidence, 3),
        "hint": cause.hint or None,
        "restart": restart_hint(cause.restartable, cause.confidence),
    }


def _similar(found: SimilarFailure, now: datetime) -> Json:
    told = found.told(now)
    return {**picked(found, "run_id at attempt own runs"), "aftermath": found.aftermath or None, "text": told}


def job_line_document(line: JobLine) -> Json:
    """The job of a supervised run, and what was decided about restarts."""
    job = line.job
    budgets = line.budgets
    return {
        **picked(line, "restarts supervised_by supervised_since over checkpoint starts_at notes"),
        "policy": line.policy or None,
        "launcher": line.launcher or (job.launcher if job is not None else None),
        "id": job.id if job is not None else None,
        "name": job.name if job is not None else None,
        "state": job.state.value if job is not None else None,
        "nodes": list(job.nodes) if job is not None else [],
        "budgets": None if budgets is None else [picked(each, "name used limit left") for each in budgets],
        "next": line.next_job,
        "commands": [_command(each) for each in line.commands],
        "ruling": None if line.ruling is None else _ruling(line.ruling),
    }


def _ruling(ruling: RestartRuling) -> Json:
    return {
        **picked(ruling, "reason resume_from resume_step at"),
        "job": ruling.number,
        "action": "restart" if ruling.restart else "stop",
        "attempt": ruling.attempt or None,
        "passed_over": ruling.passed_over or None,
        "lives_on": ruling.job or None,
    }


def _command(run: CommandRun) -> Json:
    return {
        **picked(run, "name on at limit_s ended_at failed"),
        "host": run.place or None,
        "how": run.how or None,
        "output": run.output or None,
    }
