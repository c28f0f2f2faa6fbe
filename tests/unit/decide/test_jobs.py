"""What people are told of a job that waits, runs or failed, and what to do about it."""

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from lastbeat.model.job import JobMemory, JobReport, JobSight, JobState
from lastbeat.watch.decide.jobs import judge, remedy
from support.there import there

MEMORY = JobMemory("local", "run-r0", "run-r0", 0, datetime(2026, 1, 1, tzinfo=timezone.utc))
ENDS = [
    ("a signal has its name", "signal 9", None, 9, "killed by SIGKILL", "It was killed by SIGKILL, and nothing"),
    ("the scheduler's word stands beside the signal", "FAILED", 0, 9, "FAILED, killed by SIGKILL", "It was killed"),
    ("it ended by itself", "exit status 3", 3, None, "exit status 3", "It was not killed: it ended by itself"),
    ("a shell's word for a signal", "exit status 137", 137, None, "exit status 137", "It was killed by SIGKILL"),
    ("nobody knows how", "FAILED", None, None, "FAILED", "Read the stack trace"),
]  # fmt: skip


def test_where_slurm_cannot_open_the_output_that_is_what_is_told() -> None:
    report = JobReport(JobState.FAILED, "FAILED", exit_code=0, signal=53)
    for launcher, advice in (
        ("slurm", "Slurm could not open the file for the job's output"),
        ("local", "It was killed"),
    ):
        found = judge(JobSight(replace(MEMORY, launcher=launcher), report), beats=False, says_done=None, lives=False)
        assert found is not None
        assert str(found.action).startswith(advice)


def test_a_container_that_was_killed_for_its_memory_is_a_lack_of_memory() -> None:
    report = JobReport(JobState.FAILED, "OOMKilled", "out of memory", signal=9)
    found = there(judge(JobSight(replace(MEMORY, launcher="ray-pod"), report), beats=True, says_done=None, lives=False))
    assert found.cause == "oom"
    assert "resources.limits.memory" in str(found.action)
    assert "OOMKilled" in found.reason


def test_where_processes_are_seen_a_job_that_is_gone_is_over_however_fresh_its_beats() -> None:
    report = JobReport(JobState.GONE, "gone", "its keeper is gone")
    over = {
        launcher: judge(JobSight(replace(MEMORY, launcher=launcher), report), beats=True, says_done=None, lives=True)
        for launcher in ("local", "ray-pod", "slurm", "ray")
    }
    assert {launcher for launcher, found in over.items() if found is not None} == {"local", "ray-pod"}


@pytest.mark.parametrize(
    ("said", "code", "number", "words", "advice"), [row[1:] for row in ENDS], ids=[row[0] for row in ENDS]
)
def test_how_a_job_failed_is_told_in_words(
    said: str, code: int | None, number: int | None, words: str, advice: str
) -> None:
    sight = JobSight(MEMORY, JobReport(JobState.FAILED, said, exit_code=code, signal=number))
    found = there(judge(sight, beats=True, says_done=None, lives=False))
    assert words in found.reason
    assert str(found.action).startswith(advice)


def test_what_to_do_about_a_job_that_waits_names_the_object() -> None:
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    job = JobMemory("kubernetes", "job/llama-r0-1", "llama-r0", 0, at, reason="NoPods: it has no pod yet")
    assert there(remedy({"job_pending": "…"}, job)).startswith("kubectl describe job/llama-r0-1 (Events) says why")


ELSEWHERE = [
    ("ray", "llama-r0-0123@session_1", "ray job logs llama-r0-0123 "),
    ("ray-exec", "llama-r0-0123@session_1", "ray job logs llama-r0-0123 "),
    ("ray-pod", "llama-r0.1a2b/uid/0/7", "kubectl exec"),
    ("kubernetes", "job/llama-r0-1", "kubectl logs job/llama-r0-1 "),
    ("kubernetes", "jobset/llama-r0-1", "kubectl logs -l jobset.sigs.k8s.io/jobset-name=llama-r0-1 "),
    ("kubernetes", "pytorchjob/llama-r0-1", "kubectl logs -l training.kubeflow.org/job-name=llama-r0-1 "),
    ("kubernetes", "rayjob/llama-r0-1", "kubectl logs -l job-name=llama-r0-1 "),
]


@pytest.mark.parametrize(("launcher", "job_id", "told"), ELSEWHERE, ids=[f"{row[0]} {row[1]}" for row in ELSEWHERE])
def test_where_a_jobs_log_is_brought_from_elsewhere_no_output_is_advised(launcher: str, job_id: str, told: str) -> None:
    job = JobMemory(launcher, job_id, "llama-r0", 0, datetime(2026, 1, 1, tzinfo=timezone.utc))
    advice = there(remedy({"job_log_missing": "…"}, job))
    assert told in advice
    assert "--output" not in advice


@pytest.mark.parametrize("launcher", ["ray", "ray-pod", "ray-exec"])
def test_a_job_that_waits_on_ray_is_told_where_to_look_and_what_to_do(launcher: str) -> None:
    job = JobMemory(launcher, "llama-r0-0123", "llama-r0", 0, datetime(2026, 1, 1, tzinfo=timezone.utc))
    advice = there(remedy({"job_pending": "…"}, job))
    for part in ("ray status shows what is free and what waits", "ask for less", "add nodes", "lastbeat stop"):
        assert part in advice
