"""A run may state limits of its own, which outrank the watcher's."""

from typing import Any

import pytest

from lastbeat.model.policy import Policy
from support.scene import Scene

MINUTE = 60.0


@pytest.mark.parametrize(
    ("stated", "policy", "silent_s", "status"),
    [
        pytest.param({"stale_minutes": 2}, Policy(), 121, "TIMED_OUT", id="a stricter one is held"),
        pytest.param({"stale_minutes": "120"}, Policy(), 60 * MINUTE, "RUNNING", id="a laxer one, too, also as a text"),
        pytest.param({}, Policy(), 11 * MINUTE, "TIMED_OUT", id="without one the watcher's holds"),
        pytest.param({"stale_minutes": -1}, Policy(), 11 * MINUTE, "TIMED_OUT", id="a negative one is none"),
        pytest.param({"stale_minutes": "NaN"}, Policy(), 11 * MINUTE, "TIMED_OUT", id="nor is one that is no number"),
        pytest.param({"stale_minutes": 1e9}, Policy(), 11 * MINUTE, "TIMED_OUT", id="nor one of years"),
        pytest.param({"stale_minutes": [1]}, Policy(), 11 * MINUTE, "TIMED_OUT", id="nor a list"),
    ],
)
def test_silence(stated: dict[str, Any], policy: Policy, silent_s: float, status: str) -> None:
    scene = Scene(policy)
    scene.beat(**stated)
    assert scene.look().status.value == "RUNNING"
    scene.after(silent_s)
    assert scene.look().status.value == status


def test_standing_still() -> None:
    scene = Scene()
    scene.beat(stall_minutes=5)
    scene.progress(1)
    scene.look()
    scene.after(6 * MINUTE)
    scene.beat(stall_minutes=5)
    assert "stalled" in scene.look().conditions
    scene.after(5 * MINUTE)
    scene.beat(stall_minutes=5)
    outcome = scene.look()
    assert outcome.status.value == "TIMED_OUT"
    assert outcome.record is not None
    assert outcome.record.exceeded is not None
    assert outcome.record.exceeded.limit_s == 300
