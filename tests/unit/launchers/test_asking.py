"""Schedulers whose commands hang, flood or lie: every call ends in time, with a bounded answer."""

import os
import re
import stat
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

from lastbeat.jobs.launchers.asking import ask
from lastbeat.jobs.launchers.port import JobRefusedError, LauncherError, NotLaunchedError
from lastbeat.jobs.launchers.slurm.launcher import SlurmLauncher
from lastbeat.model.job import JobSpec, JobState
from support.row_by_row import labelled
from support.waiting import until

SINCE = datetime(2026, 1, 1, tzinfo=timezone.utc)
HANGS = "trap '' TERM; sleep 600"
HANGS_BEHIND = "sleep 600 & exit 0"
FLOODS = "exec cat /dev/zero"
FLOODS_WITH_ERRORS = "exec cat /dev/zero >&2"
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a command of Slurm's on the PATH that does what a script says."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    def put(script: str, *names: str) -> None:
        for name in names:
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            (tmp_path / name).chmod(stat.S_IRWXU)

    return put


def test_an_answer_has_its_exit_status_and_both_streams(install: Install) -> None:
    install("cat; echo wrong >&2; exit 3", "squeue")
    answer = ask(["squeue"], dict(os.environ), 60, stdin="as\nsaid")
    assert (answer.code, answer.out, answer.err, answer.fault) == (3, "as\nsaid", "wrong\n", "squeue: wrong")


def test_only_the_given_environment_is_handed_on(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("echo ${SECRET-unset} $GIVEN", "squeue")
    monkeypatch.setenv("SECRET", "1")
    assert ask(["squeue"], {"PATH": os.environ["PATH"], "GIVEN": "yes"}, 60).out == "unset yes\n"


@pytest.mark.parametrize("script", [HANGS, HANGS_BEHIND])
def test_a_call_without_an_answer_ends_in_time_with_all_that_it_started(
    install: Install, tmp_path: Path, script: str
) -> None:
    install(f"echo $$ > {tmp_path}/pid; {script}", "squeue")
    with pytest.raises(LauncherError, match=r"squeue did not answer within 0\.5 s"):
        ask(["squeue"], dict(os.environ), 0.5)
    group = int((tmp_path / "pid").read_text())
    until(lambda: not _lives(group))


def _lives(group: int) -> bool:
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[2] == str(group) and fields[0] not in "ZX":
            return True
    return False


@pytest.mark.parametrize("script", [FLOODS, FLOODS_WITH_ERRORS])
def test_a_flood_is_cut_off(install: Install, script: str) -> None:
    install(script, "squeue")
    with pytest.raises(LauncherError, match="squeue answered with more than 1 MiB"):
        ask(["squeue"], dict(os.environ), 60)


def test_a_program_that_there_is_not_is_told_as_such() -> None:
    with pytest.raises(JobRefusedError, match="nosuchcommand is not installed here"):
        ask(["nosuchcommand"], dict(os.environ), 60)


def test_a_program_that_cannot_be_run_is_told_as_such(install: Install, tmp_path: Path) -> None:
    install("", "squeue")
    (tmp_path / "squeue").write_bytes(b"\x7fELF nonsense")
    with pytest.raises(LauncherError, match="squeue cannot be run: Exec format error"):
        ask(["squeue"], dict(os.environ), 60)


LIES = [
    ("hangs", HANGS, "did not answer"),
    ("prints what is no text", r"printf '\377\376\n\000'", "does not know"),
]


@pytest.mark.parametrize(("script", "said"), labelled(LIES))
def test_of_a_job_nothing_is_known_where_the_scheduler(install: Install, script: str, said: str) -> None:
    install(script, "scontrol", "squeue", "sacct", "scancel")
    report = SlurmLauncher(call_s=1.0).state("4711")
    assert report.state is JobState.UNKNOWN
    assert said in report.reason


@pytest.mark.parametrize("script", [HANGS, "exit 1"])
def test_nothing_is_submitted_or_cancelled_while_nobody_can_tell_whether_it_was(
    install: Install, tmp_path: Path, script: str
) -> None:
    install(script, "squeue", "scancel")
    install(f"touch {tmp_path}/submitted; echo 1", "sbatch")
    launcher = SlurmLauncher(call_s=0.3)
    with pytest.raises(LauncherError):
        launcher.find("x-r0", SINCE)
    with pytest.raises(LauncherError):
        launcher.submit(JobSpec(("true",), "/"), "x-r0", SINCE)
    assert not (tmp_path / "submitted").exists()
    with pytest.raises(LauncherError):
        launcher.cancel("4711")


ANSWERS = [
    ("4711", "4711"),
    ("4711;west", "4711@west"),
    ("Submitted batch job 4711", None),
    ("4711;we st", None),
]


@pytest.mark.parametrize(("said", "job"), ANSWERS)
def test_the_answer_to_a_submission_is_a_job_with_its_cluster_or_an_error(
    install: Install, said: str, job: str | None
) -> None:
    install("", "squeue", "sacct")
    install(f"echo '{said}'", "sbatch")
    launcher = SlurmLauncher(call_s=60)
    if job is None:
        with pytest.raises(LauncherError, match="which is no job id"):
            launcher.submit(JobSpec(("true",), "/"), "x-r0", SINCE)
    else:
        assert launcher.submit(JobSpec(("true",), "/"), "x-r0", SINCE) == job


def test_a_job_of_another_cluster_is_asked_about_and_ended_there(install: Install, tmp_path: Path) -> None:
    install(f'echo "$0 $@" >> {tmp_path}/calls; echo "JobId=5 JobName=x"; echo "   JobState=RUNNING"', "scontrol")
    install(f'echo "$0 $@" >> {tmp_path}/calls', "scancel", "squeue", "sacct")
    launcher = SlurmLauncher(("west",), call_s=60)
    assert launcher.state("5@west").state is JobState.RUNNING
    launcher.cancel("5@west")
    assert launcher.find("x-r0", SINCE) is None
    calls = (tmp_path / "calls").read_text().replace(f"{tmp_path}/", "").splitlines()
    assert calls[:2] == ["scontrol --clusters=west show job 5", "scancel --clusters=west 5"]
    assert [call.split()[:2] for call in calls[2:]] == [["squeue", "--clusters=west"], ["sacct", "--clusters=west"]]


def test_options_of_other_clusters_than_are_asked_are_refused() -> None:
    with pytest.raises(JobRefusedError, match="other clusters than this launcher asks"):
        SlurmLauncher().submit(JobSpec(("true",), "/", options=("-M", "west")), "x-r0", SINCE)


NODES = "n1|n1\nn2|n2\nlogin-a|host7\n"


@pytest.mark.parametrize(
    ("named", "excluded"),
    [
        (("n2",), "n2"),
        (("n1.cluster.example", "host7"), "n1,login-a"),
        (("n[1-1000]", "evil,n1", "--uid=0", "n9", "n2"), "n2"),
    ],
)
def test_only_nodes_that_there_are_are_left_out(
    install: Install, tmp_path: Path, named: tuple[str, ...], excluded: str
) -> None:
    install("", "squeue", "sacct")
    install(f"printf '{NODES}'", "sinfo")
    install(f'echo "$@" > {tmp_path}/call; echo 5', "sbatch")
    SlurmLauncher(call_s=60).submit(JobSpec(("true",), "/", excluded_nodes=named), "x-r0", SINCE)
    assert f"--exclude={excluded}" in (tmp_path / "call").read_text().split()


NOWHERE = (
    "echo 'NAME: error: fetch_config: DNS SRV lookup failed' >&2; "
    "echo 'NAME: fatal: Could not establish a configuration source' >&2; exit 1"
)
ASKED: list[Callable[[SlurmLauncher], object]] = [
    lambda slurm: slurm.place(),
    lambda slurm: slurm.find("x-r0", SINCE),
    lambda slurm: slurm.cancel("5"),
    lambda slurm: slurm.ask(["scontrol", "show", "job", "5"], ""),
]


@pytest.mark.parametrize("call", ASKED)
def test_a_machine_without_a_cluster_is_told_how_to_reach_one(
    install: Install, call: Callable[[SlurmLauncher], object]
) -> None:
    for name in ("scontrol", "squeue", "scancel"):
        install(NOWHERE.replace("NAME", name), name)
    with pytest.raises(LauncherError) as told:
        call(SlurmLauncher(call_s=60))
    said = re.fullmatch(r"(\w+): Could not establish a configuration source; (.*)", told.value.told)
    assert said is not None, "the command stands there once, and the last of its lines"
    assert said[1] in {"scontrol", "squeue", "scancel"}
    assert all(word in said[2] for word in ("SLURM_CONF", "login node", "'scontrol ping'"))


def test_a_controller_that_is_away_comes_with_a_command_to_try(install: Install) -> None:
    install("echo 'squeue: error: Unable to contact slurm controller (connect failure)' >&2; exit 1", "squeue")
    with pytest.raises(LauncherError) as told:
        SlurmLauncher(call_s=60).find("x-r0", SINCE)
    assert told.value.told == (
        "squeue: Unable to contact slurm controller (connect failure); "
        "'scontrol ping' says whether the controller answers"
    )


SAID = [
    ("slurm_submit_batch_job error: Unable to contact slurm controller (connect failure)", NotLaunchedError),
    ("Batch job submission failed: Job violates accounting/QOS policy (job submit limit)", NotLaunchedError),
    ("Batch job submission failed: Resource temporarily unavailable", NotLaunchedError),
    ("Batch job submission failed: Socket timed out on send/recv operation", LauncherError),
    ("invalid partition specified: nowhere", JobRefusedError),
]


@pytest.mark.parametrize(("said", "kind"), SAID)
def test_what_sbatch_says_tells_whether_it_may_be_tried_again(
    install: Install, said: str, kind: type[LauncherError]
) -> None:
    install("", "squeue", "sacct")
    install(f"echo 'sbatch: error: {said}' >&2; exit 1", "sbatch")
    with pytest.raises(LauncherError, match=said[:20]) as told:
        SlurmLauncher(call_s=60).submit(JobSpec(("true",), "/"), "x-r0", SINCE)
    assert type(told.value) is kind


def test_an_accounting_that_is_late_is_given_time_and_then_believed_no_more(install: Install) -> None:
    times = iter((0.0, 300.0, 601.0))
    install("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", "scontrol")
    install("echo 'RUNNING|0:0|2026-11-22T18:44:05|Unknown|n1|x-r0'", "sacct")
    launcher = SlurmLauncher(call_s=60, clock=lambda: next(times))
    reports = [launcher.state("5") for _ in range(3)]
    assert [each.state for each in reports] == [JobState.UNKNOWN, JobState.UNKNOWN, JobState.GONE]
    assert reports[2].reason == "the controller does not know it, and the accounting still has it as RUNNING"


@pytest.mark.parametrize(
    ("controller", "state"),
    [("Unable to contact slurm controller", JobState.UNKNOWN), ("Invalid job id specified", JobState.GONE)],
)
def test_without_accounting_a_job_is_gone_that_the_controller_forgot(
    install: Install, controller: str, state: JobState
) -> None:
    install(f"echo 'slurm_load_jobs error: {controller}' >&2; exit 1", "scontrol")
    install("echo 'Slurm accounting storage is disabled' >&2; exit 1", "sacct")
    assert SlurmLauncher(call_s=60).state("5").state is state


def test_of_the_jobs_of_another_cluster_nothing_is_told(install: Install, tmp_path: Path) -> None:
    config = "ClusterName = east\nSlurmctldHost[0] = head(10.0.0.1)"
    gone = "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"
    install(f'[ "$2" = config ] && echo "{config}" && exit 0; {gone}', "scontrol")
    install("", "squeue", "sacct", "scancel")
    install(f"touch {tmp_path}/submitted; echo 1", "sbatch")
    here = SlurmLauncher(call_s=60).place()
    assert here == f"east@head uid {os.getuid()}"
    elsewhere = SlurmLauncher(place=here.replace("east", "west"), call_s=60)
    report = elsewhere.state("5")
    assert report.state is JobState.UNKNOWN
    assert report.reason.startswith("its jobs are in west@head")
    with pytest.raises(LauncherError, match="its jobs are in west@head"):
        elsewhere.submit(JobSpec(("true",), "/"), "x-r0", SINCE)
    assert not (tmp_path / "submitted").exists()
    assert SlurmLauncher(place=here, call_s=60).state("5").state is JobState.GONE
