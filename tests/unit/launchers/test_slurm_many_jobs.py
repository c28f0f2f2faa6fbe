"""One squeue answers for all jobs of an agent's pass."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lastbeat.jobs.launchers.slurm.launcher import SlurmLauncher
from lastbeat.jobs.launchers.slurm.reports import QUEUED, queued
from lastbeat.model.job import JobReport, JobState
from support.row_by_row import labelled

SEPARATOR = "|7f|"
LISTS = r"""
echo "$@" >> "${0%/*}/calls"
for word in "$@"; do
  case $word in --Format=*) row=${word#--Format=},;; --jobs=*) ids=${word#--jobs=};; esac
done
echo "$ids" | tr , "\n" | awk -v row="$row" '{
  said = row; gsub(/JobArrayID:|JobID:/, $0, said); sub(/State:/, "RUNNING", said)
  gsub(/[A-Za-z]+:/, "", said); gsub(/\|,/, "|", said); print said
}'
"""
"""All jobs that it is asked about run."""

Squeue = Callable[[str], Callable[[], list[str]]]


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Squeue:
    """Puts a squeue on the PATH that does what a script says, and returns what tells its calls."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    def put(script: str) -> Callable[[], list[str]]:
        (tmp_path / "squeue").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (tmp_path / "squeue").chmod(0o755)
        return lambda: (tmp_path / "calls").read_text(encoding="utf-8").splitlines()

    return put


def test_one_query_answers_for_200_jobs_and_a_few_for_more_than_a_command_line_should_hold(squeue: Squeue) -> None:
    calls = squeue(LISTS)
    for many, queries in ((200, 1), (1200, 4)):
        asked = [f"{number}" for number in range(1, many + 1)]
        told = SlurmLauncher().states(asked)
        assert {name: report.state for name, report in told.items()} == dict.fromkeys(asked, JobState.RUNNING)
        assert len(calls()) == queries


def test_each_cluster_is_asked_about_its_own_jobs(squeue: Squeue) -> None:
    calls = squeue(LISTS)
    assert list(SlurmLauncher().states(["1@east", "2@west", "3@west", "4", "", "7_1", "--me"])) == [
        "1@east", "2@west", "3@west", "4",
    ]  # fmt: skip
    asked = [{word for word in call.split() if word.startswith(("--clusters=", "--jobs="))} for call in calls()]
    assert asked == [{"--clusters=east", "--jobs=1"}, {"--clusters=west", "--jobs=2,3"}, {"--jobs=4"}]


AWAY = [
    ("floods", "exec cat /dev/zero", "more than 8 MiB"),
    ("fails", "echo squeue: error: Unable to contact slurm controller >&2; exit 1", "Unable to contact"),
]


@pytest.mark.parametrize(("script", "why"), labelled(AWAY))
def test_of_no_job_anything_is_known_where_squeue(squeue: Squeue, script: str, why: str) -> None:
    squeue(script)
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
def test_each_job_is_asked_about_by_itself_where_squeue(squeue: Squeue, script: str) -> None:
    squeue(script)
    assert SlurmLauncher().states(["1", "2"]) == {}


def listed(number: int, state: str = "RUNNING", **more: str) -> str:
    """One job as squeue lists it."""
    columns = {
        "JobID": f"{number}", "JobArrayID": f"{number}", "State": state, "Reason": "None", "RestartCnt": "0",
        "StartTime": "2026-11-22T18:44:05", "NodeList": "n1", "UserName": "ada", "STDOUT": f"/scratch/{number}.log",
        **more,
    }  # fmt: skip
    return "".join(f"{columns.get(name, '')}{SEPARATOR}" for name in QUEUED) + "\n"


LEFT_OUT = [
    ("it has ended", listed(7, "FAILED")),
    ("its state is a word of a later version", listed(7, "TELEPORTED")),
    ("it is a task of an array", listed(7, JobArrayID="6_1")),
]


@pytest.mark.parametrize("said", labelled(LEFT_OUT))
def test_a_job_is_asked_about_by_itself_where(said: str) -> None:
    assert list(queued(listed(1) + said, SEPARATOR)) == ["1"]


def test_a_job_is_reported_as_scontrol_shows_it() -> None:
    waits = {"Reason": "ReqNodeNotAvail, UnavailableNodes:n2", "StartTime": "2027-01-01T00:00:00", "NodeList": ""}
    named = {"STDOUT": "/scratch/%u/%x-%j.log", "Name": "llama-r0"}
    said = "CLUSTER: west\n" + listed(1, NodeList="n[1-2]", RestartCnt="2", **named) + listed(2, "PENDING", **waits)
    runs, pends = (each.report() for each in queued(said, SEPARATOR).values())
    assert (runs.nodes, runs.restarts, runs.outputs) == (("n1", "n2"), 2, ("/scratch/ada/llama-r0-1.log",))
    assert (runs.reason, runs.started_at is not None) == ("", True)
    assert pends == JobReport(
        JobState.PENDING, "PENDING", "ReqNodeNotAvail,_UnavailableNodes:n2", outputs=("/scratch/2.log",)
    )
