"""A job that waits for too long, a log that does not appear, and GPUs that are not used: each is told once, with what
to do, by each watcher that can ask the launcher."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.job import GpuUse, JobState
from lastbeat.model.policy import Policy
from lastbeat.model.status import Event, Status
from support.jobs import RUN, FakeJob, SupervisedScene
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


IDLE = GpuUse(0.0, 8.0)
IN_USE = GpuUse(8.0, 8.0)


def scene_of(gpus: GpuUse | None, kind: str = "ray") -> SupervisedScene:
    scene = SupervisedScene()
    scene.launcher.kind = kind
    running(scene)
    job_of(scene).gpus = gpus
    scene.watch().tick()
    return scene


def job_of(scene: SupervisedScene) -> FakeJob:
    return scene.launcher.jobs["run-r0"]


def conditions(scene: SupervisedScene) -> dict[str, str]:
    """As another supervisor, which knows nothing but the record, sees the run."""
    outcome = scene.watch().tick()
    assert outcome.status is Status.RUNNING
    return dict(outcome.conditions)


AFTER = [
    ("nobody uses them for ten", IDLE, 600, "job run-r0 runs, and none of 8 GPUs has been seen in use for 10m"),
    ("nobody uses the only one", GpuUse(0.0, 1.0), 600,
     "job run-r0 runs, and the only GPU has not been seen in use for 10m"),
    ("a part of one is in use", GpuUse(0.25, 8.0), 6000, None),
    ("there are none", GpuUse(0.0, 0.0), 6000, None),
    ("the launcher does not know", None, 6000, None),
    ("the launcher counts what is no number", GpuUse(float("nan"), float("nan")), 6000, None),
]  # fmt: skip


@pytest.mark.parametrize(("gpus", "seconds", "told"), labelled(AFTER))
def test_a_job_with_gpus(gpus: GpuUse | None, seconds: float, told: str | None) -> None:
    scene = scene_of(gpus)
    scene.store.pass_time(seconds)
    for _ in range(3):
        found = conditions(scene)
        # Who cannot ask neither clears nor raises it.
        assert dict(scene.remote_watch().tick().conditions).keys() == found.keys()
    assert found == ({} if told is None else {"gpu_idle": told})
    assert [message.event for message in scene.channel.sent] == ([] if told is None else [Event.WARNING])


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("ray", "--entrypoint-num-gpus"),
        ("ray", "lastbeat restart supervise --launcher ray-pod --at head-pod=P"),
        ("ray-pod", "torch.cuda.is_available()"),
        ("kubernetes", "torch.cuda.is_available()"),
    ],
)
def test_what_to_do_depends_on_the_launcher(kind: str, words: str) -> None:
    scene = scene_of(IDLE, kind)
    scene.store.pass_time(600)
    conditions(scene)
    (message,) = scene.channel.sent
    assert words in str(message.action)


@given(st.lists(st.sampled_from([IDLE, IDLE, IDLE, None, IN_USE, GpuUse(0.0, 0.0)]), max_size=25))
def test_it_is_told_of_exactly_what_was_seen_for_ten_minutes(seen: list[GpuUse | None]) -> None:
    scene = scene_of(None)
    idle_at: list[int] = []
    for minute, gpus in enumerate(seen):
        scene.store.pass_time(60)
        job_of(scene).gpus = gpus
        if gpus is not None:
            idle_at = [*idle_at, minute] if gpus.idle else []
        assert ("gpu_idle" in conditions(scene)) == (bool(idle_at) and idle_at[-1] - idle_at[0] >= 10)


def stepping(scene: SupervisedScene, step: int) -> None:
    scene.store.put_text(f"{RUN}/metadata.json", "{}")
    scene.store.put_text(f"{RUN}/progress.json", f'{{"step": {step}}}')


@pytest.mark.parametrize(("kind", "told"), [("ray", False), ("ray-pod", True)])
def test_a_driver_on_ray_that_steps_may_use_gpus_that_ray_has_not_given_out(kind: str, told: bool) -> None:
    scene = scene_of(IDLE, kind)
    for step in range(15):
        stepping(scene, step)
        found = conditions(scene)
        assert scene.remote_watch().tick().conditions.keys() == found.keys()
        scene.store.pass_time(60)
    assert ("gpu_idle" in found) == told


def test_one_that_steps_no_more_is_told_of() -> None:
    scene = scene_of(IDLE)
    scene.limits = Policy(stall_s=1200)
    for minute in range(30):
        stepping(scene, min(minute, 3))
        found = conditions(scene)
        scene.store.pass_time(60)
    assert {"stalled", "gpu_idle"} <= found.keys()
