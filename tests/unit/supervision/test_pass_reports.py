"""One query answers for all jobs of an agent's pass, and never for more than it knows."""

from datetime import timedelta

from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.jobs.supervision.pass_reports import PassReports
from lastbeat.model.job import JobState
from support.jobs import SupervisedScene
from unit.supervision.test_supervised_elsewhere import living


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


def test_an_end_is_asked_about_and_restarted() -> None:
    scene = living()
    agent = scene.agent()
    agent.run()
    scene.end("run-r0", JobState.CANCELLED)
    scene.launcher.calls.clear()
    for _ in range(3):
        agent.run()
        scene.store.pass_time(30)
    assert asked(scene)[:2] == ["states", "state"]
    assert scene.launcher.submitted == ["run-r0", "run-r1"]


def test_nothing_follows_from_a_query_that_fails() -> None:
    scene = living()
    agent = scene.agent()
    agent.run()
    scene.end("run-r0", JobState.FAILED, 1)
    scene.launcher.refuse("states", LauncherError("the controller is away"))
    scene.launcher.calls.clear()
    (outcome,) = agent.run().outcomes
    assert (asked(scene), outcome.status.value, scene.launcher.submitted) == (["states"], "RUNNING", ["run-r0"])


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
