"""What is decided about a job is taken back when it turns out otherwise, unless it is too late for that. Its next end
is decided about anew."""

from dataclasses import replace

import pytest

from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.jobs.restarts.loading import load
from lastbeat.model.job import JobState
from lastbeat.model.outcome import Outcome
from lastbeat.model.policy import Policy
from lastbeat.model.restart import Mode
from lastbeat.model.status import Event, Status
from lastbeat.watch.effects.runner import ACTION_LEASE_S
from support.jobs import RUN, FakeLauncher, SupervisedScene
from support.memory import Killed
from unit.supervision.test_supervised import running, settled

STALLS = replace(Policy(), stall_s=60.0)


def beat(scene: SupervisedScene) -> None:
    """An attempt that begins now writes its first heartbeat."""
    scene.store.put_text(f"{RUN}/metadata.json", f'{{"start_time": "{scene.store.now.isoformat()}"}}')


def step(scene: SupervisedScene, number: int) -> None:
    scene.store.put_text(f"{RUN}/progress.json", f'{{"step": {number}}}')


def stalled(scene: SupervisedScene, delay_s: float = 0.0) -> Outcome:
    """The job of ``scene`` stands still for too long, and a supervisor sees that."""
    step(scene, 1)
    scene.watch().tick()
    scene.store.pass_time(130)
    scene.store.put_text(f"{RUN}/metadata.json", "{}")
    watch = scene.watch()
    watch._context.supervisor.delay_s = delay_s  # type: ignore[union-attr]
    return watch.tick()


def test_a_restart_that_was_withdrawn_does_not_stand_in_the_way_of_the_next_one() -> None:
    scene = running(SupervisedScene(limits=STALLS))
    assert stalled(scene, delay_s=600.0).status is Status.TIMED_OUT
    scene.store.pass_time(10)
    step(scene, 2)
    assert scene.watch().tick().status is Status.RUNNING
    scene.store.pass_time(10)
    scene.end("run-r0", JobState.FAILED, 1)
    settled(scene)
    assert scene.launcher.submitted == ["run-r0", "run-r1"]


def test_a_run_that_was_not_to_be_restarted_and_lives_again_is_decided_about_anew() -> None:
    policy = load("default")
    only_crashes = replace(policy, rules={Mode.CRASH: policy.rules[Mode.CRASH]})
    scene = running(SupervisedScene(limits=STALLS, policy=only_crashes))
    stalled(scene)
    assert scene.ruling().reason == "NoRestartPolicy on stall"
    scene.store.pass_time(10)
    step(scene, 2)
    assert scene.watch().tick().status is Status.RUNNING
    scene.store.pass_time(10)
    scene.end("run-r0", JobState.FAILED, 1)
    settled(scene)
    assert scene.launcher.submitted == ["run-r0", "run-r1"]


def test_silence_while_nobody_can_ask_the_launcher_leads_to_no_restart() -> None:
    scene = running(SupervisedScene())
    beat(scene)
    watch = scene.watch()
    watch.tick()
    scene.launcher.refuse("any", LauncherError("no answer"))
    for _ in range(30):
        scene.store.pass_time(60)
        outcome = watch.tick()
    assert outcome.status is Status.TIMED_OUT
    scene.end("run-r0", JobState.SUCCEEDED, 0)
    assert settled(scene).status is Status.SUCCEEDED
    assert scene.launcher.submitted == ["run-r0"]


def test_the_end_of_a_job_that_is_being_restarted_is_no_failure_of_its_own() -> None:
    scene = running(SupervisedScene(limits=STALLS))
    stalled(scene)
    for _ in range(4):
        scene.store.pass_time(3)
        scene.watch().tick()
    assert scene.launcher.submitted == ["run-r0", "run-r1"]
    assert [message.event for message in scene.channel.sent] == [Event.TIMED_OUT, Event.RECOVERED]


# Beside watchers that know nothing of jobs.


def test_a_job_that_has_written_nothing_yet_is_no_silence_for_those_who_cannot_ask() -> None:
    scene = running(SupervisedScene())
    for _ in range(10):
        scene.store.pass_time(120)
        assert scene.watch(supervises=False).tick().status is Status.RUNNING
        assert scene.watch().tick().status is Status.RUNNING
    assert scene.channel.events == []


def test_an_attempt_that_another_watcher_saw_first_is_not_counted_twice() -> None:
    scene = SupervisedScene()
    scene.begin()
    scene.watch().tick()
    for number in (1, 2):
        scene.store.pass_time(3)
        beat(scene)
        scene.watch(supervises=False).tick()
        scene.store.pass_time(3)
        scene.store.put_text(f"{RUN}/_error", f"RuntimeError: boom of {number}")
        scene.watch(supervises=False).tick()
        scene.store.pass_time(3)
        outcome = scene.watch().tick()
        assert scene.record().attempt.number == number
        assert (outcome.status, outcome.reason) == (Status.FAILED, f"RuntimeError: boom of {number}")
        scene.store.pass_time(3)
        # The job is being ended, and the next one is started.
        scene.watch().tick()


def test_a_job_that_its_scheduler_queued_again_is_not_silent_when_its_turn_comes() -> None:
    scene = running(SupervisedScene())
    beat(scene)
    watch = scene.watch()
    watch.tick()
    scene.store.pass_time(30)
    job = scene.launcher.jobs["run-r0"]
    job.state, job.restarts = JobState.PENDING, 1
    for _ in range(20):
        watch.tick()
        scene.store.pass_time(600)
    job.state, job.started_at = JobState.RUNNING, scene.store.now
    scene.store.pass_time(5)
    assert watch.tick().status is Status.RUNNING
    beat(scene)
    outcome = watch.tick()
    assert (outcome.status, scene.record().attempt.number) == (Status.RUNNING, 2)
    assert (scene.launcher.submitted, scene.channel.events) == (["run-r0"], [])


REQUEUED = "slurmstepd-n1: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-22T19:20:20 DUE TO JOB REQUEUE ***\n"


def test_the_last_words_of_a_job_that_was_requeued_do_not_end_its_next_life() -> None:
    scene = running(SupervisedScene(launcher=FakeLauncher("slurm"), policy=load("megatron_transient")))
    scene.store.put_text(f"{RUN}/logs/a.log", "step 1/100 loss 2.5\n")
    watch = scene.watch()
    watch.tick()
    scene.store.pass_time(30)
    job = scene.launcher.jobs["run-r0"]
    job.state, job.restarts = JobState.PENDING, 1
    watch.tick()
    # Slurm writes this when the job is in the queue again already.
    scene.store.pass_time(1)
    scene.store.put_text(f"{RUN}/logs/a.log", f"step 1/100 loss 2.5\n{REQUEUED}")
    for _ in range(10):
        assert watch.tick().status is Status.RUNNING
        scene.store.pass_time(60)
    job.state, job.started_at = JobState.RUNNING, scene.store.now
    for number in range(2, 10):
        scene.store.put_text(f"{RUN}/logs/a.log", f"step 1/100 loss 2.5\n{REQUEUED}" + steps(number))
        assert watch.tick().status is Status.RUNNING
        scene.store.pass_time(30)
    job.state, job.exit_code = JobState.FAILED, 1
    settled(scene)
    assert scene.launcher.submitted == ["run-r0", "run-r1"]


def steps(last: int) -> str:
    return "".join(f"step {number}/100 loss 2.5\n" for number in range(2, last + 1))


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
