"""What launchers say of their jobs, in words."""

import pytest

from lastbeat.explain.launchers.traits import LauncherTraits, launcher_traits

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


@pytest.mark.parametrize("kind", ["of-a-newer-version", ""])
def test_a_launcher_that_is_not_known_has_the_words_that_fit_any(kind: str) -> None:
    assert launcher_traits(kind) == LauncherTraits()
