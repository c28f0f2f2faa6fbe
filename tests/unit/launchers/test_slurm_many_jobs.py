"""One squeue answers for all jobs of an agent's pass."""

import os
from pathlib import Path

import pytest

from lastbeat.jobs.launchers.slurm.launcher import SlurmLauncher
from lastbeat.model.job import JobReport, JobState
from support.fake_slurm import FakeSlurm, job
from support.row_by_row import labelled


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    found = FakeSlurm(tmp_path / "bin")
    found.install()
    monkeypatch.setenv("PATH", f"{found.folder}{os.pathsep}{os.environ['PATH']}")
    return found


def test_one_query_answers_for_200_jobs_and_a_few_for_more_than_a_command_line_should_hold(slurm: FakeSlurm) -> None:
    for many, queries in ((200, 1), (1200, 3)):
        slurm.show(*map(job, range(1, many + 1)))
        before = len(slurm.calls())
        told = SlurmLauncher().states([f"{number}" for number in range(1, many + 1)])
        assert [report.state for report in told.values()] == [JobState.RUNNING] * many
        assert len(slurm.calls()) == before + queries


def test_each_cluster_is_asked_about_its_own_jobs(slurm: FakeSlurm) -> None:
    slurm.show(job(1), job(2), job(3, "PENDING"))
    told = SlurmLauncher().states(["1@east", "2@west", "3@west", "4"])
    assert {name: report.state.value for name, report in told.items()} == {
        "1@east": "RUNNING",
        "2@west": "RUNNING",
        "3@west": "PENDING",
    }
    asked = {(call[1], next(word for word in call if word.startswith("--jobs="))) for call in slurm.calls()}
    assert {("--clusters=east", "--jobs=1"), ("--clusters=west", "--jobs=2,3")} < asked
    assert len(asked) == 3


LEFT_OUT = [
    ("it has ended", job(7, "FAILED")),
    ("its state is a word of a later version", job(7, "TELEPORTED")),
    ("it is a task of an array", job(7, JobArrayID="6_1")),
    ("squeue does not know it", job(8)),
]


@pytest.mark.parametrize("listed", labelled(LEFT_OUT))
def test_a_job_is_asked_about_by_itself_where(slurm: FakeSlurm, listed: dict[str, str]) -> None:
    slurm.show(listed)
    assert SlurmLauncher().states(["7"]) == {}


@pytest.mark.parametrize("name", ["", "7_1", "--me"])
def test_what_is_no_job_of_its_own_is_not_asked_about(slurm: FakeSlurm, name: str) -> None:
    assert SlurmLauncher().states([name]) == {}
    assert slurm.calls() == []


AWAY = [
    ("floods", "exec cat /dev/zero", "more than 8 MiB"),
    ("fails", "echo squeue: error: Unable to contact slurm controller >&2; exit 1", "Unable to contact"),
]


@pytest.mark.parametrize(("script", "why"), labelled(AWAY))
def test_of_no_job_anything_is_known_where_squeue(slurm: FakeSlurm, script: str, why: str) -> None:
    (slurm.folder / "squeue").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    told = SlurmLauncher(call_s=60.0).states(["1", "2@west"])
    assert {report.state for report in told.values()} == {JobState.UNKNOWN}
    assert len(told) == 2
    assert all(why in report.reason for report in told.values())


CANNOT = [
    ("does not know the form", "echo squeue: error: Invalid job format specification: JobArrayID >&2; exit 1"),
    ("knows none of the jobs", "echo slurm_load_jobs error: Invalid job id specified >&2; exit 1"),
    ("prints another form", "echo 1 main wrap ada R 0:05 1 n1"),
    ("prints what is no text", r"printf '\377\376\n\000'"),
]


@pytest.mark.parametrize("script", labelled(CANNOT))
def test_each_job_is_asked_about_by_itself_where_squeue(slurm: FakeSlurm, script: str) -> None:
    (slurm.folder / "squeue").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    assert SlurmLauncher().states(["1", "2"]) == {}


def test_a_job_is_reported_as_scontrol_shows_it(slurm: FakeSlurm) -> None:
    waits = {"Reason": "ReqNodeNotAvail, UnavailableNodes:n2", "StartTime": "2027-01-01T00:00:00", "NodeList": ""}
    slurm.show(
        job(1, NodeList="n[1-2]", RestartCnt="2", STDOUT="/scratch/%u/%x-%j.log", Name="llama-r0"),
        job(2, "PENDING", **waits),
    )
    told = SlurmLauncher().states(["1", "2"])
    runs, pends = told["1"], told["2"]
    assert (runs.nodes, runs.restarts, runs.outputs) == (("n1", "n2"), 2, ("/scratch/ada/llama-r0-1.log",))
    assert (runs.reason, runs.started_at is not None) == ("", True)
    assert pends == JobReport(
        JobState.PENDING,
        "PENDING",
        "ReqNodeNotAvail,_UnavailableNodes:n2",
        outputs=("/scratch/2.log",),
    )
