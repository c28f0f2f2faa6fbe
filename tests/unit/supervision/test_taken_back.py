"""When a restart that somebody has claimed is taken back, and when it is too late for that."""

from dataclasses import replace

import pytest

from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.model.job import JobState
from lastbeat.model.policy import Policy
from lastbeat.model.status import Status
from lastbeat.watch.effects.runner import ACTION_LEASE_S
from support.jobs import RUN, SupervisedScene
from support.memory import Killed
from unit.supervision.test_rulings import step
from unit.supervision.test_supervised import running

STALLS = replace(Policy(), stall_s=60.0)


def given_up(scene: SupervisedScene) -> SupervisedScene:
    """A job stands still for too long; whoever looks next says so."""
    step(scene, 1)
    scene.watch().tick()
    scene.store.pass_time(130)
    scene.store.put_text(f"{RUN}/metadata.json", "{}")
    return scene


def gets_on(scene: SupervisedScene, number: int = 2) -> None:
    scene.store.pass_time(10)
    step(scene, number)
    scene.store.put_text(f"{RUN}/metadata.json", "{}")


def test_what_was_claimed_while_the_scheduler_did_not_answer_is_taken_back() -> None:
    scene = given_up(running(SupervisedScene(limits=STALLS)))

    def silent_after_the_look(operation: str, _name: str) -> None:
        if operation != "state":
            raise LauncherError("no answer")

    scene.launcher.before = silent_after_the_look
    outcome = scene.watch().tick()
    assert (outcome.status, scene.record().actions[-1].claims) == (Status.TIMED_OUT, 1)
    scene.launcher.heal()
    gets_on(scene)
    outcome = scene.watch().tick()
    assert (outcome.status, scene.record().ruling, scene.record().restarts) == (Status.RUNNING, None, ())
    scene.store.pass_time(5)
    scene.watch().tick()
    assert (scene.launcher.submitted, ("cancel", "run-r0") in scene.launcher.calls) == (["run-r0"], False)


def test_what_somebody_claimed_and_died_over_is_taken_back_when_its_claim_is_over() -> None:
    scene = given_up(running(SupervisedScene(limits=STALLS)))
    scene.launcher.refuse("find", Killed)
    with pytest.raises(Killed):
        scene.watch().tick()
    scene.heal()
    for number in range(2, 5):
        scene.store.pass_time(ACTION_LEASE_S / 2)
        gets_on(scene, number)
        outcome = scene.watch().tick()
    assert (outcome.status, scene.record().ruling) == (Status.RUNNING, None)
    assert (scene.launcher.submitted, ("cancel", "run-r0") in scene.launcher.calls) == (["run-r0"], False)


def test_once_the_old_job_is_told_to_end_it_is_followed_whatever_it_still_does() -> None:
    scene = given_up(running(SupervisedScene(limits=STALLS)))
    scene.launcher.ends_when_cancelled = False
    scene.watch().tick()
    assert ("cancel", "run-r0") in scene.launcher.calls
    gets_on(scene)
    scene.watch().tick()
    scene.end("run-r0", JobState.CANCELLED)
    for _ in range(3):
        scene.store.pass_time(10)
        scene.watch().tick()
    assert scene.launcher.submitted == ["run-r0", "run-r1"]


def test_what_completes_while_it_is_being_ended_is_not_run_again() -> None:
    scene = given_up(running(SupervisedScene(limits=STALLS)))
    scene.launcher.ends_when_cancelled = False
    scene.watch().tick()
    gets_on(scene)
    scene.store.put_text(f"{RUN}/_complete", "")
    scene.end("run-r0", JobState.CANCELLED)
    for _ in range(3):
        scene.store.pass_time(10)
        outcome = scene.watch().tick()
    assert (outcome.status, scene.launcher.submitted) == (Status.SUCCEEDED, ["run-r0"])


def test_what_becomes_of_a_job_is_told_though_its_end_was_told_before() -> None:
    scene = running(SupervisedScene())
    scene.store.put_text(f"{RUN}/_error", "RuntimeError: boom")
    scene.launcher.refuse("any", LauncherError("no answer"))
    scene.watch().tick()
    scene.heal()
    scene.end("run-r0", JobState.FAILED, 1)
    for _ in range(3):
        scene.watch().tick()
    assert [message.restart for message in scene.channel.sent] == [
        None,
        "restarting, attempt 1/2, from where training itself resumes",
    ]
