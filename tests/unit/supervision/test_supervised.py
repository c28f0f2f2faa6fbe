"""What becomes of supervised jobs, whoever dies when, and whatever the launcher answers."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from lastbeat.jobs.restarts.loading import load
from lastbeat.jobs.supervision.beginning import NotBegunError
from lastbeat.model.job import JobState
from lastbeat.model.outcome import Outcome
from lastbeat.model.restart import Mode, RestartPolicy, RestartRule
from lastbeat.model.status import Status
from lastbeat.training.exec.child.exit_reason import ChildExit, sentinel_text
from lastbeat.watch.effects.runner import ACTION_LEASE_S
from support.jobs import RUN, SupervisedScene
from support.row_by_row import labelled


def settled(scene: SupervisedScene, rounds: int = 8) -> Outcome:
    """What becomes of it all when nothing goes wrong any more."""
    scene.heal()
    watch = scene.watch()
    for _ in range(rounds):
        outcome = watch.tick()
        scene.store.pass_time(ACTION_LEASE_S)
    return outcome


def running(scene: SupervisedScene) -> SupervisedScene:
    scene.begin()
    watch = scene.watch()
    watch.tick()
    watch.tick()
    assert scene.launcher.submitted == ["run-r0"]
    return scene


def test_the_first_job_is_started_and_waited_for() -> None:
    scene = SupervisedScene()
    scene.begin()
    watch = scene.watch()
    assert (watch.tick().status, watch.tick().reason) == (Status.RUNNING, "job run-r0 runs; it has written nothing yet")
    scene.store.pass_time(7200)
    assert watch.tick().status is Status.RUNNING
    assert scene.channel.events == []


def test_a_job_in_the_queue_is_no_silence_for_those_who_cannot_ask() -> None:
    scene = running(SupervisedScene())
    scene.launcher.jobs["run-r0"].state = JobState.PENDING
    scene.watch().tick()
    scene.store.pass_time(7200)
    assert scene.watch(supervises=False).tick().status is Status.RUNNING
    scene.store.pass_time(86400)
    assert scene.watch(supervises=False).tick().status is Status.TIMED_OUT


ENDS = [
    ("it ended well", JobState.SUCCEEDED, 0, Status.SUCCEEDED, None),
    ("it failed", JobState.FAILED, 7, Status.FAILED, "1/2"),
    ("it was cancelled", JobState.CANCELLED, None, Status.FAILED, "1/2"),
    ("its time was over", JobState.TIMEOUT, None, Status.FAILED, "1/3"),
    ("it is gone", JobState.GONE, None, Status.TIMED_OUT, "1/3"),
    ("its node was lost", JobState.NODE_LOST, None, Status.FAILED, "1/2"),
]  # fmt: skip


@pytest.mark.parametrize(("state", "code", "status", "attempt"), labelled(ENDS))
def test_how_a_job_ended_is_told_once_with_what_becomes_of_it(
    state: JobState, code: int | None, status: Status, attempt: str | None
) -> None:
    restart = None if attempt is None else f"restarting, attempt {attempt}, from where training itself resumes"
    scene = running(SupervisedScene())
    scene.end("run-r0", state, code)
    outcome = scene.watch().tick()
    assert outcome.status is status
    (message,) = scene.channel.sent
    assert (message.status, message.restart) == (status, restart)
    assert scene.launcher.submitted == (["run-r0"] if restart is None else ["run-r0", "run-r1"])


@pytest.mark.parametrize(
    ("code", "number", "restarted"),
    [
        pytest.param(None, 15, True, id="SIGTERM from somebody, as before a machine is taken away"),
        pytest.param(None, 9, False, id="SIGKILL may be a lack of memory"),
        pytest.param(130, None, False, id="Ctrl-C in the job"),
    ],
)
def test_a_local_job_that_somebody_terminated_was_cancelled(
    code: int | None, number: int | None, restarted: bool
) -> None:
    scene = running(SupervisedScene(policy=load("megatron_transient")))
    scene.end("run-r0", JobState.FAILED, code)
    scene.launcher.jobs["run-r0"].signal = number
    scene.watch().tick()
    (message,) = scene.channel.sent
    assert (message.cause == "cancelled", message.restart and message.restart.startswith("restarting")) == (
        restarted,
        restarted,
    )


STOP = '{"by": "ada@login1", "why": "wrong data", "attempt": 1}'
"""As ``lastbeat stop`` leaves it for a job whose training reports nothing."""
TERMINATED = """step 1/100 loss 2.5
Traceback (most recent call last):
  File "train.py", line 9, in <module>
OSError: it was being ended
"""


@pytest.mark.parametrize(
    ("state", "log"), [(JobState.CANCELLED, None), (JobState.FAILED, TERMINATED), (JobState.GONE, None)]
)
def test_a_job_that_a_person_stopped_is_cancelled_by_that_person_and_stays_so(state: JobState, log: str | None) -> None:
    scene = running(SupervisedScene(policy=load("default")))
    scene.store.pass_time(5)
    scene.store.put_text(f"{RUN}/_stop", STOP)
    scene.store.pass_time(5)
    if log is not None:
        scene.store.put_text(f"{RUN}/logs/a.log", log)
    scene.end("run-r0", state, 143)
    outcome = scene.watch().tick()
    assert (outcome.status, outcome.cause) == (Status.CANCELLED, "cancelled")
    assert outcome.reason == "Stopped by ada@login1: wrong data"
    settled(scene)
    assert scene.launcher.submitted == ["run-r0"]
    assert scene.channel.events == []
    assert (scene.record().status, scene.record().stopped_by) == (Status.CANCELLED, "ada@login1")
    assert scene.ruling().reason == "stopped by ada@login1: what a person ended is not restarted"


NOT_STOPPED = [
    ("the request is of an earlier attempt", '{"by": "ada", "attempt": 7}', JobState.CANCELLED, Status.FAILED),
    ("nobody asked through lastbeat", None, JobState.CANCELLED, Status.FAILED),
    ("it ended well all the same", STOP, JobState.SUCCEEDED, Status.SUCCEEDED),
]  # fmt: skip


@pytest.mark.parametrize(("request_", "state", "status"), labelled(NOT_STOPPED))
def test_other_ends_are_what_they_are(request_: str | None, state: JobState, status: Status) -> None:
    scene = running(SupervisedScene(policy=None))
    if request_ is not None:
        scene.store.put_text(f"{RUN}/_stop", request_)
    scene.end("run-r0", state)
    outcome = scene.watch().tick()
    assert outcome.status is status
    assert outcome.cause == ("cancelled" if status is Status.FAILED else None)


def test_a_job_that_a_person_wants_to_end_from_where_its_launcher_cannot_be_reached_is_ended_by_its_supervisor() -> (
    None
):
    scene = running(SupervisedScene(policy=load("default")))
    scene.store.put_text(f"{RUN}/_stop", STOP)
    scene.watch().tick()
    assert ("cancel", "run-r0") in scene.launcher.calls
    assert settled(scene).status is Status.CANCELLED
    assert scene.launcher.submitted == ["run-r0"]


def test_a_training_that_beats_has_time_to_end_as_it_was_asked_to() -> None:
    scene = running(SupervisedScene(policy=load("default")))
    scene.store.put_text(f"{RUN}/metadata.json", "{}")
    scene.watch().tick()
    scene.store.put_text(f"{RUN}/_stop", STOP)
    for _ in range(14):
        scene.store.pass_time(60)
        scene.store.put_text(f"{RUN}/metadata.json", "{}")
        assert scene.watch().tick().status is Status.RUNNING
    assert ("cancel", "run-r0") not in scene.launcher.calls
    scene.store.pass_time(60)
    scene.watch().tick()
    assert scene.launcher.calls.count(("cancel", "run-r0")) == 1


def test_a_failure_that_was_there_before_anybody_asked_stays_the_failure() -> None:
    scene = running(SupervisedScene(policy=load("megatron_transient")))
    scene.store.put_text(f"{RUN}/logs/a.log", OOM)
    scene.watch().tick()
    scene.store.pass_time(5)
    scene.store.put_text(f"{RUN}/_stop", STOP)
    scene.end("run-r0", JobState.CANCELLED)
    outcome = scene.watch().tick()
    assert (outcome.status, outcome.cause) == (Status.FAILED, "oom")
    assert scene.launcher.submitted == ["run-r0"]


EXITS = [
    (None, "restarting, attempt 1/2, from where training itself resumes"),
    (17, "not restarted: "),
    (93, "not restarted: "),
]


@pytest.mark.parametrize(("code", "restart"), EXITS)
def test_a_failure_is_ruled_on_when_the_job_has_told_its_exit_status(code: int | None, restart: str) -> None:
    scene = running(SupervisedScene())
    scene.store.put_text(f"{RUN}/_error", "boom")
    watch = scene.watch()
    for _ in range(5):
        scene.store.pass_time(10)
        outcome = watch.tick()
        assert (outcome.status, scene.channel.events) == (Status.FAILED, [])
        assert any("is still ending" in note for note in outcome.notes)
    scene.end("run-r0", JobState.FAILED, code)
    watch.tick()
    (message,) = scene.channel.sent
    assert (message.status, str(message.restart).startswith(restart)) == (Status.FAILED, True), message.restart
    assert scene.launcher.submitted == (["run-r0", "run-r1"] if restart.startswith("restarting") else ["run-r0"])


@pytest.mark.parametrize("name", ["default", "megatron_conservative"])
def test_a_job_that_failed_by_its_own_word_and_does_not_end_is_ended(name: str) -> None:
    scene = running(SupervisedScene(policy=load(name)))
    scene.store.put_text(f"{RUN}/_error", "ValueError: boom")
    watch = scene.watch()
    for _ in range(4):
        scene.store.pass_time(31)
        watch.tick()
    assert ("cancel", "run-r0") in scene.launcher.calls
    assert len(scene.channel.sent) == 1
    assert scene.launcher.submitted == (["run-r0", "run-r1"] if name == "default" else ["run-r0"])
    assert scene.launcher.alive_at_once == 1


def test_without_a_policy_a_failure_is_told_at_once_and_its_job_left_alone() -> None:
    scene = running(SupervisedScene(policy=None))
    scene.store.put_text(f"{RUN}/_error", "boom")
    watch = scene.watch()
    for _ in range(4):
        assert watch.tick().status is Status.FAILED
        scene.store.pass_time(31)
    assert len(scene.channel.sent) == 1
    assert ("cancel", "run-r0") not in scene.launcher.calls


@pytest.mark.parametrize("first", [True, False], ids=["before the first look at the next one", "after it"])
def test_what_a_scheduler_writes_late_into_the_output_of_the_last_job_says_nothing_of_the_next_one(
    tmp_path: Path, first: bool
) -> None:
    scene = running(SupervisedScene(log_places=(str(tmp_path / "*.out"),)))

    def write(name: str, text: str) -> str:
        path = tmp_path / f"{name}.out"
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
        at = scene.store.now.timestamp()
        os.utime(path, (at, at))
        return str(path)

    scene.launcher.jobs["run-r0"].outputs = (write("r0", "step 1/9 loss 2.5\n"),)
    watch = scene.watch()
    watch.tick()
    scene.end("run-r0", JobState.CANCELLED)
    watch.tick()
    scene.store.pass_time(5)
    scene.launcher.jobs["run-r1"].outputs = (write("r1", "step 1/9 loss 2.5\n"),)
    late = "slurmstepd-n1: error: *** JOB 8 ON n1 CANCELLED AT 2026-01-01T12:00:05 ***\n"
    if first:
        write("r0", late)
    assert watch.tick().status is Status.RUNNING
    scene.store.pass_time(5)
    if not first:
        write("r0", late)
    for _ in range(4):
        assert watch.tick().status is Status.RUNNING
        assert scene.watch().tick().status is Status.RUNNING
        scene.store.pass_time(60)
    assert scene.launcher.submitted == ["run-r0", "run-r1"]


OOM = """step 1/100 loss 2.5
Traceback (most recent call last):
  File "train.py", line 9, in <module>
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB
"""


def test_a_failure_in_the_log_of_a_job_that_lives_is_told_once_it_has_ended() -> None:
    scene = running(SupervisedScene(policy=load("megatron_transient")))
    scene.store.put_text(f"{RUN}/logs/a.log", OOM)
    watch = scene.watch()
    for _ in range(3):
        scene.store.pass_time(5)
        assert watch.tick().status is Status.RUNNING
    assert scene.channel.events == []
    scene.end("run-r0", JobState.FAILED, 1)
    assert (watch.tick().status, watch.tick().cause) == (Status.FAILED, "oom")
    (message,) = scene.channel.sent
    assert message.restart == "not restarted: Permanent failure detected (excluded error_type: oom)"


def test_a_job_that_stands_still_after_a_failure_in_its_log_is_ended_and_started_again() -> None:
    scene = running(SupervisedScene(policy=load("megatron_transient")))
    scene.store.put_text(f"{RUN}/logs/a.log", "step 1/100 loss 2.5\n[default0]:NCCL ERROR timeout\n")
    watch = scene.watch()
    watch.tick()
    scene.store.pass_time(61)
    assert watch.tick().status is Status.FAILED
    for _ in range(3):
        scene.store.pass_time(5)
        watch.tick()
    assert scene.launcher.submitted == ["run-r0", "run-r1"]
    assert scene.launcher.jobs["run-r0"].state is JobState.CANCELLED
    assert [message.restart for message in scene.channel.sent] == [
        "restarting, attempt 1/3, from where training itself resumes"
    ]


def test_a_run_is_begun_again_only_when_its_last_job_has_ended() -> None:
    scene = running(SupervisedScene())
    with pytest.raises(NotBegunError, match="has a job already"):
        scene.begin()
    scene.end("run-r0", JobState.SUCCEEDED)
    settled(scene)
    scene.begin()
    settled(scene)
    assert scene.launcher.submitted == ["run-r0", "run-r1"]


@pytest.mark.parametrize("excluded", [pytest.param("oom", id="the cause"), pytest.param("cancelled", id="the second")])
def test_what_it_may_be_is_not_restarted_where_it_is_excluded(excluded: str) -> None:
    rule = RestartRule("always", 3, excluded=frozenset({excluded}))
    scene = running(SupervisedScene(policy=RestartPolicy("own", {Mode.CRASH: rule})))
    scene.store.put_text(f"{RUN}/logs/a.log", "step 1/100 loss 2.5\n")
    watch = scene.watch()
    watch.tick()
    scene.store.pass_time(5)
    scene.store.put_text(f"{RUN}/_error", sentinel_text(ChildExit(137), "train.py", None, ""))
    scene.end("run-r0", JobState.FAILED, 137)
    watch.tick()
    (message,) = scene.channel.sent
    why = f"not restarted: Permanent failure detected (excluded error_type: {excluded}, which it may be)"
    assert message.restart == why


def preempted(scene: SupervisedScene, name: str, step: int) -> None:
    """The job saves a checkpoint, says so, and ends."""
    scene.store.put_text(f"{RUN}/_preempted", f'{{"step": {step}}}')
    scene.end(name, JobState.PREEMPTED)


def test_a_preempted_job_is_started_again_and_spends_no_budget_of_failures() -> None:
    scene = running(SupervisedScene(policy=load("default")))
    watch = scene.watch()
    for number in range(5):
        scene.store.pass_time(60)
        preempted(scene, f"run-r{number}", 100 * number)
        assert watch.tick().status is Status.PREEMPTED
        for _ in range(4):
            scene.store.pass_time(ACTION_LEASE_S)
            watch.tick()
        assert scene.launcher.submitted[-1] == f"run-r{number + 1}"
    scene.end("run-r5", JobState.FAILED, 1)
    watch.tick()
    assert (scene.ruling().restart, scene.ruling().attempt) == (True, "1/2")
    assert [each.mode for each in scene.record().restarts] == [Mode.PREEMPTED] * 5 + [Mode.CRASH]


@pytest.mark.parametrize("excludes", [True, False])
def test_a_job_that_ended_for_a_straggler_goes_on_without_its_node_where_the_policy_says_so(excludes: bool) -> None:
    scene = running(SupervisedScene(policy=replace(load("default"), exclude_stragglers=excludes)))
    watch = scene.watch()
    scene.store.pass_time(60)
    slow = {"count": 1, "ranks": [{"rank": 9, "node": "n1"}], "nodes": [{"node": "n1", "ranks": 1, "of": 8}]}
    told = {"run_id": RUN, "last_update": scene.store.now.isoformat(), "stragglers": slow}
    scene.store.put_text(f"{RUN}/metadata.json", json.dumps(told))
    watch.tick()
    preempted(scene, "run-r0", 100)
    for _ in range(4):
        watch.tick()
        scene.store.pass_time(ACTION_LEASE_S)
    assert scene.launcher.jobs["run-r1"].spec.excluded_nodes == (("n1",) if excludes else ())
    scene.end("run-r1", JobState.FAILED, 1)
    for _ in range(4):
        watch.tick()
        scene.store.pass_time(ACTION_LEASE_S)
    assert scene.launcher.jobs["run-r2"].spec.excluded_nodes == (("n1",) if excludes else ())


def test_a_job_that_says_that_it_was_preempted_has_a_while_to_end() -> None:
    scene = running(SupervisedScene(policy=load("default")))
    watch = scene.watch()
    scene.store.pass_time(60)
    scene.store.put_text(f"{RUN}/_preempted", '{"step": 5}')
    left = watch.tick()
    assert left.left_until is not None
    assert scene.launcher.submitted == ["run-r0"]
    scene.end("run-r0", JobState.SUCCEEDED, 0)
    scene.store.pass_time(5)
    outcome = watch.tick()
    assert (outcome.status, outcome.reason) == (Status.PREEMPTED, "PREEMPTED, checkpoint at step 5")
    settled(scene)
    assert scene.launcher.submitted == ["run-r0", "run-r1"]


def test_what_a_person_ended_after_its_checkpoint_is_not_started_again() -> None:
    scene = running(SupervisedScene(policy=load("default")))
    scene.store.pass_time(60)
    scene.store.put_text(f"{RUN}/_stop", '{"by": "ann", "attempt": 1}')
    scene.store.pass_time(60)
    preempted(scene, "run-r0", 5)
    outcome = settled(scene)
    assert outcome.status is Status.PREEMPTED
    assert scene.launcher.submitted == ["run-r0"]
