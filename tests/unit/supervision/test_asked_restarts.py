"""A person asks for the restart of a job: one that waits, hangs, runs or was not to be restarted. It starts once."""

from dataclasses import replace

import pytest

from lastbeat.jobs.restart_requests import NotRestartedError, ask_restart
from lastbeat.jobs.supervision.lease import SupervisorLease
from lastbeat.model.job import JobState
from lastbeat.model.status import Status
from support.jobs import RUN, SupervisedScene
from support.memory import Killed
from unit.supervision.test_calling_off import waiting
from unit.supervision.test_supervised import running, settled


def asked(scene: SupervisedScene, by: str = "ana@desk") -> str:
    """What a person is told who asks for the restart."""
    said: list[str] = []

    def change(record: object) -> object:
        found = ask_restart(scene.record(), RUN, by, scene.store.now, None)
        said.append(found.outlook)
        return found.record

    scene.repository().update(change)  # type: ignore[arg-type]  # the record of the scene
    return said[-1]


def given_up() -> SupervisedScene:
    """Its job failed, and no policy restarts it."""
    scene = running(SupervisedScene(policy=None))
    scene.end("run-r0", JobState.FAILED, 1)
    settled(scene)
    return scene


def live() -> SupervisedScene:
    scene = running(SupervisedScene())
    scene.store.put_text(f"{RUN}/metadata.json", "{}")
    scene.watch().tick()
    return scene


@pytest.mark.parametrize(
    ("made", "says"),
    [
        pytest.param(waiting, "run-r1 starts now, instead of in", id="one that waits for its delay"),
        pytest.param(given_up, "run-r1 starts, whatever the policy says", id="one that no policy restarts"),
        pytest.param(live, "Job run-r0 is ended first.", id="one that runs"),
    ],
)
def test_the_next_job_starts_once_however_often_people_ask(made: object, says: str) -> None:
    scene: SupervisedScene = made()  # type: ignore[operator]  # one of those above
    assert says in asked(scene)
    asked(scene, "ben@desk")
    for _ in range(8):
        scene.store.pass_time(3)
        scene.watch().tick()
    assert scene.launcher.submitted == ["run-r0", "run-r1"]
    assert scene.launcher.alive_at_once == 1
    assert [each.by for each in scene.record().interventions] == ["ana@desk"], "the second found it done"
    assert scene.record().restart_request is None


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("call", range(6))
def test_a_supervisor_that_dies_over_it_leaves_it_to_the_next(call: int, before: bool) -> None:
    scene = given_up()
    asked(scene)
    scene.launcher.die_at(call, Killed, before=before)
    try:
        for _ in range(3):
            scene.store.pass_time(3)
            scene.watch().tick()
    except Killed:
        pass
    scene.launcher.heal()
    for _ in range(6):
        scene.store.pass_time(700)
        scene.watch().tick()
    assert scene.launcher.submitted == ["run-r0", "run-r1"]


def test_a_request_lapses_after_an_hour() -> None:
    scene = given_up()
    assert "No supervisor is at work: within 1h" in asked(scene)
    scene.store.pass_time(3700)
    settled(scene)
    assert (scene.launcher.submitted, scene.record().restart_request) == (["run-r0"], None)


def test_the_lease_of_a_supervisor_says_that_it_will_be_done() -> None:
    scene = given_up()
    lease = SupervisorLease("ops@login", "t")
    scene.repository().update(lambda record: record and lease.with_lease(record, scene.store.now))
    assert "No supervisor" not in asked(scene)


def test_what_ended_well_or_by_a_person_is_not_restarted() -> None:
    record = given_up().record()
    for status in (Status.SUCCEEDED, Status.CANCELLED):
        assert record.state is not None
        over = replace(record, state=replace(record.state, status=status))
        with pytest.raises(NotRestartedError, match=str(status)):
            ask_restart(over, RUN, "ana", record.since, None)  # type: ignore[arg-type]  # it has a time
