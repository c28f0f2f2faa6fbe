"""Who cannot ask the launcher decides by what the run shows, and leaves the deed to those who can."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from lastbeat.decide.over import is_over
from lastbeat.fleet.index import wake_of
from lastbeat.launchers.port import LauncherError
from lastbeat.model.job import JobState
from lastbeat.model.outcome import Outcome
from lastbeat.model.policy import Policy
from lastbeat.model.restart import RestartRuling
from lastbeat.model.status import Event, Status
from lastbeat.restarts.loading import load
from lastbeat.supervision.agent_mark import AgentMark, leave_mark
from lastbeat.supervision.seat import Machine, Seat
from support.jobs import RUN, SupervisedScene
from unit.supervision.test_rulings import beat, step
from unit.supervision.test_supervised import running, settled

NCCL = "RuntimeError: NCCL error: unhandled system error"


def living(**more: object) -> SupervisedScene:
    """A job that beats, which its supervisor has left, and an agent that has been seen."""
    scene = running(SupervisedScene(policy=load("megatron_transient"), **more))  # type: ignore[arg-type]
    beat(scene)
    scene.watch().tick()
    scene.store.pass_time(30)
    leave_mark(scene.store, "local", AgentMark(scene.store.now, "ada@login", 600.0))
    return scene


def failed(scene: SupervisedScene, text: str = NCCL) -> Outcome:
    """Training says so itself, and only a sweep looks."""
    scene.store.put_text(f"{RUN}/_error", text)
    return scene.onlooker().tick()


def ruling(outcome: Outcome) -> RestartRuling | None:
    assert outcome.record is not None
    return outcome.record.ruling


def test_a_restart_is_decided_told_and_left_to_others() -> None:
    scene = living()
    found = ruling(failed(scene))
    assert found is not None
    assert (found.restart, found.afar) == (True, True)
    assert found.reason == "Transient failure detected (error_type=nccl)"
    (message,) = scene.channel.sent
    assert (message.event, message.restart) == (
        Event.FAILED,
        "restarting, attempt 1/3, from where training itself resumes",
    )
    assert scene.launcher.submitted == ["run-r0"]


def test_the_alert_says_when_nobody_is_there_to_do_it() -> None:
    scene = living()
    scene.store.pass_time(3600)
    beat(scene)
    failed(scene)
    assert scene.channel.sent[-1].restart == (
        "restarting, attempt 1/3, from where training itself resumes, once an agent runs "
        "(none seen: lastbeat supervise --agent --launcher local)"
    )


def test_what_was_decided_is_carried_out_once_and_told_once() -> None:
    scene = living()
    failed(scene)
    scene.end("run-r0", JobState.FAILED, 1)
    outcome = settled(scene)
    assert scene.launcher.submitted == ["run-r0", "run-r1"]
    assert outcome.record is not None
    assert len(outcome.record.restarts) == 1
    assert [message.event for message in scene.channel.sent] == [Event.FAILED]


def test_a_job_that_only_fell_silent_is_judged_by_its_launcher_before_anything_is_done() -> None:
    scene = living()
    scene.store.pass_time(1300)
    found = ruling(scene.onlooker().tick())
    assert found is not None
    assert found.reason == "Transient failure detected (error_type=hang)"
    scene.end("run-r0", JobState.FAILED, 93)
    outcome = settled(scene)
    found = ruling(outcome)
    assert found is not None
    assert (found.restart, found.reason) == (False, "exit status 93: the job asks not to be restarted")
    assert scene.launcher.submitted == ["run-r0"]
    assert [message.restart for message in scene.channel.sent] == [
        "restarting, attempt 1/2, from where training itself resumes",
        "not restarted: exit status 93: the job asks not to be restarted",
    ]


def test_what_was_not_to_be_restarted_may_be_after_all() -> None:
    policy = load("megatron_transient")
    only_crashes = replace(policy, rules={mode: rule for mode, rule in policy.rules.items() if mode.value == "crash"})
    scene = living()
    scene.policy = only_crashes
    scene.store.held.clear()
    scene.launcher.jobs.clear()
    scene.launcher.submitted.clear()
    running(scene)
    beat(scene)
    scene.watch().tick()
    scene.store.pass_time(1300)
    found = ruling(scene.onlooker().tick())
    assert found is not None
    assert found.reason == "NoRestartPolicy on stall"
    scene.end("run-r0", JobState.CANCELLED)
    settled(scene)
    assert scene.launcher.submitted == ["run-r0", "run-r1"]


def test_a_job_that_lives_on_is_left_alone() -> None:
    scene = living(delay_s=600.0)
    scene.store.pass_time(1300)
    scene.onlooker().tick()
    scene.store.pass_time(10)
    step(scene, 3)
    scene.store.put_text(f"{RUN}/metadata.json", "{}")
    outcome = scene.watch().tick()
    assert outcome.record is not None
    assert (outcome.status, outcome.record.ruling, outcome.record.restarts) == (Status.RUNNING, None, ())


def test_nothing_is_carried_out_while_the_launcher_does_not_answer() -> None:
    scene = living()
    failed(scene)
    scene.launcher.die_at(0, lambda: LauncherError("no answer"), before=True)
    for _ in range(5):
        scene.watch().tick()
        scene.store.pass_time(400)
    assert scene.launcher.submitted == ["run-r0"]
    scene.end("run-r0", JobState.FAILED, 1)
    settled(scene)
    assert scene.launcher.submitted == ["run-r0", "run-r1"]


def queue(scene: SupervisedScene) -> None:
    """Its job waits for its turn."""
    scene.launcher.jobs["run-r0"].state = JobState.PENDING
    scene.watch().tick()
    scene.store.pass_time(100_000)


def without_a_job(scene: SupervisedScene) -> None:
    """Its next job has been started, and nobody has looked at it."""
    scene.end("run-r0", JobState.FAILED, 1)
    scene.watch().tick()
    scene.store.pass_time(30)
    scene.store.put_text(f"{RUN}/_error", "of whichever job")


def by_a_person(scene: SupervisedScene) -> None:
    scene.store.put_text(f"{RUN}/_error", "KeyboardInterrupt")


def newer_policy(scene: SupervisedScene) -> None:
    key = f"{RUN}/_watchdog.json"
    document = json.loads(scene.store.held[key].body)
    document["supervision"]["compiled"]["rules"][0]["kind"] = "conditional"
    scene.store.put_text(key, json.dumps(document))
    scene.store.put_text(f"{RUN}/_error", NCCL)


def no_policy(scene: SupervisedScene) -> None:
    key = f"{RUN}/_watchdog.json"
    document = json.loads(scene.store.held[key].body)
    document["supervision"]["compiled"] = None
    scene.store.put_text(key, json.dumps(document))
    scene.store.put_text(f"{RUN}/_error", NCCL)


LEFT_ALONE = [
    ("a job in the queue is silent for other reasons", queue),
    ("whose sentinel it is, nobody knows", without_a_job),
    ("a policy of a newer version", newer_policy),
    ("no policy", no_policy),
    ("what a person ended", by_a_person),
]  # fmt: skip


@pytest.mark.parametrize("story", [row[1] for row in LEFT_ALONE], ids=[row[0] for row in LEFT_ALONE])
def test_where_nothing_is_restarted_from_afar(story: Callable[[SupervisedScene], None]) -> None:
    scene = running(SupervisedScene()) if story is queue else living()
    story(scene)
    outcome = scene.onlooker().tick()
    assert outcome.record is not None
    waiting = [each for each in outcome.record.actions if not each.settled]
    assert waiting == []


def test_limits_are_those_of_whoever_looks() -> None:
    scene = living(limits=replace(Policy(), stale_s=60.0))
    scene.store.pass_time(100)
    outcome = scene.onlooker().tick()
    assert outcome.status is Status.TIMED_OUT
    assert ruling(outcome) is not None


def seated(scene: SupervisedScene) -> SupervisedScene:
    """A supervisor has the seat, and has not looked again yet."""
    Seat("ada@here", "token", Machine("m", "b")).take(scene.repository(), scene.store.now)
    return scene


def test_an_end_is_left_to_the_supervisor_that_has_the_seat() -> None:
    scene = seated(living())
    outcome = failed(scene)
    assert (outcome.status, outcome.transition, outcome.recorded) == (Status.FAILED, None, True)
    assert outcome.left_until is not None
    assert "Its supervisor (ada@here) tells of this" in outcome.notes[0]
    assert scene.channel.sent == []
    scene.end("run-r0", JobState.FAILED, 1)
    scene.watch().tick()
    assert [message.restart for message in scene.channel.sent] == [
        "restarting, attempt 1/3, from where training itself resumes"
    ]


def test_of_a_supervisor_that_is_gone_nothing_is_expected_for_ever() -> None:
    scene = seated(living())
    left_until = failed(scene).left_until
    assert left_until is not None
    while scene.store.now < left_until:
        scene.store.pass_time(60)
        beat_again(scene)
    found = ruling(scene.onlooker().tick())
    assert found is not None
    assert found.restart


def beat_again(scene: SupervisedScene) -> None:
    """The SDK's thread may outlive training by a while."""
    scene.store.put_text(f"{RUN}/metadata.json", scene.store.held[f"{RUN}/metadata.json"].body.decode())


def test_a_sweep_looks_again_when_the_seat_has_run_out() -> None:
    scene = seated(living())
    outcome = failed(scene)
    assert outcome.left_until is not None
    assert wake_of(outcome, None, {}, scene.limits) == outcome.left_until.timestamp() + 1
    assert not is_over(outcome, dry_run=False), "lastbeat watch waits, too"


def test_what_is_no_end_is_not_left_to_anybody() -> None:
    scene = seated(living())
    scene.store.pass_time(30)
    assert scene.onlooker().tick().left_until is None
