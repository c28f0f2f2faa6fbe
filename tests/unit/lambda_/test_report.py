"""A pass as JSON."""

import json
from datetime import datetime, timezone

from lastbeat.fleet.report import pass_document
from lastbeat.model.fleet import PassReport, RunLine
from lastbeat.model.record import Transition
from lastbeat.model.status import Status

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def test_an_empty_pass_has_every_key() -> None:
    assert pass_document(PassReport(NOW)) == {
        "at": "2026-01-01T12:00:00Z",
        "seconds": 0.0,
        "complete": True,
        "blind": None,
        "advice": None,
        "plan": "list",
        "statuses": {},
        "finished": 0,
        "looked": 0,
        "transitions": [],
        "runs": [],
        "unreadable": {},
        "unreadable_count": 0,
        "ignored": [],
        "alerts": {"sent": 0, "failed": 0, "pending": 0},
        "requests": {},
        "oldest_observation_s": 0.0,
        "notes": [],
    }


def test_runs_and_transitions_are_there_and_all_of_it_is_json() -> None:
    changed = Transition(3, NOW, Status.RUNNING, Status.FAILED, "boom", 2, "oom")
    line = RunLine("run-1", Status.FAILED, "boom", "oom", "smaller batches", ("stalled",), NOW, 2)
    first = Transition(1, NOW, None, Status.RUNNING, "beats", 1)
    report = PassReport(NOW, transitions=(("run-1", changed), ("run-2", first)), lines=(line,), requests={"GET": 3})
    document = json.loads(json.dumps(pass_document(report)))
    assert document["transitions"] == [
        {"run_id": "run-1", "before": "RUNNING", "after": "FAILED", "reason": "boom", "cause": "oom", "attempt": 2},
        {"run_id": "run-2", "before": None, "after": "RUNNING", "reason": "beats", "cause": None, "attempt": 1},
    ]
    assert document["runs"] == [
        {
            "run_id": "run-1",
            "status": "FAILED",
            "reason": "boom",
            "cause": "oom",
            "action": "smaller batches",
            "conditions": ["stalled"],
            "since": "2026-01-01T12:00:00Z",
            "attempt": 2,
            "owner": None,
        }
    ]
    assert document["requests"] == {"GET": 3}


def test_a_run_that_could_not_be_observed_is_named_with_the_reason_beside_all_others() -> None:
    told = pass_document(
        PassReport(NOW, statuses={"RUNNING": 8, "UNKNOWN": 1}, unreadable={"bad": "403"}, unreadable_count=1)
    )
    assert (told["unreadable"], told["unreadable_count"], told["blind"]) == ({"bad": "403"}, 1, None)
    assert told["statuses"] == {"RUNNING": 8, "UNKNOWN": 1}
