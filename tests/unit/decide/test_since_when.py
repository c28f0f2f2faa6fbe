"""Since when a run is what it is: as the evidence tells; and beside it when that was seen."""

from collections.abc import Callable

import pytest

from lastbeat.model.policy import Policy
from support.scene import Scene

MINUTE, HOUR = 60.0, 3600.0


@pytest.mark.parametrize(
    ("act", "policy", "status", "ago_s"),
    [
        pytest.param(lambda s: s.put("_error", "boom", age_s=5 * HOUR), Policy(), "FAILED", 5 * HOUR,
                     id="a failure is as old as its _error"),
        pytest.param(lambda s: s.put("_complete", age_s=5 * HOUR), Policy(), "SUCCEEDED", 5 * HOUR,
                     id="a success is as old as its _complete"),
        pytest.param(lambda s: (s.beat(age_s=5 * HOUR), s.progress(7, age_s=4 * HOUR)), Policy(), "TIMED_OUT", 4 * HOUR,
                     id="a silent run died with its last beat"),
        pytest.param(lambda s: None, Policy(), "TIMED_OUT", 0.0,
                     id="a run that never was is missed since the first look"),
        pytest.param(lambda s: (s.beat(), s.progress(7, age_s=9 * MINUTE)), Policy(stall_s=2 * MINUTE), "TIMED_OUT",
                     9 * MINUTE, id="a run that hangs hangs since its last step"),
        pytest.param(lambda s: s.put("_error", "boom", age_s=-5 * HOUR), Policy(), "FAILED", 0.0,
                     id="a file from the future was written by now"),
    ],
)  # fmt: skip
def test_since_is_when_it_happened(act: Callable[[Scene], object], policy: Policy, status: str, ago_s: float) -> None:
    scene = Scene(policy)
    act(scene)
    outcome = scene.look()
    assert outcome.status.value == status
    assert outcome.record is not None
    assert outcome.record.happened_at is not None
    assert (scene.now - outcome.record.happened_at).total_seconds() == pytest.approx(ago_s, abs=1)
    assert outcome.record.since == outcome.at
    scene.after(60)
    again = scene.look()
    assert again.record is not None
    assert again.record.happened_at == outcome.record.happened_at
