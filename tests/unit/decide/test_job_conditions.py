"""What is told of a job that waits or runs, and what to do about it."""

from datetime import datetime, timezone

import pytest

from lastbeat.model.job import JobMemory
from lastbeat.watch.decide.job_conditions import remedy


def test_what_to_do_about_a_job_that_waits_names_the_object() -> None:
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    job = JobMemory("kubernetes", "job/llama-r0-1", "llama-r0", 0, at, reason="NoPods: it has no pod yet")
    told = remedy({"job_pending": "…"}, job)
    assert told is not None
    assert told.startswith("kubectl describe job/llama-r0-1 (Events) says why")


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
    advice = remedy({"job_log_missing": "…"}, job)
    assert advice is not None
    assert told in advice
    assert "--output" not in advice


@pytest.mark.parametrize("launcher", ["ray", "ray-pod", "ray-exec"])
def test_a_job_that_waits_on_ray_is_told_where_to_look_and_what_to_do(launcher: str) -> None:
    job = JobMemory(launcher, "llama-r0-0123", "llama-r0", 0, datetime(2026, 1, 1, tzinfo=timezone.utc))
    advice = remedy({"job_pending": "…"}, job)
    assert advice is not None
    for part in ("ray status shows what is free and what waits", "ask for less", "add nodes", "lastbeat stop"):
        assert part in advice
