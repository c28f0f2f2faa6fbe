"""A real Ray, asked while it is well and while it is not; and by Ray's own client about the same jobs."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from lastbeat.alerts.weburl import HttpTimeouts
from lastbeat.jobs.launchers.port import JobRefusedError, LauncherError
from lastbeat.jobs.launchers.ray import jobs as ray_jobs
from lastbeat.jobs.launchers.ray import launcher as launchers
from lastbeat.jobs.launchers.ray.jobs import RayJobs
from lastbeat.jobs.launchers.ray.launcher import RayLauncher
from lastbeat.model.job import GpuUse, JobReport, JobSpec, JobState
from support.proxy import DropAnswer, FaultProxy, run_proxy
from support.ray_cluster import RAY, WHY_NOT, RayCluster
from support.waiting import LIMIT_S, until

pytestmark = [pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)), pytest.mark.timeout(300)]
SINCE = datetime.now(timezone.utc) - timedelta(minutes=1)
SHORT = HttpTimeouts(connect_s=1.0, read_s=1.0, total_s=2.0)


def shell(script: str, **more: Any) -> JobSpec:
    return JobSpec(("sh", "-c", script), "", **more)


@pytest.fixture
def name() -> str:
    return f"run@{os.urandom(4).hex()}-r0"


@pytest.fixture
def launcher(ray_cluster: RayCluster) -> Iterator[RayLauncher]:
    found = launchers.launcher(Path(), [f"--ray-address={ray_cluster.address}"])
    submit, jobs = found.submit, list[str]()

    def noted(spec: JobSpec, name: str, since: datetime) -> str:
        jobs.append(submit(spec, name, since))
        return jobs[-1]

    found.submit = noted  # type: ignore[method-assign]
    yield found
    for job in jobs:
        found.cancel(job)


def ended(launcher: RayLauncher, job: str) -> JobReport:
    return until(lambda: launcher.state(job), lambda report: report.state.ended)


def running(launcher: RayLauncher, job: str) -> JobReport:
    return until(lambda: launcher.state(job), lambda report: report.state is JobState.RUNNING)


@contextmanager
def before(cluster: RayCluster) -> Iterator[tuple[RayLauncher, FaultProxy]]:
    """A launcher that reaches the cluster through a proxy."""
    with run_proxy(cluster.address) as proxy:
        yield RayLauncher(RayJobs(ray_jobs.address(proxy.url, ""), {}, SHORT)), proxy


# What it is given, and what it has


def test_a_job_gets_its_variables_its_metadata_and_what_it_asks_for(
    launcher: RayLauncher, ray_cluster: RayCluster, name: str, tmp_path: Path
) -> None:
    secret = tmp_path / "env.yaml"
    secret.write_text("env_vars: {API_TOKEN: from-the-file, OURS: theirs}\n", encoding="utf-8")
    options = (f"--runtime-env={secret}", '--metadata-json={"team": "nlp"}', "--entrypoint-num-gpus=1")
    spec = shell('echo "$API_TOKEN $OURS ${CUDA_VISIBLE_DEVICES:+one}"', environment={"OURS": "ours"}, options=options)
    job = launcher.submit(spec, name, SINCE)
    assert ended(launcher, job).state is JobState.SUCCEEDED
    assert launcher.output(job, 1000) == b"from-the-file ours one\n"
    told = ray_cluster.ask(f"/api/jobs/{job.partition('@')[0]}")
    assert told["metadata"] == {"team": "nlp", "lastbeat_name": name}


def test_gpus_that_are_given_out_are_counted(launcher: RayLauncher, ray_cluster: RayCluster, name: str) -> None:
    asking = RayJobs(ray_jobs.address(ray_cluster.address, ""))
    until(asking.resources, lambda found: found is not None and (found.gpus_used, found.gpus_available) == (0, 2))
    job = launcher.submit(shell("sleep 300", options=("--entrypoint-num-gpus=1",)), name, SINCE)
    running(launcher, job)
    until(asking.resources, lambda found: found is not None and found.gpus_used == 1)
    again = launchers.launcher(Path(), [f"--ray-address={ray_cluster.address}"])
    assert again.state(job).gpus == GpuUse(1.0, 2.0)


def test_a_job_for_which_there_is_no_room_is_not_stopped_and_says_so(launcher: RayLauncher, name: str) -> None:
    job = launcher.submit(shell("true", options=("--entrypoint-num-gpus=64",)), name, SINCE)
    report = until(lambda: launcher.state(job), lambda found: found.reason)
    assert (report.state, "resources" in report.reason) == (JobState.PENDING, True)
    launcher.cancel(job)
    for _ in range(3):
        report = launcher.state(job)
        assert report.state is JobState.PENDING, "it may still begin"
        assert "cannot stop a job that it has not scheduled" in report.reason
        assert "RAY_JOB_START_TIMEOUT_SECONDS" in report.reason


def test_an_environment_that_cannot_be_made_is_a_failure_with_its_reason(launcher: RayLauncher, name: str) -> None:
    options = ("--working-dir=https://127.0.0.1:9/code.zip",)
    job = launcher.submit(shell("true", options=options), name, SINCE)
    report = ended(launcher, job)
    assert (report.state, report.exit_code) == (JobState.FAILED, None)
    assert "runtime_env setup failed" in report.reason
    assert "ConnectionError" in report.reason
    assert b"runtime_env setup failed" in (launcher.output(job, 100_000) or b"")


def test_what_ray_refuses_is_refused_with_its_words(launcher: RayLauncher, name: str) -> None:
    options = ('--entrypoint-label-selector={"not a label!": "x"}',)
    with pytest.raises((JobRefusedError, LauncherError), match="label"):
        launcher.submit(shell("true", options=options), name, SINCE)


# Its log


def test_of_a_huge_log_the_end_alone_is_transferred(launcher: RayLauncher, ray_cluster: RayCluster, name: str) -> None:
    job = launcher.submit(shell("seq 1 40000000; echo the end"), name, SINCE)
    until(lambda: launcher.state(job), lambda report: report.state.ended, 120)
    with before(ray_cluster) as (asking, proxy):
        text = asking.output(job, 1 << 20) or b""
        assert text.endswith(b"\n39999999\n40000000\nthe end\n")
        assert len(text) <= 1 << 20
        assert text.partition(b"\n")[0].isdigit(), "whole lines"
        assert len(text) > 100_000
        assert sum(each.body_bytes for each in proxy.passed) < 8 << 20
        # Once it is known how long its lines are, one call is enough.
        proxy.clear()
        assert asking.output(job, 1 << 20) == text
        assert sum("/logs/" in each.target for each in proxy.passed) == 1


HOSTILE = [
    pytest.param(r"printf 'no end of a line'", b"no end of a line", id="without a line end"),
    pytest.param(r"printf '\033[31mred\000\377\n'", b"\x1b[31mred\x00\xff\n", id="bytes that are no text"),
]


@pytest.mark.parametrize(("script", "text"), HOSTILE)
def test_what_a_job_wrote_is_what_it_wrote(launcher: RayLauncher, name: str, script: str, text: bytes) -> None:
    job = launcher.submit(shell(script), name, SINCE)
    ended(launcher, job)
    assert until(lambda: launcher.output(job, 1000), lambda found: found == text) == text


def test_a_line_that_is_longer_than_a_log_may_be_is_told(launcher: RayLauncher, name: str) -> None:
    # Ray's own line may come into the midst of the job's first ones.
    begun = "until grep -q 'Running entrypoint' /proc/$$/fd/1; do sleep 0.1; done"
    job = launcher.submit(shell(f"{begun}; head -c 3000000 /dev/zero | tr '\\0' x"), name, SINCE)
    ended(launcher, job)
    with pytest.raises(LauncherError, match="longer than"):
        launcher.output(job, 1 << 20)


# Starting once


def test_a_lost_answer_is_found_and_nothing_is_started_twice(ray_cluster: RayCluster, name: str) -> None:
    with before(ray_cluster) as (asking, proxy):
        proxy.inject(DropAnswer(), method="POST", contains="/api/jobs/", times=1)
        with pytest.raises(LauncherError) as lost:
            asking.submit(shell("sleep 300"), name, SINCE)
        assert type(lost.value) is LauncherError, "it may have happened"
        job = asking.find(name, SINCE)
        assert job is not None
        assert asking.submit(shell("sleep 300"), name, SINCE) == job
        running(asking, job)
        asking.cancel(job)
        assert ended(asking, job).state is JobState.CANCELLED
    named = [row for row in ray_cluster.ask("/api/jobs/") if (row["metadata"] or {}).get("lastbeat_name") == name]
    assert len(named) == 1


# Ray's own client, about the same jobs

CLIENT = """
import json, sys
from ray.job_submission import JobSubmissionClient
client = JobSubmissionClient(sys.argv[1])
told = {}
for job in sys.argv[2:]:
    info = client.get_job_info(job)
    told[job] = {
        "status": client.get_job_status(job).value,
        "exit_code": info.driver_exit_code,
        "entrypoint": info.entrypoint,
        "start": info.start_time,
        "end": info.end_time,
        "node": info.driver_node_id,
        "metadata": info.metadata,
        "log": client.get_job_logs(job),
    }
print(json.dumps(told))
"""
STORIES = {
    "exit 0": JobState.SUCCEEDED,
    "echo ü; exit 7": JobState.FAILED,
    "echo dying; kill -9 $$": JobState.FAILED,
    "trap 'exit 0' TERM; sleep 300 & wait": JobState.CANCELLED,
    "sleep 300": JobState.RUNNING,
}


def test_rays_own_client_says_the_same_of_the_same_jobs(
    launcher: RayLauncher, ray_cluster: RayCluster, name: str, tmp_path: Path
) -> None:
    assert RAY is not None
    jobs: dict[str, JobState] = {}
    for number, (script, state) in enumerate(STORIES.items()):
        jobs[launcher.submit(shell(script), f"{name}-{number}", SINCE)] = state
    pending = launcher.submit(shell("true", options=("--entrypoint-num-gpus=64",)), f"{name}-waits", SINCE)
    jobs[pending] = JobState.PENDING
    for job, state in jobs.items():
        if state is JobState.CANCELLED:
            running(launcher, job)
            launcher.cancel(job)
        until(lambda job=job: launcher.state(job).state, lambda found, state=state: found is state)  # type: ignore[misc]
    (tmp_path / "client.py").write_text(CLIENT, encoding="utf-8")
    done = subprocess.run(
        [str(RAY.with_name("python")), "client.py", ray_cluster.address, *(job.partition("@")[0] for job in jobs)],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    for job in jobs:
        theirs, ours = told[job.partition("@")[0]], launcher.state(job)
        code = -ours.signal if ours.signal is not None else ours.exit_code
        assert (ours.said, code) == (theirs["status"], theirs["exit_code"])
        if ours.state is not JobState.PENDING:
            assert ours.started_at is not None
            assert round(ours.started_at.timestamp() * 1000) == theirs["start"]
            assert ours.nodes[0].endswith(theirs["node"][:8])
            # Ray's own line may come after the first of the job's.
            started = f"Running entrypoint for job {job.partition('@')[0]}: {theirs['entrypoint']}\n"
            assert theirs["log"].replace(started, "").endswith((launcher.output(job, 1 << 20) or b"").decode())
        assert (None if ours.ended_at is None else round(ours.ended_at.timestamp() * 1000)) == theirs["end"]
        assert theirs["metadata"]["lastbeat_name"].startswith(name)


def test_a_job_that_somebody_else_submitted_is_adopted(ray_cluster: RayCluster, name: str) -> None:
    theirs = name.replace("@", "_")
    entrypoint = 'echo "$GREETING"; sleep 300'
    body = {
        "entrypoint": entrypoint,
        "submission_id": theirs,
        "runtime_env": {"env_vars": {"GREETING": "hello", "HF_TOKEN": "a-secret"}},
        "metadata": {"team": "nlp"},
    }
    ray_cluster.ask("/api/jobs/", body)
    options = (f"--ray-address={ray_cluster.address}",)
    asking = launchers.launcher(Path(), options)
    running(asking, theirs)
    adopted = launchers.adoption(theirs, options)
    assert adopted.id.startswith(f"{theirs}@session_")
    assert adopted.command == ("sh", "-c", entrypoint)
    assert adopted.began_at is not None
    assert adopted.environment == {"GREETING": "hello", "HF_TOKEN": "a-secret"}
    assert adopted.options == ('--metadata-json={"team": "nlp"}',)
    until(lambda: asking.output(adopted.id, 1000), lambda text: text == b"hello\n")
    asking.cancel(adopted.id)
    assert ended(asking, adopted.id).state is JobState.CANCELLED
    with pytest.raises(JobRefusedError, match="knows no job"):
        launchers.adoption("raysubmit_nowhere", options)
