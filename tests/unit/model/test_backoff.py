"""How long a retry waits: it doubles with each failure, up to a limit."""

from math import inf

import pytest

from lastbeat.model.times import backoff_s


@pytest.mark.parametrize(
    ("failures", "cap_s", "wait_s"),
    [
        pytest.param(0, inf, 0.0, id="nothing has failed, so nothing waits"),
        pytest.param(1, inf, 5.0, id="the first failure waits for the first time"),
        pytest.param(2, inf, 10.0, id="the second one twice as long"),
        pytest.param(7, 320.0, 320.0, id="up to the limit"),
        pytest.param(1, 2.0, 2.0, id="and holds for the first failure, too"),
        pytest.param(10**6, 600.0, 600.0, id="however often it fails"),
        pytest.param(10**6, inf, 5.0 * 2**20, id="and without a limit the wait stays finite"),
    ],
)
def test_a_wait_doubles_up_to_its_limit(failures: int, cap_s: float, wait_s: float) -> None:
    assert backoff_s(failures, 5.0, cap_s) == wait_s


def test_what_does_not_wait_at_first_never_waits() -> None:
    assert backoff_s(9, 0.0, 60.0) == 0.0
