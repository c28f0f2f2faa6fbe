"""A watcher that does not supervise a run records its end and names who decides about a restart; that one decides."""

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from lastbeat.fleet.index import wake_of
from lastbeat.jobs.restarts.loading import load
from lastbeat.jobs.supervision.lease import Machine, SupervisorLease
from lastbeat.model.job import JobState
from lastbeat.model.outcome import Outcome
from lastbeat.model.rerun import EXIT_CODE_FAILED_ON_RESULT_VALIDATION
from lastbeat.model.status import Event, Status
from lastbeat.stores.port import UnreachableError
from lastbeat.watch.decide.over import is_over
from lastbeat.watch.record.agent_mark import AgentMark, leave_mark, mark_key
from support.jobs import RUN, SupervisedScene
from support.row_by_row import labelled
from unit.supervision.test_rulings import beat
from unit.supervision.test_supervised import running, settled

NCCL = "RuntimeError: NCCL error: unhandled system error"
RECORD = f"{RUN}/_watchdog.json"
OPEN = "its supervisor on here decides; if none runs: lastbeat restart run"
RESTARTS = "restarting, attempt 1/3, from where training itself resumes"


def living(**more: object) -> SupervisedScene:
    """A job that beats, which its supervisor has left."""
    scene = running(SupervisedScene(policy=load("megatron_transient"), **more))  # type: ignore[arg-type]
    beat(scene)
    scene.watch().tick()
    scene.store.pass_time(30)
    return scene


def failed(scene: SupervisedScene, text: str = NCCL) -> Outcome:
    """Training says so itself, and only a sweep looks."""
    scene.store.put_text(f"{RUN}/_error", text)
    return scene.remote_watch().tick()


def notes(scene: SupervisedScene) -> list[str | None]:
    """What the alerts say about a restart."""
    return [message.restart for message in scene.channel.sent]


def with_agent(scene: SupervisedScene) -> None:
    leave_mark(scene.store, "local", AgentMark(scene.store.now, "ada@login-3", 60.0))


def with_an_agent_that_is_gone(scene: SupervisedScene) -> None:
    leave_mark(scene.store, "local", AgentMark(scene.store.now - timedelta(hours=1), "ada@login-3", 60.0))


def with_a_mark_out_of_reach(scene: SupervisedScene) -> None:
    with_agent(scene)
    scene.store.refuse("any", UnreachableError("no answer"), under=mark_key("local"))


def with_a_seat_that_ran_out(scene: SupervisedScene) -> None:
    seated(scene, "eve@login-2")
    for _ in range(6):
        scene.store.pass_time(60)
        beat_again(scene)


def without_policy(scene: SupervisedScene) -> None:
    document = json.loads(scene.store.held[RECORD].body)
    document["supervision"]["compiled"] = None
    scene.store.put_text(RECORD, json.dumps(document))


WHO = [
    ("nobody was seen", lambda _scene: None, OPEN),
    ("an agent", with_agent, "the agent on login-3 decides"),
    ("an agent that is gone", with_an_agent_that_is_gone, OPEN),
    ("an agent's mark that cannot be read", with_a_mark_out_of_reach, OPEN),
    ("a supervisor that was last heard of a while ago", with_a_seat_that_ran_out, OPEN.replace("here", "login-2")),
    ("there is no policy, so nothing is ever restarted", without_policy, None),
]  # fmt: skip


@pytest.mark.parametrize(("before", "said"), labelled(WHO))
def test_a_sweep_records_the_failure_names_who_decides_and_requests_nothing(
    before: Callable[[SupervisedScene], None], said: str | None
) -> None:
    scene = living()
    before(scene)
    actions = scene.record().actions
    outcome = failed(scene)
    assert (outcome.status, scene.record().ruling, scene.record().restarts) == (Status.FAILED, None, ())
    assert scene.record().actions == actions
    assert [(message.event, message.restart) for message in scene.channel.sent] == [(Event.FAILED, said)]


def test_the_supervisor_waits_for_the_exit_status_though_a_sweep_has_recorded_the_failure() -> None:
    scene = living()
    failed(scene)
    scene.store.pass_time(5)
    scene.watch().tick()
    assert scene.record().ruling is None
    scene.end("run-r0", JobState.FAILED, EXIT_CODE_FAILED_ON_RESULT_VALIDATION)
    settled(scene)
    assert scene.launcher.submitted == ["run-r0"]
    assert [note is not None and note.startswith("not restarted") for note in notes(scene)] == [False, True]


def test_a_job_that_only_fell_silent_is_judged_by_its_launcher() -> None:
    scene = living()
    scene.store.pass_time(1300)
    assert scene.remote_watch().tick().status is Status.TIMED_OUT
    scene.end("run-r0", JobState.FAILED, 93)
    settled(scene)
    assert scene.launcher.submitted == ["run-r0"]
    assert notes(scene) == [OPEN, "not restarted: exit status 93: the job asks not to be restarted"]


# While a supervisor holds its lease.


def seated(scene: SupervisedScene, by: str = "ada@here") -> SupervisedScene:
    """A supervisor has the lease, and has not looked again yet."""
    SupervisorLease(by, "token", Machine("m", "b")).take(scene.repository(), scene.store.now)
    return scene


def test_an_end_is_left_to_the_supervisor_that_has_the_seat() -> None:
    scene = seated(living())
    outcome = failed(scene)
    assert (outcome.status, outcome.transition, outcome.recorded) == (Status.FAILED, None, True)
    assert outcome.left_until is not None
    assert "Its supervisor (ada@here) reports this" in outcome.notes[0]
    assert scene.channel.sent == []
    scene.end("run-r0", JobState.FAILED, 1)
    scene.watch().tick()
    assert notes(scene) == [RESTARTS]


def test_of_a_supervisor_that_is_gone_nothing_is_expected_for_ever() -> None:
    scene = seated(living())
    left_until = failed(scene).left_until
    assert left_until is not None
    while scene.store.now < left_until:
        scene.store.pass_time(60)
        beat_again(scene)
    assert scene.remote_watch().tick().status is Status.FAILED
    assert notes(scene) == [OPEN]


def beat_again(scene: SupervisedScene) -> None:
    """The SDK's thread may outlive training by a while."""
    scene.store.put_text(f"{RUN}/metadata.json", scene.store.held[f"{RUN}/metadata.json"].body.decode())


def test_a_sweep_looks_again_when_the_seat_has_run_out() -> None:
    scene = seated(living())
    outcome = failed(scene)
    assert outcome.left_until is not None
    assert wake_of(outcome, None, {}, scene.limits) == outcome.left_until.timestamp() + 1
    assert not is_over(outcome, dry_run=False), "lastbeat watch waits, too"
