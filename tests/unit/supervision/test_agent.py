"""An agent looks after every run that its launcher can be asked about, beside whoever else does. One query answers for
all jobs of a pass, and never for more than it knows."""

import json
from datetime import timedelta

from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.jobs.restarts.loading import load
from lastbeat.jobs.supervision.agent import Agent
from lastbeat.jobs.supervision.lease import Machine, SupervisorLease
from lastbeat.jobs.supervision.pass_reports import PassReports
from lastbeat.model.job import JobState
from lastbeat.model.status import Event
from lastbeat.stores.port import UnreachableError
from support.jobs import RUN, SupervisedScene
from unit.supervision.test_supervised_elsewhere import failed, living

RECORD = f"{RUN}/_watchdog.json"


def submitted_only() -> SupervisedScene:
    """A run whose starter has gone, before anything was submitted."""
    scene = SupervisedScene(policy=load("megatron_transient"))
    scene.begin()
    return scene


def passes(scene: SupervisedScene, agent: Agent, times: int = 4) -> None:
    for _ in range(times):
        agent.run()
        scene.store.pass_time(30)


def test_a_failure_that_a_sweep_recorded_is_decided_about_and_restarted() -> None:
    scene = living()
    failed(scene)
    scene.end("run-r0", JobState.FAILED, 1)
    agent = scene.agent()
    agent.run()
    assert scene.launcher.submitted == ["run-r0", "run-r1"]
    assert [message.event for message in scene.channel.sent] == [Event.FAILED, Event.FAILED]
    assert str(scene.channel.sent[-1].restart).startswith("restarting, attempt 1/3")


def test_a_job_that_was_only_submitted_is_watched_and_restarted() -> None:
    scene = submitted_only()
    agent = scene.agent()
    passes(scene, agent)
    assert scene.launcher.submitted == ["run-r0"]
    scene.end("run-r0", JobState.CANCELLED)
    passes(scene, agent)
    assert scene.launcher.submitted == ["run-r0", "run-r1"]
    assert [message.restart for message in scene.channel.sent] == [
        "restarting, attempt 1/3, from where training itself resumes"
    ]


def test_a_stalled_job_is_ended_and_followed_without_listing_the_fleet_again() -> None:
    scene = living()
    scene.store.pass_time(1300)
    scene.remote_watch().tick()
    agent = scene.agent()
    agent.run()
    assert (("cancel", "run-r0") in scene.launcher.calls, agent.due_at is not None) == (True, True)
    scene.store.calls.clear()
    for _ in range(3):
        scene.store.pass_time(3)
        agent.look_soon()
    assert scene.launcher.submitted == ["run-r0", "run-r1"]
    assert ("list", "") not in scene.store.calls


def test_a_run_with_a_supervisor_of_its_own_is_left_to_it() -> None:
    scene = living()
    lease = SupervisorLease("ada@here", "token", Machine("m", "b"))
    lease.take(scene.repository(), scene.store.now)
    scene.end("run-r0", JobState.CANCELLED)
    agent = scene.agent()
    found = agent.run()
    assert (found.others, found.outcomes, scene.launcher.submitted) == (1, [], ["run-r0"])
    scene.store.pass_time(600)
    agent.run()
    assert scene.launcher.submitted == ["run-r0", "run-r1"]


def test_jobs_of_another_cluster_are_not_taken_for_gone() -> None:
    scene = living()
    failed(scene)
    scene.launcher.jobs.clear()
    scene.launcher.place_name = "elsewhere"
    passes(scene, scene.agent())
    assert scene.launcher.submitted == ["run-r0"]
    assert scene.launcher.calls[-1][0] != "cancel"


def test_another_users_commands_are_not_run() -> None:
    scene = submitted_only()
    passes(scene, scene.agent(trusts=False))
    assert scene.launcher.submitted == []


def test_a_record_that_did_not_change_is_read_once() -> None:
    scene = submitted_only()
    agent = scene.agent()
    passes(scene, agent)
    scene.store.put_text(f"{RUN}/_complete", "")
    scene.end("run-r0", JobState.SUCCEEDED, 0)
    passes(scene, agent)
    scene.store.put_text("other/metadata.json", "{}")
    scene.store.put_text("other/_watchdog.json", json.dumps({"schema": 1, "run_id": "other"}))
    scene.store.put_text("broken/_watchdog.json", "{")
    agent.run()
    scene.store.calls.clear()
    passes(scene, agent)
    assert [key for operation, key in scene.store.calls if operation == "read"] == []
    fresh = scene.agent()
    scene.store.calls.clear()
    passes(scene, fresh)
    reads = sorted(key for operation, key in scene.store.calls if operation == "read")
    assert reads == ["broken/_watchdog.json", "other/_watchdog.json", RECORD]


def test_a_run_that_is_begun_anew_is_looked_after_again() -> None:
    scene = submitted_only()
    agent = scene.agent()
    passes(scene, agent)
    scene.end("run-r0", JobState.SUCCEEDED, 0)
    passes(scene, agent)
    assert scene.agent().run().outcomes == []
    scene.begin()
    passes(scene, agent)
    assert scene.launcher.submitted == ["run-r0", "run-r1"]


def test_nothing_follows_while_nobody_answers() -> None:
    scene = living()
    failed(scene)
    agent = scene.agent()
    scene.store.refuse("any", UnreachableError("no store", "check the network"))
    assert agent.run().blind == "no store; check the network"
    scene.store.heal()
    scene.launcher.refuse("any", LauncherError("no answer", "try scontrol ping"))
    assert scene.agent().run().blind == "no answer; try scontrol ping"
    passes(scene, agent)
    assert scene.launcher.submitted == ["run-r0"]
    scene.launcher.heal()
    scene.end("run-r0", JobState.FAILED, 1)
    passes(scene, agent, 20)
    assert scene.launcher.submitted == ["run-r0", "run-r1"]


def asked(scene: SupervisedScene) -> list[str]:
    """What the launcher was asked about jobs, and nothing of their starts."""
    return [operation for operation, _ in scene.launcher.calls if operation in {"state", "states"}]


def test_a_job_that_runs_is_not_asked_about_by_itself() -> None:
    scene = living()
    agent = scene.agent()
    scene.launcher.calls.clear()
    for _ in range(3):
        agent.run()
        scene.store.pass_time(30)
    assert asked(scene) == ["states"] * 3


def test_a_report_counts_once_and_within_its_pass_alone() -> None:
    scene = living()
    reports = PassReports(scene.launcher, scene.store.clock)
    with reports.asked(["run-r0"]):
        first, second = reports.take("run-r0", None), reports.take("run-r0", None)
    with reports.asked(["run-r0"]):
        pass
    assert (first is not None, second, reports.take("run-r0", None)) == (True, None, None)


def test_a_record_that_was_written_since_needs_a_newer_report() -> None:
    scene = living()
    reports = PassReports(scene.launcher, scene.store.clock)
    now = scene.store.clock()
    with reports.asked(["run-r0"]):
        assert reports.take("run-r0", now + timedelta(seconds=1)) is None
    with reports.asked(["run-r0"]):
        assert reports.take("run-r0", now - timedelta(seconds=1)) is not None
