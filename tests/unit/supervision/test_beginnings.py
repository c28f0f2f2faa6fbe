"""How a supervision begins, what its jobs are given, and what is told when one cannot start."""

from dataclasses import replace
from datetime import timedelta

import pytest

from lastbeat.jobs.launchers.port import JobRefusedError
from lastbeat.jobs.supervision.beginning import NotBegunError, begin
from lastbeat.jobs.supervision.restarting import NUMBER, spec_of
from lastbeat.model.action import Action
from lastbeat.model.job import JobSpec, JobState
from lastbeat.model.restart import RESUME_FROM, RESUME_STEP
from lastbeat.model.status import Status
from lastbeat.watch.effects.actions import NotDoneError
from support.jobs import RUN, SupervisedScene
from support.memory import Killed
from support.row_by_row import labelled
from unit.supervision.test_supervised import running, settled

RESUME = {RESUME_FROM: "/ckpt/step_7", RESUME_STEP: "7"}


def test_a_job_of_the_same_name_whose_record_is_gone_is_not_taken_for_ours() -> None:
    scene = running(SupervisedScene())
    scene.end("run-r0", JobState.SUCCEEDED)
    scene.store.held.clear()
    scene.begin()
    settled(scene, 2)
    assert scene.launcher.submitted == ["run-r0", "run-r1"]


def test_what_was_decided_about_the_last_job_is_not_decided_again_where_the_run_is_begun_anew() -> None:
    scene = running(SupervisedScene(policy=None))
    scene.end("run-r0", JobState.FAILED, 1)
    settled(scene, 2)
    told = list(scene.channel.sent)
    scene.policy = SupervisedScene().policy
    scene.begin()
    watch = scene.watch()
    watch.tick()
    record = scene.record()
    assert (record.ruling, record.restarts) == (None, ())
    watch.tick()
    assert scene.launcher.submitted == ["run-r0", "run-r1"]
    assert (scene.record().status, scene.channel.sent) == (Status.RUNNING, told)
    scene.end("run-r1", JobState.FAILED, 1)
    settled(scene, 2)
    assert scene.launcher.submitted == ["run-r0", "run-r1", "run-r2"]
    assert scene.channel.sent[-1].restart == "restarting, attempt 1/2, from where training itself resumes"


def test_while_a_job_of_that_name_lives_nothing_begins() -> None:
    scene = running(SupervisedScene())
    scene.store.held.clear()
    with pytest.raises(NotBegunError, match="run-r0 runs already, as job run-r0"):
        scene.begin()


def test_a_restart_that_the_launcher_refuses_is_told_once() -> None:
    scene = running(SupervisedScene())
    scene.launcher.refuse("submit", JobRefusedError("sbatch: Invalid account"))
    scene.end("run-r0", JobState.FAILED, 1)
    watch = scene.watch()
    for _ in range(4):
        watch.tick()
        scene.store.pass_time(60)
    assert [message.restart for message in scene.channel.sent] == [
        "restarting, attempt 1/2, from where training itself resumes",
        "not restarted: it could not be restarted: sbatch: Invalid account",
    ]


def test_a_first_job_that_the_launcher_refuses_is_told_with_its_reason_and_can_be_begun_again() -> None:
    scene = SupervisedScene()
    scene.launcher.refuse("submit", JobRefusedError("sbatch: Invalid partition name specified"))
    scene.begin()
    watch = scene.watch()
    for _ in range(4):
        outcome = watch.tick()
        scene.store.pass_time(60)
    assert outcome.status is Status.FAILED
    assert outcome.reason == "job run-r0 could not be started: sbatch: Invalid partition name specified"
    (message,) = scene.channel.sent
    assert (message.status, message.reason) == (Status.FAILED, outcome.reason)
    scene.launcher.heal()
    scene.begin()
    watch = scene.watch()
    assert [watch.tick().status for _ in range(3)][-1] is Status.RUNNING
    assert scene.launcher.submitted == ["run-r0"]


def test_a_job_whose_starter_died_before_it_was_recorded_is_looked_after_at_once() -> None:
    scene = SupervisedScene()
    scene.begin()
    scene.launcher.after = lambda operation, _name: _die() if operation == "submit" else None
    with pytest.raises(Killed):
        scene.watch().tick()
    scene.heal()
    scene.store.pass_time(5)
    outcome = scene.watch().tick()
    assert outcome.reason == "job run-r0 runs; it has written nothing yet"
    scene.end("run-r0", JobState.FAILED, 1)
    scene.watch().tick()
    assert scene.channel.sent[0].restart == "restarting, attempt 1/2, from where training itself resumes"
    settled(scene)
    assert scene.launcher.submitted == ["run-r0", "run-r1"]


def test_a_supervisor_of_an_earlier_beginning_does_not_start_the_job_of_a_later_one() -> None:
    scene = SupervisedScene()
    earlier = replace(scene.supervision, begun_at=scene.store.now)
    later = replace(earlier, begun_at=scene.store.now + timedelta(seconds=60), spec=JobSpec(("other",), "/tmp"))
    begin(scene.repository(), RUN, later, scene.launcher, scene.store.now, None)
    record = scene.repository().reload()
    assert record is not None
    (first,) = record.actions
    assert spec_of(later, first, RUN, "/runs").command == ("other",)
    with pytest.raises(NotDoneError, match="begun again"):
        spec_of(earlier, first, RUN, "/runs")


def _die() -> None:
    raise Killed


COMMANDS = [
    ("what wants a checkpoint", ("t", "--load={resume_from}", "x"), ("t", "--load=/ckpt/step_7", "x"), ("t", "x")),
    ("with its option before it", ("t", "-l", "{resume_from}", "x"), ("t", "-l", "/ckpt/step_7", "x"), ("t", "x")),
    ("by itself", ("t", "{resume_from}", "x"), ("t", "/ckpt/step_7", "x"), ("t", "x")),
    ("in a longer text", ("sh", "-c", "t {resume_step}"), ("sh", "-c", "t 7"), ("sh", "-c", "t ")),
    ("what is not ours", ("awk", "{print $1}", "{}", "{x}"), ("awk", "{print $1}", "{}", "{x}"), None),
    ("run and attempt", ("t", "{run_id}-{attempt}"), ("t", "run-3"), None),
]  # fmt: skip


@pytest.mark.parametrize(("command", "resumed", "anew"), labelled(COMMANDS))
def test_what_a_command_becomes(
    command: tuple[str, ...], resumed: tuple[str, ...], anew: tuple[str, ...] | None
) -> None:
    scene = SupervisedScene()
    supervision = replace(scene.supervision, spec=JobSpec(command, "/tmp"))
    action = Action("run-r2", "restart", scene.store.now, "ada", "why", details={NUMBER: "2"})
    with_checkpoint = replace(action, details={**action.details, **RESUME})
    assert spec_of(supervision, with_checkpoint, RUN, "/runs").command == resumed
    assert spec_of(supervision, action, RUN, "/runs").command == (resumed if anew is None else anew)
    assert spec_of(supervision, with_checkpoint, RUN, "/runs").environment["LASTBEAT_RESUME_STEP"] == "7"


SECONDS = [
    ("in the very second of the next submission", 0.3, 0.0),
    ("by a clock that is ahead of the one that is asked", 1.9, 0.0),
    ("long before, so nobody waits", 0.0, 60.0),
]


@pytest.mark.parametrize(("ahead_s", "later_s"), labelled(SECONDS))
def test_what_a_job_wrote_last_is_never_the_next_ones_where_stamps_have_whole_seconds(
    ahead_s: float, later_s: float
) -> None:
    scene = running(SupervisedScene())
    scene.store.pass_time(10.3)
    stamped = (scene.store.now + timedelta(seconds=ahead_s)).replace(microsecond=0)
    scene.store.put_text(f"{RUN}/_error", "RuntimeError: the first job's", modified=stamped)
    scene.end("run-r0", JobState.FAILED, 1)
    scene.store.pass_time(later_s)
    before = scene.store.now
    watch = scene.watch()
    watch.tick()
    assert scene.launcher.submitted == ["run-r0", "run-r1"]
    assert scene.waited_s == ([] if later_s else [1.0])
    assert (scene.store.now - before).total_seconds() == sum(scene.waited_s)
    outcome = watch.tick()
    assert (outcome.status, outcome.record.attempt.number if outcome.record else 0) == (Status.RUNNING, 2)
    # And what the new job writes at once is its own.
    written = max(scene.store.now, stamped + timedelta(seconds=1)).replace(microsecond=0)
    scene.store.put_text(f"{RUN}/_error", "RuntimeError: the second job's", modified=written)
    assert watch.tick().status is Status.FAILED
