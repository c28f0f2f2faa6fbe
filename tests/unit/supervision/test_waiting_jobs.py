"""A job that waits for too long, and one whose log does not appear, are told once, with what to do."""

from pathlib import Path

import pytest

from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.model.job import JobState
from lastbeat.model.status import Event, Status
from support.jobs import SupervisedScene
from support.row_by_row import labelled
from unit.supervision.test_supervised import running


def queued(reason: str, kind: str = "slurm") -> SupervisedScene:
    scene = SupervisedScene()
    scene.launcher.kind = kind
    running(scene)
    job = scene.launcher.jobs["run-r0"]
    job.state, job.reason = JobState.PENDING, reason
    scene.watch().tick()
    return scene


WAITS = [
    ("for its turn", "Priority", 14_000, None),
    ("for its turn, for long", "Priority", 14_500, "others are before it"),
    ("for a limit to be raised", "QOSMaxJobsPerUserLimit", 14_500, "the limit of the QOS on jobs at once is reached"),
    ("in vain", "PartitionTimeLimit", 310, "it asks for more time than the partition gives"),
    ("held", "JobHeldUser", 310, "its owner holds it back"),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "waited_s", "told"), labelled(WAITS))
def test_a_job_that_waits(reason: str, waited_s: float, told: str | None) -> None:
    scene = queued(reason)
    scene.store.pass_time(waited_s)
    for _ in range(3):
        outcome = scene.watch().tick()
        scene.store.pass_time(60)
        assert outcome.status is Status.RUNNING
        # Who cannot ask neither clears nor raises it.
        assert dict(scene.remote_watch().tick().conditions).keys() == dict(outcome.conditions).keys()
    if told is None:
        assert (scene.channel.sent, dict(outcome.conditions)) == ([], {})
        return
    (message,) = scene.channel.sent
    assert (message.event, list(message.conditions)) == (Event.WARNING, ["job_pending"])
    assert f"({reason}: {told})" in message.conditions["job_pending"]
    assert "squeue --start -j run-r0 says when it may begin" in str(message.action)


def test_it_is_over_when_the_job_begins() -> None:
    scene = queued("JobHeldUser")
    scene.store.pass_time(400)
    assert "job_pending" in scene.watch().tick().conditions
    scene.launcher.jobs["run-r0"].state = JobState.RUNNING
    assert dict(scene.watch().tick().conditions) == {}


def test_nothing_is_raised_or_cleared_while_the_scheduler_does_not_answer() -> None:
    scene = queued("JobHeldUser")
    scene.launcher.refuse("any", LauncherError("no answer"))
    scene.store.pass_time(20_000)
    assert dict(scene.watch().tick().conditions) == {}
    scene.launcher.heal()
    scene.watch().tick()
    scene.launcher.refuse("any", LauncherError("no answer"))
    assert "job_pending" in scene.watch().tick().conditions
    assert len(scene.channel.sent) == 1


def test_a_log_that_does_not_appear(tmp_path: Path) -> None:
    scene = SupervisedScene()
    scene.launcher.kind = "slurm"
    running(scene)
    log = tmp_path / "logs" / "a-17.out"
    scene.launcher.jobs["run-r0"].outputs = (str(log),)
    scene.store.pass_time(500)
    assert dict(scene.watch().tick().conditions) == {}
    scene.store.pass_time(200)
    for _ in range(3):
        outcome = scene.watch().tick()
    assert f"its log {log} does not appear: there is no folder {log.parent}" in outcome.conditions["job_log_missing"]
    (message,) = scene.channel.sent
    assert "scontrol show job run-r0 | grep -E 'StdOut|WorkDir'" in str(message.action)
    log.parent.mkdir()
    assert "does not appear on" in scene.watch().tick().conditions["job_log_missing"]
    log.write_text("")
    assert dict(scene.watch().tick().conditions) == {}
    assert len(scene.channel.sent) == 1
