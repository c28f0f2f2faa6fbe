"""What is told of a job that waits or runs, and what to do about it."""

from datetime import datetime, timezone

import pytest

from lastbeat.decide.job_conditions import OF_KUBERNETES, REASONS, explained, remedy
from lastbeat.model.job import JobMemory

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


@pytest.mark.parametrize("reason", REASONS)
def test_what_does_not_pass_by_itself_has_a_remedy(reason: str) -> None:
    assert REASONS[reason].remedy or not REASONS[reason].hopeless


@pytest.mark.parametrize("reason", OF_KUBERNETES)
def test_kubernetes_own_reasons_are_those_of_its_jobs_alone(reason: str) -> None:
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
