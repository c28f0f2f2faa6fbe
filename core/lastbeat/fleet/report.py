"""A pass report as JSON, for ``lastbeat sweep --json`` and the Lambda function."""

from lastbeat.model.fleet import PassReport, RunLine
from lastbeat.model.record import Transition
from lastbeat.model.times import format_time


def pass_document(report: PassReport) -> dict[str, object]:
    """The report with all documented keys; null for unknown values. Pure.

    Texts are not masked yet: mask them before the document leaves the process.
    """
    return {
        "at": format_time(report.at),
        "seconds": round(report.seconds, 3),
        "complete": report.complete,
        "blind": report.blind,
        "advice": report.advice or None,
        "plan": report.plan,
        "statuses": dict(report.statuses),
        "finished": report.finished,
        "looked": report.looked,
        "transitions": [_transition(run_id, transition) for run_id, transition in report.transitions],
        "runs": [_line(line) for line in report.lines],
        "unreadable": dict(report.unreadable),
        "unreadable_count": report.unreadable_count,
        "ignored": list(report.ignored),
        "alerts": {"sent": report.sent, "failed": report.failed, "pending": report.pending},
        "requests": dict(report.requests),
        "oldest_observation_s": round(report.oldest_observation_s, 1),
        "notes": list(report.notes),
    }


def _transition(run_id: str, transition: Transition) -> dict[str, object]:
    return {
        "run_id": run_id,
        "before": None if transition.before is None else str(transition.before),
        "after": str(transition.after),
        "reason": transition.reason,
        "cause": transition.cause,
        "attempt": transition.attempt,
    }


def _line(line: RunLine) -> dict[str, object]:
    return {
        "run_id": line.run_id,
        "status": str(line.status),
        "reason": line.reason,
        "cause": line.cause,
        "action": line.action,
        "conditions": list(line.conditions),
        "since": format_time(line.since),
        "attempt": line.attempt,
        "owner": line.owner,
    }
