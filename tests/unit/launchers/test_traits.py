"""What launchers say of their jobs, in words."""

import pytest

from lastbeat.explain.launchers import kubernetes, slurm
from lastbeat.explain.launchers.traits import LauncherTraits, launcher_traits
from support.row_by_row import check_each

WORDS = [
    ("AssocGrpCpuLimit", "the limit of the account or its user on CPUs is reached", False),
    ("QOSMaxJobsPerUserLimit", "the limit of the QOS on jobs at once is reached", False),
    ("AssocMaxCpuPerJobLimit", "it asks for more CPUs than the account or its user gives one job", True),
    ("QOSMaxWallDurationPerJobLimit", "it asks for more time than the QOS gives one job", True),
    ("Priority", "others are before it", False),
    ("ReqNodeNotAvail, UnavailableNodes:n[1-3]", "a node that it asks for is down, drained or reserved", False),
    ("Reservation(maintenance)", "its reservation has not begun", False),
    ("launch_failed_requeued_held", "it could not be launched on its node, and is held back", True),
    ("", "", False),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "means", "hopeless"), WORDS)
def test_a_schedulers_reason_in_words(reason: str, means: str, hopeless: bool) -> None:
    found = launcher_traits("slurm").wait_reason(reason)
    assert (found.means, found.hopeless) == (means, hopeless)


def test_what_does_not_pass_by_itself_has_a_remedy() -> None:
    wrong = [f"{reason} has no remedy" for reason, each in slurm.REASONS.items() if each.hopeless and not each.remedy]
    assert wrong == [], "\n".join(wrong)


def test_each_reason_of_kubernetes_is_one_of_its_jobs_alone() -> None:
    check_each(((reason, (reason,)) for reason in kubernetes.REASONS), is_of_kubernetes_alone)


def is_of_kubernetes_alone(reason: str) -> None:
    found = launcher_traits("kubernetes").wait_reason(f"{reason}: pod llama-0: its message")
    assert found == kubernetes.REASONS[reason]
    assert found.remedy or not found.hopeless
    assert launcher_traits("ray").wait_reason(f"{reason}: pod llama-0").means == ""


@pytest.mark.parametrize("kind", ["of-a-newer-version", ""])
def test_a_launcher_that_is_not_known_has_the_words_that_fit_any(kind: str) -> None:
    assert launcher_traits(kind) == LauncherTraits()
