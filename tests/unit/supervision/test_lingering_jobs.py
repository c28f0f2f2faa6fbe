"""A job that failed for good and still runs: it is ended, unless it gets on, or people want to look into it."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.jobs.restarts.loading import load
from lastbeat.model.job import JobState
from lastbeat.model.outcome import Outcome
from lastbeat.model.policy import Policy
from lastbeat.model.restart import RestartPolicy
from lastbeat.model.status import Status
from lastbeat.stores.port import UnreachableError
from lastbeat.watch.effects.runner import ACTION_LEASE_S
from lastbeat_cli import learned_limits
from support.jobs import RUN, SupervisedScene, call_points
from support.memory import Killed
from support.there import there
from unit.supervision.test_supervised import OOM, running

LOG = f"{RUN}/logs/a.log"
PERMANENT = "not restarted: Permanent failure detected (excluded error_type: oom)"
QUIET = "3m without a step or a log line"
ENDED = f"job run-r0 was ended: {QUIET}"
TRANSIENT = load("megatron_transient")


def out_of_memory(policy: RestartPolicy | None = TRANSIENT) -> SupervisedScene:
    """Its log has just shown that the job ran out of memory."""
    scene = running(SupervisedScene(policy=policy))
    scene.store.put_text(LOG, OOM)
    scene.watch().tick()
    return scene


def ticks(scene: SupervisedScene, times: int, seconds: float = 30.0) -> Outcome:
    """Passes of one supervisor."""
    watch = scene.watch()
    for _ in range(times):
        scene.store.pass_time(seconds)
        outcome = watch.tick()
    return outcome


def cancels(scene: SupervisedScene) -> int:
    return scene.launcher.calls.count(("cancel", "run-r0"))


def restarts(scene: SupervisedScene) -> list[str | None]:
    """What the alerts said of a restart."""
    return [message.restart for message in scene.channel.sent]


def test_a_job_that_failed_for_good_is_ended_once_it_has_shown_nothing_for_its_grace_period() -> None:
    scene = out_of_memory()
    assert ticks(scene, 5).status is Status.FAILED
    assert cancels(scene) == 0, "two and a half minutes"
    assert restarts(scene) == [f"{PERMANENT}; job run-r0 still runs, and is ended after {QUIET}"]
    outcome = ticks(scene, 3)
    assert scene.launcher.jobs["run-r0"].state is JobState.CANCELLED
    assert scene.launcher.submitted == ["run-r0"]
    assert (outcome.status, outcome.cause) == (Status.FAILED, "oom")
    assert restarts(scene)[1:] == [f"{PERMANENT}; {ENDED}"]
    ruling = there(scene.record().ruling)
    assert (ruling.restart, ruling.job) == (False, ENDED)
    assert all(action.settled for action in scene.record().actions)


@pytest.mark.parametrize(
    ("shows", "status"),
    [
        pytest.param(lambda scene, number: more(scene, f"step {number + 2}/100 loss 2.4\n"), Status.RUNNING,
                     id="steps"),
        pytest.param(lambda scene, number: scene.store.put_text(f"{RUN}/progress.json", f'{{"step": {number + 2}}}'),
                     Status.RUNNING, id="steps in its heartbeat"),
    ],
)  # fmt: skip
def test_a_job_that_goes_on_is_left_alone(shows: Callable[[SupervisedScene, int], None], status: Status) -> None:
    scene = out_of_memory()
    watch = scene.watch()
    for number in range(30):
        scene.store.pass_time(61 if number == 0 else 30)
        shows(scene, number)
        outcome = watch.tick()
    assert outcome.status is status
    assert cancels(scene) == 0


def more(scene: SupervisedScene, text: str) -> None:
    """The job prints it."""
    before = scene.store.held[LOG].body.decode()
    scene.store.put_text(LOG, before + text)


def test_a_run_whose_steps_take_long_gets_a_longer_grace_period() -> None:
    scene = running(SupervisedScene(policy=TRANSIENT))
    text, watch = "", scene.watch()
    for step in range(1, 4):
        text += f"step {step}/100 loss 2.5\n"
        scene.store.put_text(LOG, text)
        for _ in range(10):
            watch.tick()
            scene.store.pass_time(30)
    scene.store.put_text(LOG, text + OOM.partition("\n")[2])
    ticks(scene, 18)
    assert cancels(scene) == 0, "its steps take five minutes"
    ticks(scene, 16)
    assert cancels(scene) == 1


@pytest.mark.parametrize(
    ("shows", "limits", "keeps"),
    [
        pytest.param("progress.json", Policy(learns=True), True, id="a heartbeat, learned, one supervisor"),
        pytest.param("progress.json", Policy(stall_s=7200.0), False, id="a heartbeat, by hand, another for each look"),
        pytest.param("a log", Policy(learns=True), False, id="a log, learned, another for each look"),
        pytest.param("a log", Policy(stall_s=7200.0), True, id="a log, by hand, one supervisor"),
    ],
)
def test_steps_that_take_long_are_known_whoever_set_its_limits(shows: str, limits: Policy, *, keeps: bool) -> None:
    scene = running(SupervisedScene(policy=TRANSIENT, limits=limits))
    text, watch = "", scene.watch()

    def look() -> None:
        (watch if keeps else scene.watch()).tick()
        scene.store.pass_time(60)

    for step in range(1, 5):
        if shows == "a log":
            text += f"step {step}/100 loss 2.5\n"
            scene.store.put_text(LOG, text)
        else:
            scene.store.put_text(f"{RUN}/progress.json", f'{{"step": {step}}}')
        for _ in range(10):
            look()
    scene.store.put_text(LOG, text + OOM.partition("\n")[2])
    for _ in range(10):
        look()
    assert cancels(scene) == 0, "its steps take ten minutes"
    for _ in range(30):
        look()
    assert cancels(scene) == 1


def test_steps_that_are_noted_for_the_end_of_a_job_teach_no_limit() -> None:
    scene = running(SupervisedScene(policy=TRANSIENT, limits=Policy(stall_s=7200.0)))
    for step in range(40):
        scene.store.put_text(f"{RUN}/progress.json", f'{{"step": {step}}}')
        ticks(scene, 3)
    progress = there(scene.record().progress)
    assert progress.waits is not None
    assert (progress.waits.seen, progress.waits.longest_s) == (0, 90.0)
    assert learned_limits._seen_by_watchers(scene.store, RUN) is None, "the command tells of no limit"


@pytest.mark.parametrize(
    ("entered_s", "looks"),
    [
        pytest.param(30, 60, id="after the failure: it went on, and may be there for so long"),
        pytest.param(-30, 7, id="before it: it hangs there, perhaps"),
    ],
)
def test_a_section_that_training_entered_after_its_failure_may_last_until_its_limit(entered_s: int, looks: int) -> None:
    scene = out_of_memory()
    watch = scene.watch()
    for look in range(1, 70):
        scene.store.pass_time(30)
        section = {"name": "evaluation", "open_s": max(0, 30 * look - entered_s), "limit_s": 1800}
        scene.store.put_text(f"{RUN}/metadata.json", json.dumps({"attempt": 1, "sections": [section]}))
        watch.tick()
        if cancels(scene):
            break
    assert look == pytest.approx(looks, abs=2)


def test_while_its_log_cannot_be_read_nothing_is_ended() -> None:
    scene = out_of_memory()
    ticks(scene, 3)
    scene.store.closed[LOG] = UnreachableError("no answer")
    ticks(scene, 20)
    assert cancels(scene) == 0
    scene.store.closed.clear()
    ticks(scene, 2)
    assert cancels(scene) == 1


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        pytest.param(
            replace(TRANSIENT, on_permanent="leave"),
            f"{PERMANENT}; job run-r0 still runs, and is left running (on_permanent: leave)",
            id="the policy leaves it",
        ),
        pytest.param(None, None, id="there is no policy"),
    ],
)
def test_it_keeps_its_nodes_where_people_want_that(policy: RestartPolicy | None, said: str | None) -> None:
    scene = out_of_memory(policy)
    assert ticks(scene, 40).status is Status.FAILED
    assert cancels(scene) == 0
    assert restarts(scene) == [said]
    scene.end("run-r0", JobState.FAILED, 1)
    ticks(scene, 2)
    assert len(scene.channel.sent) == 1, "that it ended by itself is no news"


def stands_still(policy: RestartPolicy) -> SupervisedScene:
    """A job that beats and makes no step, under limits for that."""
    scene = running(SupervisedScene(policy=policy, limits=replace(Policy(), stall_s=60.0)))
    watch = scene.watch()
    scene.store.put_text(f"{RUN}/progress.json", '{"step": 1}')
    for _ in range(20):
        scene.store.put_text(f"{RUN}/metadata.json", "{}")
        watch.tick()
        scene.store.pass_time(30)
    return scene


def test_a_job_that_stands_still_is_ended_when_its_restarts_are_used_up() -> None:
    rules = {mode: replace(rule, max_retries=0) for mode, rule in load("default").rules.items()}
    scene = stands_still(replace(load("default"), rules=rules))
    assert cancels(scene) == 1
    assert scene.launcher.submitted == ["run-r0"]
    (first, last) = (message for message in scene.channel.sent if message.restart is not None)
    assert (first.status, last.status) == (Status.TIMED_OUT, Status.TIMED_OUT), "the end of its job is no other failure"
    assert str(last.restart).startswith("not restarted: retry budget exhausted")
    assert str(last.restart).endswith(ENDED)


def test_a_job_that_stands_still_is_left_alone_by_a_policy_that_restarts_no_such_jobs() -> None:
    crashes = {mode: rule for mode, rule in TRANSIENT.rules.items() if mode.value == "crash"}
    scene = stands_still(replace(TRANSIENT, rules=crashes))
    assert scene.record().status is Status.TIMED_OUT
    assert cancels(scene) == 0


def gets_on(scene: SupervisedScene) -> None:
    """It makes steps again, and its supervisor can reach the launcher."""
    for step in range(2, 9):
        more(scene, f"step {step}/100 loss 2.5\n")
        assert ticks(scene, 1, ACTION_LEASE_S).status is Status.RUNNING
        scene.heal()


def test_training_that_gets_on_withdraws_an_end_that_nobody_could_ask_for() -> None:
    scene = out_of_memory()
    scene.launcher.refuse("cancel", LauncherError("no answer"))
    ticks(scene, 8)
    asked = cancels(scene)
    assert asked > 0
    gets_on(scene)
    assert cancels(scene) == asked


# Whoever dies, and whenever.


def about_to_be_ended() -> SupervisedScene:
    scene = out_of_memory()
    ticks(scene, 5)
    scene.store.pass_time(60)
    return scene


@pytest.mark.parametrize(("which", "call", "before"), call_points(about_to_be_ended, "store", "launcher"))
def test_a_supervisor_that_is_killed_leaves_no_job_behind(which: str, call: int, before: bool) -> None:
    scene = about_to_be_ended()
    scene.die_at(which, call, before=before)
    with pytest.raises(Killed):
        scene.watch().tick()
    scene.heal()
    outcome = ticks(scene, 6, ACTION_LEASE_S)
    assert scene.launcher.jobs["run-r0"].state is JobState.CANCELLED
    assert scene.launcher.submitted == ["run-r0"]
    assert (outcome.status, outcome.cause) == (Status.FAILED, "oom")
    told = {message.key: message.restart for message in scene.channel.sent}
    assert len(told) == 2
    assert str(list(told.values())[1]).endswith(ENDED)
