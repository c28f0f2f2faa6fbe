"""A person calls off a job that waits to be started: it never starts, or it had begun."""

import pytest

from lastbeat.jobs.stopping import TooLateError, call_off
from lastbeat.model.job import JobState
from lastbeat.model.status import Status
from support.jobs import SupervisedScene
from support.memory import Killed


def waiting() -> SupervisedScene:
    """Its job failed, and the next one waits for its delay."""
    scene = SupervisedScene(delay_s=600.0)
    scene.begin()
    watch = scene.watch()
    watch.tick()
    watch.tick()
    scene.end("run-r0", JobState.FAILED, 1)
    watch.tick()
    assert scene.launcher.submitted == ["run-r0"]
    return scene


def test_a_restart_that_waits_is_called_off_for_good() -> None:
    scene = waiting()
    off = call_off(scene.repository(), "ada@here")
    assert off is not None
    assert off.action.name == "run-r1"
    for watch in (scene.remote_watch(), scene.watch(), scene.watch()):
        scene.store.pass_time(1000)
        watch.tick()
    assert scene.launcher.submitted == ["run-r0"]
    assert (scene.record().status, scene.record().restarts) == (Status.FAILED, ())
    assert scene.ruling().reason == "stopped by ada@here: what a person ended is not restarted"
    assert len(scene.channel.sent) == 1, "people know: one of them did it"


def test_a_first_job_that_has_not_started_never_does() -> None:
    scene = SupervisedScene()
    scene.begin()
    assert call_off(scene.repository(), "ada@here") is not None
    scene.watch().tick()
    assert scene.launcher.submitted == []
    scene.begin()
    scene.watch().tick()
    assert scene.launcher.submitted == ["run-r0"], "and it may be begun anew"


def test_what_somebody_has_begun_to_start_is_not_called_off() -> None:
    scene = waiting()
    scene.store.pass_time(1000)
    scene.launcher.refuse("submit", Killed)
    with pytest.raises(Killed):
        scene.watch().tick()
    scene.heal()
    with pytest.raises(TooLateError, match="run-r1 is being started right now"):
        call_off(scene.repository(), "ada@here")


def test_where_nothing_waits_there_is_nothing_to_call_off() -> None:
    scene = SupervisedScene()
    assert call_off(scene.repository(), "ada@here") is None
    scene.begin()
    scene.watch().tick()
    assert call_off(scene.repository(), "ada@here") is None
