"""A Ray whose nodes are lost: a worker, and the head with all that it knew.
Each test has a cluster of its own."""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest

from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.jobs.launchers.ray import jobs as ray_jobs
from lastbeat.jobs.launchers.ray import launcher as launchers
from lastbeat.jobs.launchers.ray.jobs import RayJobs
from lastbeat.jobs.launchers.ray.launcher import LATE_S, RayLauncher
from lastbeat.model.job import JobSpec, JobState
from support import ray_cluster as ray
from support.ray_cluster import WHY_NOT, RayCluster
from support.waiting import until

pytestmark = [pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)), pytest.mark.timeout(600), pytest.mark.slow]
SINCE = datetime.now(timezone.utc) - timedelta(minutes=1)
ON_A_WORKER = ('--entrypoint-resources={"worker": 1}',)


@pytest.fixture
def cluster() -> Iterator[RayCluster]:
    with ray.cluster() as found:
        yield found


def test_a_job_whose_node_is_lost_is_started_on_another(cluster: RayCluster, caplog: pytest.LogCaptureFixture) -> None:
    first, second = cluster.add_worker(worker=1), cluster.add_worker(worker=1)
    launcher = RayLauncher(RayJobs(ray_jobs.address(cluster.address, "")))
    spec = JobSpec(("sleep", "300"), "", options=ON_A_WORKER)
    jobs = [launcher.submit(spec, f"run-r{number}", SINCE) for number in range(2)]
    nodes = [
        until(lambda job=job: launcher.state(job), lambda report: report.state is JobState.RUNNING).nodes[0]  # type: ignore[misc]
        for job in jobs
    ]
    assert sorted(node.rpartition("-")[0] for node in nodes) == sorted([first.host, second.host])
    lost = first if nodes[0].startswith(first.host) else second
    lost.kill()
    report = until(lambda: launcher.state(jobs[0]), lambda found: found.state.ended, 120)
    assert (report.state, report.failed_node) == (JobState.NODE_LOST, nodes[0])
    assert "died" in report.reason
    # There is room on a third one, which is left out, and soon on that of the second job.
    third = cluster.add_worker(worker=1)
    spec = JobSpec(("sleep", "300"), "", options=ON_A_WORKER, excluded_nodes=(nodes[0], third.host, "nowhere"))
    again = launcher.submit(spec, "run-r2", SINCE)
    until(lambda: launcher.state(again), lambda found: found.reason)
    launcher.cancel(jobs[1])
    taken = until(lambda: launcher.state(again), lambda found: found.state is JobState.RUNNING)
    assert taken.nodes == (nodes[1],)
    launcher.cancel(again)
    head = launcher.submit(JobSpec(("true",), "", excluded_nodes=(third.host,)), "run-r3", SINCE)
    assert until(lambda: launcher.state(head), lambda found: found.state.ended).state is JobState.SUCCEEDED
    assert f"cannot be kept away from {third.host}" in caplog.text


def test_a_head_that_is_started_again_without_its_history_makes_jobs_unknown_and_starts_none(
    cluster: RayCluster,
) -> None:
    now = [0.0]
    launcher = RayLauncher(RayJobs(ray_jobs.address(cluster.address, "")), clock=lambda: now[0])
    job = launcher.submit(JobSpec(("sleep", "300"), ""), "llama-r0", SINCE)
    until(lambda: launcher.state(job), lambda report: report.state is JobState.RUNNING)
    cluster.restart_head()
    another = RayLauncher(RayJobs(ray_jobs.address(cluster.address, "")), clock=lambda: now[0])
    for asking in (launcher, another):
        report = asking.state(job)
        assert (report.state, "without its history" in report.reason) == (JobState.UNKNOWN, True)
    with pytest.raises(LauncherError, match="started again"):
        launcher.find("llama-r1", SINCE)
    with pytest.raises(LauncherError, match="started again"):
        launcher.submit(JobSpec(("true",), ""), "llama-r1", SINCE)
    launcher.cancel(job)  # of a job that nobody knows: nothing
    now[0] = LATE_S
    for asking in (launcher, another):
        assert asking.state(job).state is JobState.GONE
    assert launcher.find("llama-r1", SINCE) is None
    new = launcher.submit(JobSpec(("true",), ""), "llama-r1", SINCE)
    assert until(lambda: launcher.state(new), lambda found: found.state.ended).state is JobState.SUCCEEDED
    assert launchers.adoption(new, (f"--ray-address={cluster.address}",)).id == new
