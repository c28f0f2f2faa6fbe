"""The supervised runs of a fleet: who looks after each, and what to do where nobody does."""

import json

import pytest

from lastbeat.jobs.supervision.lease import LEASE_S, SupervisorLease
from lastbeat.model.job import JobState
from lastbeat.views.jobs import JobRow, in_order, job_row, jobs_document
from lastbeat.views.safe import Safe
from support.jobs import SupervisedScene
from support.there import there


def row_of(scene: SupervisedScene, agent: str | None = None) -> JobRow:
    record = there(scene.repository().reload())
    return there(job_row(record, scene.store.now, lambda launcher: agent if launcher == "local" else None, Safe(str)))


def begun() -> tuple[SupervisedScene, SupervisorLease]:
    scene, lease = SupervisedScene(), SupervisorLease("ada@login1", "one")
    scene.begin(lease)
    for _ in range(2):
        scene.watch(lease=lease).tick()
    return scene, lease


@pytest.mark.parametrize(
    ("passed_s", "state", "agent", "by", "resume"),
    [
        pytest.param(0, JobState.RUNNING, None, "ada@login1", None, id="somebody looks after it"),
        pytest.param(LEASE_S + 1, JobState.RUNNING, None, None, "lastbeat restart run",
                     id="nobody does any more"),
        pytest.param(LEASE_S + 1, JobState.RUNNING, "bob@login2", None, None, id="an agent does"),
        pytest.param(LEASE_S + 1, JobState.SUCCEEDED, None, None, None, id="nobody has to"),
    ],
)  # fmt: skip
def test_who_looks_after_a_job(
    passed_s: float, state: JobState, agent: str | None, by: str | None, resume: str | None
) -> None:
    scene, lease = begun()
    scene.end("run-r0", state)
    if state.ended:
        scene.watch(lease=lease).tick()
    scene.store.pass_time(passed_s)
    row = row_of(scene, agent)
    assert (row.line.supervised_by, row.resume, row.agent) == (by, resume, agent)
    assert row.line.over is state.ended


def test_those_that_nobody_looks_after_come_first() -> None:
    alone, _ = begun()
    alone.store.pass_time(LEASE_S + 1)
    cared, _ = begun()
    rows = [row_of(cared), row_of(alone)]
    assert [row.alone for row in in_order(rows)] == [True, False]


def test_every_key_is_always_there() -> None:
    waits = SupervisedScene(policy=None)
    waits.begin()
    scene, _ = begun()
    documents = [
        jobs_document([row_of(each)], root="memory://", at=each.store.now, notes=["a note"], hidden=2)
        for each in (waits, scene)
    ]
    first, second = (json.loads(json.dumps(each)) for each in documents)
    assert set(first) == {"schema", "root", "at", "over", "notes", "jobs"}
    assert set(first["jobs"][0]) == set(second["jobs"][0]) == {
        "run_id", "status", "attempt", "begun_by", "begun_at", "agent", "alone", "resume", "job",
    }  # fmt: skip
    assert set(first["jobs"][0]["job"]) == set(second["jobs"][0]["job"])
    assert first["jobs"][0]["job"]["next"] == "run-r0"
    assert second["jobs"][0]["job"]["state"] == "RUNNING"
