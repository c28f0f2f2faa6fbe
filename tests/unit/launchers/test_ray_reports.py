"""What Ray says of a job, in our words: answers of Ray 2.60, and what no Ray should say."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.jobs.launchers.ray.reports import node_ids, report
from lastbeat.model.job import JobState
from support.row_by_row import labelled

NODE = "d7e3646e7166e03be1e1e095bea5bd13e92b025fc19f61d19c8396fc"
RAN: dict[str, Any] = {
    "type": "SUBMISSION",
    "submission_id": "llama-r0-1",
    "status": "FAILED",
    "message": None,
    "error_type": None,
    "start_time": 1795399554371,
    "end_time": 1795399557098,
    "driver_agent_http_address": "http://10.0.3.7:47109",
    "driver_node_id": NODE,
    "driver_exit_code": None,
}
NODE_DIED = (
    "Job supervisor actor died: The actor died unexpectedly before finishing this task.\n\tclass_name: JobSupervisor\n"
    f"\tip: 127.0.0.3\nThe actor died because its node has died. Node Id: {NODE}\n"
    "\tthe actor's node was terminated unexpectedly: health check failed due to missing too many heartbeats"
)
FAILED = "Job entrypoint command failed with exit code {}, last available logs (truncated to 20,000 chars):\n{}"
STATES = [
    ("it runs", {"status": "RUNNING"}, JobState.RUNNING, None, None),
    ("it ended well", {"status": "SUCCEEDED", "driver_exit_code": 0}, JobState.SUCCEEDED, 0, None),
    ("it was stopped", {"status": "STOPPED"}, JobState.CANCELLED, None, None),
    ("it failed with a status", {"driver_exit_code": 7}, JobState.FAILED, 7, None),
    ("a signal is a negative status", {"driver_exit_code": -9}, JobState.FAILED, None, 9),
    ("a signal that the message alone has", {"message": FAILED.format(-9, "")}, JobState.FAILED, None, 9),
    ("what stands below the first line is the job's",
     {"message": "Unexpected error occurred: failed to get job supervisor.\nexit code 3"}, JobState.FAILED, None, None),
    ("lost", {"message": NODE_DIED, "error_type": "JOB_SUPERVISOR_ACTOR_DIED"}, JobState.NODE_LOST, None, None),
    ("a job may write what it wants about nodes", {"message": FAILED.format(1, "RuntimeError: node has died"),
     "driver_exit_code": 1}, JobState.FAILED, 1, None),
    ("a word that nobody knows", {"status": "LOST IN SPACE"}, JobState.UNKNOWN, None, None),
]  # fmt: skip


@pytest.mark.parametrize(("told", "state", "code", "signal"), labelled(STATES))
def test_a_word_of_rays_means(told: dict[str, Any], state: JobState, code: int | None, signal: int | None) -> None:
    found = report({**RAN, **told})
    assert (found.state, found.exit_code, found.signal) == (state, code, signal)


def test_a_lost_node_is_named_as_people_and_logs_may_know_it() -> None:
    found = report({**RAN, "message": NODE_DIED})
    assert (found.nodes, found.failed_node) == (("10.0.3.7-d7e3646e",), "10.0.3.7-d7e3646e")


def test_times_are_those_of_the_run() -> None:
    found = report(RAN)
    assert found.started_at is not None
    assert found.ended_at is not None
    assert (found.ended_at - found.started_at).total_seconds() == pytest.approx(2.727)
    assert report({**RAN, "status": "RUNNING"}).ended_at is None
    assert report({**RAN, "status": "PENDING"}).started_at is None


REASONS = [
    pytest.param({"message": FAILED.format(7, "Traceback …"), "driver_exit_code": 7},
                 "Job entrypoint command failed with exit code 7", id="without the log, which is read for itself"),
    pytest.param({"message": "runtime_env setup failed: Failed to set up runtime environment.\nTraceback:\n  x\n"
                 "ConnectionError: no such host\n", "error_type": "RUNTIME_ENV_SETUP_FAILURE"},
                 "runtime_env setup failed: Failed to set up runtime environment. ConnectionError: no such host",
                 id="what was wrong with the environment stands at the end"),
    pytest.param({"error_type": "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE"}, "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE", id="kind"),
    pytest.param({"status": "RUNNING", "message": "Job is currently running."}, "", id="a run needs none"),
]  # fmt: skip


@pytest.mark.parametrize(("told", "reason"), REASONS)
def test_why(told: dict[str, Any], reason: str) -> None:
    assert report({**RAN, **told}).reason == reason


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=2)
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(RAN, ANYTHING)))
def test_nothing_that_ray_may_say_breaks_it(told: dict[str, Any]) -> None:
    found = report({**RAN, **told})
    assert len(found.reason) <= 400
    assert "\n" not in found.reason


NODES = [
    {"node_id": NODE, "node_ip": "10.0.3.7", "node_name": "gpu-7", "state": "ALIVE"},
    {"node_id": "d7e3646e" + "0" * 48, "node_ip": "10.0.3.7", "node_name": "10.0.3.7", "state": "DEAD"},
    {"node_id": "b10df308" + "0" * 48, "node_ip": "10.0.3.8", "node_name": "10.0.3.8", "state": "ALIVE"},
]


@pytest.mark.parametrize(("name", "ids"), labelled([
    ("by lastbeat's own name, and only where it lives", "10.0.3.7-d7e3646e", [NODE]),
    ("by the beginning of its id", "d7e3646e", [NODE]),
    ("by its address, as logs do", "10.0.3.7", [NODE]),
    ("by the name that it was started with", "gpu-7", [NODE]),
    ("an address of another node's", "10.0.3.8-d7e3646e", []),
    ("nothing", "", []),
]))  # fmt: skip
def test_a_node_is_found_by(name: str, ids: list[str]) -> None:
    assert node_ids((name,), NODES) == {name: ids}
