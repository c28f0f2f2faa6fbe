"""Functions for scripts: their arguments have one order, a job's state is one of a few words, and results are typed
mappings that any program takes."""

import inspect
import json

import pytest

from lastbeat.launch import ray
from lastbeat.launch.jobs import ABSENT, Forgetting
from lastbeat.launch.ray import (
    RestartResult,
    check_job_status,
)
from support.http_sink import Answer, http_sink
from support.row_by_row import labelled

FUNCTIONS = [each for name in ray.__all__ if inspect.isfunction(each := getattr(ray, name))]


def test_the_namespace_is_the_last_argument() -> None:
    orders = {each.__name__: list(inspect.signature(each).parameters) for each in FUNCTIONS}
    asking = {name: order for name, order in orders.items() if "namespace" in order}
    assert len(asking) > 5
    assert {name: order[-1] for name, order in asking.items()} == dict.fromkeys(asking, "namespace")


STATES = [
    ("a job that waits is PENDING", Answer(200, json.dumps({"status": "PENDING"}).encode()), "PENDING"),
    ("a job that runs is RUNNING", Answer(200, json.dumps({"status": "RUNNING"}).encode()), "RUNNING"),
    ("a job that ended well is SUCCEEDED", Answer(200, json.dumps({"status": "SUCCEEDED"}).encode()), "SUCCEEDED"),
    ("a job that failed is FAILED", Answer(200, json.dumps({"status": "FAILED"}).encode()), "FAILED"),
    ("a stopped job is FAILED, or loops never end", Answer(200, json.dumps({"status": "STOPPED"}).encode()), "FAILED"),
    ("a strange word is UNKNOWN", Answer(200, json.dumps({"status": "DREAMING"}).encode()), "UNKNOWN"),
    ("a job without a state is UNKNOWN", Answer(200, b"{}"), "UNKNOWN"),
    ("a job that Ray does not know is UNKNOWN", Answer(404, b"Job train does not exist"), "UNKNOWN"),
    ("an error of Ray's is UNKNOWN", Answer(500, b"Traceback"), "UNKNOWN"),
]


@pytest.mark.parametrize(("answer", "status"), labelled(STATES))
def test_the_state_of_a_job(answer: Answer, status: str) -> None:
    with http_sink() as dashboard:
        dashboard.otherwise = answer

        assert check_job_status(dashboard.url, "train") == status


FORGOTTEN = [
    ("it has just been forgotten", [(0, ABSENT), (599, ABSENT)], False),
    ("it has been for ten minutes", [(0, ABSENT), (600, ABSENT)], True),
    ("no answer for an hour is none", [(0, None), (600, None), (3600, None)], False),
    ("it was forgotten, and now nobody answers", [(0, ABSENT), (3600, None)], False),
    ("nobody answered, and now it is forgotten", [(0, None), (3600, ABSENT), (3900, ABSENT)], False),
    ("it is known again", [(0, ABSENT), (300, "RUNNING"), (650, ABSENT)], False),
    ("its state is a strange one", [(0, ABSENT), (700, "UNKNOWN")], False),
]


@pytest.mark.parametrize(("answers", "certain"), labelled(FORGOTTEN))
def test_only_what_the_cluster_answers_says_that_a_job_is_forgotten(
    answers: list[tuple[float, str | None]], certain: bool
) -> None:
    forgetting = Forgetting()

    assert [forgetting.is_certain(answer, at) for at, answer in answers][-1] is certain  # type: ignore[arg-type]


def test_a_field_is_an_item() -> None:
    result = RestartResult(True, 120, 2, "it ended well")

    assert result.success is result["success"] is True
    assert dict(result) == {"success": True, "final_step": 120, "total_retries": 2, "reason": "it ended well"}
    assert result == dict(result)
    assert (len(result), "final_step" in result, result.get("steps", 7)) == (4, True, 7)
    with pytest.raises(KeyError):
        result["steps"]
    with pytest.raises(KeyError):
        result["keys"]
