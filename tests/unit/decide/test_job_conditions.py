"""What is told of a job that waits or runs, and what to do about it."""

from datetime import datetime, timezone

import pytest

from lastbeat.decide.job_conditions import OF_KUBERNETES, REASONS, explained, remedy
from lastbeat.model.job import JobMemory
from support.row_by_row import check_each

WORDS = [
    ("AssocGrpCpuLimit", "the limit of the account or its user on CPUs is reached", False),
    ("QOSMaxJobsPerUserLimit", "the limit of the QOS on jobs at once is reached", False),
    ("AssocMaxCpuPerJobLimit", "it asks for more CPUs than the account or its user gives one job", True),
    ("QOSGrpGRES", "the limit of the QOS on GPUs is reached", False),
    ("QOSMaxWallDurationPerJobLimit", "it asks for more time than the QOS gives one job", True),
    ("MaxJobsPerAccount", "the limit of the user on jobs at once is reached", False),
    ("Priority", "others are before it", False),
    ("JobHeldUser", "its owner holds it back", True),
    ("ReqNodeNotAvail, UnavailableNodes:n[1-3]", "a node that it asks for is down, drained or reserved", False),
    ("Reservation(maintenance)", "its reservation has not begun", False),
    ("launch failed requeued held", "it could not be launched on its node, and is held back", True),
    ("SomethingNew", "", False),
    ("", "", False),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "means", "hopeless"), WORDS)
def test_a_schedulers_reason_in_words(reason: str, means: str, hopeless: bool) -> None:
    found = explained(reason)
    assert (found.means, found.hopeless) == (means, hopeless)


def test_what_does_not_pass_by_itself_has_a_remedy() -> None:
    wrong = [f"{reason} has no remedy" for reason, each in REASONS.items() if each.hopeless and not each.remedy]
    assert wrong == [], "\n".join(wrong)


def test_each_reason_of_kubernetes_is_one_of_its_jobs_alone() -> None:
    check_each(((reason, (reason,)) for reason in OF_KUBERNETES), is_of_kubernetes_alone)


def is_of_kubernetes_alone(reason: str) -> None:
    found = explained(f"{reason}: pod llama-0: its message", "kubernetes")
    assert found == OF_KUBERNETES[reason]
    assert found.remedy or not found.hopeless
    assert explained(f"{reason}: pod llama-0", "ray").means == ""


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
