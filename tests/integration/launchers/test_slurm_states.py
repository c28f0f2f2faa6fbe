"""How jobs end on a real Slurm with accounting, and what is known while a part of it is away."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from lastbeat.jobs.launchers.port import JobRefusedError, LauncherError
from lastbeat.jobs.launchers.slurm.launcher import SlurmLauncher, adoption
from lastbeat.model.job import JobReport, JobSpec, JobState
from support.slurm import ask, suspended
from support.waiting import text_in, until

SINCE = datetime.now(timezone.utc) - timedelta(minutes=1)
CALL_S = 20.0
HASTY = SlurmLauncher(call_s=2.0)
"""Asks where no answer is to be had."""


@pytest.fixture
def conf(accounted_slurm_conf: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Its controller forgets what has ended within some seconds."""
    monkeypatch.setenv("SLURM_CONF", str(accounted_slurm_conf))
    yield accounted_slurm_conf
    ask(accounted_slurm_conf, "scontrol", "update", "nodename=n[1-3]", "state=resume")
    ask(accounted_slurm_conf, "scancel", "--me")
    until(lambda: ask(accounted_slurm_conf, "squeue", "-h"), lambda left: not left.strip())


@pytest.fixture
def launcher() -> SlurmLauncher:
    return SlurmLauncher(call_s=CALL_S)


Submit = Callable[..., str]


@pytest.fixture
def submit(launcher: SlurmLauncher, tmp_path: Path) -> Submit:
    """Submits what a shell script says, under names that only this test has."""
    names = (f"{tmp_path.name}-r{number}" for number in range(99))

    def one(script: str, *options: str, **more: Any) -> str:
        spec = JobSpec(("sh", "-c", script), str(tmp_path), options=options, **more)
        return launcher.submit(spec, next(names), SINCE)

    return one


def test_one_query_reports_of_jobs_what_scontrol_shows_of_each(
    conf: Path, launcher: SlurmLauncher, submit: Submit, tmp_path: Path
) -> None:
    odd = submit("sleep 600", output=str(tmp_path / "%x a|b,c-%j-%N.log"))
    held, wants_too_much = submit("sleep 600", "--hold"), submit("sleep 600", "--nodes=99")
    ended = submit("exit 3")
    until(lambda: launcher.state(odd), lambda report: report.state is JobState.RUNNING)
    until(lambda: launcher.state(ended), lambda report: report.state.ended)
    told = launcher.states([odd, held, wants_too_much, ended])
    assert told == {job: launcher.state(job) for job in (odd, held, wants_too_much)}
    assert HASTY.states([]) == {}


def ended(launcher: SlurmLauncher, job: str) -> JobReport:
    return until(lambda: launcher.state(job), lambda report: report.state.ended, limit_s=180)


def in_state(launcher: SlurmLauncher, job: str, state: JobState) -> JobReport:
    return until(lambda: launcher.state(job), lambda report: report.state is state)


def forget(conf: Path, job: str) -> None:
    """Wait until the controller does not know the job any more."""
    until(lambda: ask(conf, "scontrol", "show", "job", job), lambda shown: not shown)


def test_how_jobs_end_is_known_by_the_controller_and_later_by_the_accounting(
    conf: Path, launcher: SlurmLauncher, submit: Submit
) -> None:
    over = submit("exec sleep 300", "--nodelist=n1")
    in_state(launcher, over, JobState.RUNNING)
    # Otherwise Slurm looks at time limits twice a minute only.
    ask(conf, "scontrol", "update", f"jobid={over}", "EndTime=now+1")
    cancelled = submit("exec sleep 300", "--nodelist=n1")
    lost = submit("exec sleep 300", "--nodelist=n2", "--no-requeue")
    preempted = submit("exec sleep 300", "--nodelist=n3", "--exclusive", "--partition=spare")
    for job in (cancelled, lost, preempted):
        in_state(launcher, job, JobState.RUNNING)
    launcher.cancel(cancelled)
    ask(conf, "scontrol", "update", "nodename=n2", "state=down", "reason=test")
    submit("true", "--nodelist=n3", "--exclusive", "--partition=urgent")
    jobs = {
        submit("exit 0"): (JobState.SUCCEEDED, 0, None, "COMPLETED"),
        submit("exit 7"): (JobState.FAILED, 7, None, "FAILED"),
        submit("kill -9 $$"): (JobState.FAILED, None, 9, "FAILED"),
        cancelled: (JobState.CANCELLED, None, 15, "CANCELLED"),
        lost: (JobState.NODE_LOST, None, None, "NODE_FAIL"),
        preempted: (JobState.PREEMPTED, None, None, "PREEMPTED"),
        over: (JobState.TIMEOUT, None, None, "TIMEOUT"),
    }
    for job, expected in jobs.items():
        report = ended(launcher, job)
        assert (report.state, report.exit_code) == expected[:2], (job, report)
        forget(conf, job)
        report = launcher.state(job)
        assert (report.state, report.exit_code, report.said.partition(" ")[0]) == (*expected[:2], expected[3]), job
        assert report.signal in {expected[2], None}, job
        assert report.nodes, job
        assert report.started_at is not None, job
        assert report.ended_at is not None, job
        assert report.started_at <= report.ended_at, job
    assert launcher.state(cancelled).said == "CANCELLED by 0"
    assert launcher.state("4294967").state is JobState.GONE


def test_a_job_that_slurm_starts_again_is_the_same_job(
    conf: Path, launcher: SlurmLauncher, submit: Submit, tmp_path: Path
) -> None:
    job = submit(f"echo begun >> {tmp_path}/begun; [ $(wc -l < {tmp_path}/begun) -gt 1 ] || sleep 300")
    in_state(launcher, job, JobState.RUNNING)
    # Slurm calls it running before it starts the script.
    text_in(tmp_path / "begun")
    ask(conf, "scontrol", "requeue", job)
    waiting = until(lambda: launcher.state(job), lambda report: report.restarts == 1)
    # It may have ended by the time that anybody looks.
    assert waiting.state in {JobState.PENDING, JobState.RUNNING, JobState.SUCCEEDED}
    assert (waiting.ended_at is not None) == waiting.state.ended
    assert launcher.find(f"{tmp_path.name}-r0", SINCE) == job
    # The credentials of its first start have to expire before.
    report = ended(launcher, job)
    assert (report.state, report.restarts) == (JobState.SUCCEEDED, 1)
    forget(conf, job)
    assert (launcher.state(job).state, launcher.state(job).restarts) == (JobState.SUCCEEDED, 1)


def test_a_controller_that_is_away_for_a_while_is_unknown_and_nothing_else(
    conf: Path, launcher: SlurmLauncher, submit: Submit
) -> None:
    job = submit("sleep 300")
    in_state(launcher, job, JobState.RUNNING)
    with suspended(conf, "slurmctld"):
        assert HASTY.state(job).state is JobState.UNKNOWN
        with pytest.raises(LauncherError):
            HASTY.find("nobody-r0", SINCE)
    assert launcher.state(job).state is JobState.RUNNING


def test_while_the_accounting_is_away_the_controller_is_enough_for_what_it_knows(
    conf: Path, launcher: SlurmLauncher, submit: Submit
) -> None:
    forgotten = submit("exit 3")
    ended(launcher, forgotten)
    forget(conf, forgotten)
    job = submit("sleep 300")
    in_state(launcher, job, JobState.RUNNING)
    with suspended(conf, "slurmdbd"):
        assert launcher.state(job).state is JobState.RUNNING
        launcher.cancel(job)
        assert ended(launcher, job).state is JobState.CANCELLED
        report = HASTY.state(forgotten)
        assert (report.state, "sacct" in report.reason) == (JobState.UNKNOWN, True)
        with pytest.raises(LauncherError, match="sacct"):
            HASTY.find("nobody-r0", SINCE)
    assert launcher.state(forgotten).exit_code == 3


def test_a_job_goes_to_the_cluster_that_is_named_and_is_known_there(conf: Path, tmp_path: Path) -> None:
    launcher = SlurmLauncher(("test",), call_s=CALL_S)
    spec = JobSpec(("sleep", "300"), str(tmp_path), options=("--clusters=test",))
    name = f"{tmp_path.name}-r0"
    job = launcher.submit(spec, name, SINCE)
    assert job.endswith("@test")
    assert launcher.submit(spec, name, SINCE) == job
    in_state(launcher, job, JobState.RUNNING)
    launcher.cancel(job)
    assert ended(launcher, job).state is JobState.CANCELLED
    forget(conf, job.partition("@")[0])
    assert (launcher.find(name, SINCE), launcher.state(job).state) == (job, JobState.CANCELLED)
    with pytest.raises(LauncherError, match="nowhere"):
        SlurmLauncher(("nowhere",), call_s=CALL_S).find(name, SINCE)


def test_the_variables_of_a_job_reach_it_whatever_the_script_and_the_environment_want(
    conf: Path, launcher: SlurmLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    around = {"SBATCH_WAIT": "1", "SBATCH_JOB_NAME": "theirs", "SBATCH_EXPORT": "NONE", "SLURM_EXIT_ERROR": "99"}
    allocation = {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "64", "SLURM_MEM_PER_NODE": "1", "SLURM_MEM_PER_CPU": "1"}
    for name, text in {**around, **allocation}.items():
        monkeypatch.setenv(name, text)
    script = "#!/bin/sh\n#SBATCH --export=NONE --wait-all-nodes=0\nenv > env.new; mv env.new env; exec sleep 300\n"
    (tmp_path / "job.sh").write_text(script, encoding="utf-8")
    hostile = "a,b=c $(touch evil)\n'"
    spec = JobSpec(("job.sh",), str(tmp_path), {"LASTBEAT_RUN_ID": "llama", "LASTBEAT_RESUME_FROM": hostile})
    job = launcher.submit(spec, f"{tmp_path.name}-r0", SINCE)
    written = text_in(tmp_path / "env")
    assert "LASTBEAT_RUN_ID=llama\n" in written
    assert f"LASTBEAT_RESUME_FROM={hostile}\n" in written
    assert f"SLURM_JOB_ID={job}\n" in written
    assert "SLURM_NTASKS=64" not in written
    assert "SLURM_MEM_PER_NODE=1\n" not in written
    assert not (tmp_path / "evil").exists()


def test_the_output_is_found_where_slurm_writes_it_in_a_folder_that_is_made(
    conf: Path, launcher: SlurmLauncher, submit: Submit
) -> None:
    job = submit("echo said", output="not/there/%%-%5j-%x-%A-%N-%u-%n-%t-%s-%J.out")
    (path,) = until(lambda: launcher.state(job), lambda report: report.state.ended).outputs
    assert Path(path).read_text(encoding="utf-8") == "said\n"


def test_a_job_that_somebody_else_submitted_is_adopted_and_an_array_is_not(conf: Path, tmp_path: Path) -> None:
    one = ask(conf, "sbatch", "--parsable", f"--chdir={tmp_path}", "--wrap=sleep 300").strip()
    many = ask(conf, "sbatch", "--parsable", f"--chdir={tmp_path}", "--array=1-2", "--wrap=sleep 300").strip()
    until(lambda: ask(conf, "squeue", "-h", "--states=running"), lambda lines: len(lines.splitlines()) == 3)
    assert adoption(one).id == one
    with pytest.raises(JobRefusedError, match="a task of one"):
        adoption(f"{many}_2")
    with pytest.raises(LauncherError, match="several jobs"):
        adoption(many)
    with pytest.raises(JobRefusedError, match="there is no job 4294967"):
        adoption("4294967")
    with pytest.raises(JobRefusedError, match="is no job id of Slurm"):
        adoption("4; touch evil")
