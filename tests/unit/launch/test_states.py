"""The word that ``check_job_status`` has for a job's state."""

import json

import pytest

from lastbeat.launch.ray import check_job_status
from support.http_sink import Answer, http_sink
from support.row_by_row import labelled

ROWS = [
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


@pytest.mark.parametrize(("answer", "status"), labelled(ROWS))
def test_a_job(answer: Answer, status: str) -> None:
    with http_sink() as dashboard:
        dashboard.otherwise = answer

        assert check_job_status(dashboard.url, "train") == status
