"""What a job elsewhere writes is brought into its run's folder, where every watcher reads it."""

import pytest

from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.model.status import Status
from lastbeat.stores.port import UnreachableError
from support.jobs import SupervisedScene
from unit.supervision.test_supervised import running

LOG = "run/logs/run-r0.log"


def elsewhere(written: bytes) -> SupervisedScene:
    scene = SupervisedScene()
    running(scene)
    scene.launcher.written = written
    return scene


def brought(scene: SupervisedScene) -> bytes | None:
    found = scene.store.read(LOG, 1 << 22)
    return None if found is None else found.body


def test_what_it_writes_is_there_for_all_who_look() -> None:
    scene = elsewhere(b"step 1/100 loss 2.5\n")
    watch = scene.watch()
    watch.tick()
    assert brought(scene) == b"step 1/100 loss 2.5\n"
    scene.launcher.written = b"step 1/100 loss 2.5\nstep 7/100 loss 2.4\n"
    scene.store.pass_time(30)
    watch.tick()
    watch.tick()
    assert brought(scene) == scene.launcher.written
    for anybody in (watch, scene.remote_watch()):
        outcome = anybody.tick()
        assert outcome.step_source is not None
        assert outcome.step_source.step == 7


def test_a_log_that_is_as_it_was_is_not_written_again_by_whomever() -> None:
    scene = elsewhere(b"step 1/100 loss 2.5\n")
    scene.watch().tick()
    (before,) = scene.store.list("run/logs/").entries
    scene.store.pass_time(30)
    scene.watch().tick()
    scene.watch().tick()
    assert scene.store.list("run/logs/").entries == (before,)


def test_tokens_stay_where_they_are() -> None:
    scene = elsewhere(b"login with hf_abcdefghijklmnopqrstuvwxyz0123456789\n")
    scene.watch().tick()
    assert b"hf_abcdef" not in (brought(scene) or b"")


@pytest.mark.parametrize("fault", ["launcher", "store"])
def test_a_log_that_cannot_be_brought_is_told_and_decides_nothing(fault: str) -> None:
    scene = elsewhere(b"step 1/100 loss 2.5\n")
    if fault == "launcher":
        scene.launcher.refuse("output", LauncherError("the dashboard does not answer", "look whether it runs"))
    else:
        scene.store.refuse("write", UnreachableError("no answer"), under=LOG)
    watch = scene.watch()
    for _ in range(8):
        scene.store.put_text("run/metadata.json", "{}")
        outcome = watch.tick()
        scene.store.pass_time(100)
    assert outcome.status is Status.RUNNING
    assert "its log cannot be" in dict(outcome.conditions)["job_log_missing"]
