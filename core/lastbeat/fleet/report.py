"""A pass report as JSON, for ``lastbeat sweep --json`` and the Lambda function."""

from lastbeat.model.as_json import Json, picked
from lastbeat.model.fleet import PassReport


def pass_document(report: PassReport) -> Json:
    """The report with all documented keys; null for unknown values. Pure.

    Texts are not masked yet: mask them before the document leaves the process.
    """
    return {
        **picked(
            report, "at complete blind plan statuses finished looked unreadable unreadable_count ignored requests notes"
        ),
        "seconds": round(report.seconds, 3),
        "advice": report.advice or None,
        "transitions": [
            {"run_id": run_id, **picked(each, "before after reason cause attempt")}
            for run_id, each in report.transitions
        ],
        "runs": [
            picked(line, "run_id status reason cause action conditions since attempt owner") for line in report.lines
        ],
        "alerts": picked(report, "sent failed pending"),
        "oldest_observation_s": round(report.oldest_observation_s, 1),
    }
