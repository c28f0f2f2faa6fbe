"""A run may state limits of its own, which outrank the watcher's."""

from typing import Any

import pytest

from lastbeat.model.policy import Policy
from support.world import World

MINUTE = 60.0


@pytest.mark.parametrize(
    ("stated", "policy", "silent_s", "status"),
    [
        pytest.param({"stale_minutes": 2}, Policy(), 121, "TIMED_OUT", id="a stricter one is held"),
        pytest.param({"stale_minutes": "120"}, Policy(), 60 * MINUTE, "RUNNING", id="a laxer one, too, also as a text"),
        pytest.param({"stale_minutes": 0.01}, Policy(), 50, "RUNNING", id="a tiny one is a minute"),
        pytest.param({"stale_minutes": 0.01}, Policy(), 65, "TIMED_OUT", id="and no more"),
        pytest.param({"stale_minutes": -1}, Policy(), 11 * MINUTE, "TIMED_OUT", id="a negative one is none"),
        pytest.param({"stale_minutes": 1e9}, Policy(), 11 * MINUTE, "TIMED_OUT", id="nor one of years"),
    ],
)
def test_silence(stated: dict[str, Any], policy: Policy, silent_s: float, status: str) -> None:
    world = World(policy)
    world.beat(**stated)
    assert world.look().status.value == "RUNNING"
    world.after(silent_s)
    assert world.look().status.value == status


@pytest.mark.parametrize("broken", ['{"run_', None], ids=["cut off", "removed"])
def test_a_document_that_cannot_be_read_takes_no_limit_back(broken: str | None) -> None:
    world = World()
    world.beat(stale_minutes=120)
    world.look()
    world.after(60)
    if broken is None:
        world.delete("metadata.json")
    else:
        world.put("metadata.json", broken)
    for _ in range(3):
        assert world.look().status.value == "RUNNING"
        world.after(20 * MINUTE)


def test_standing_still() -> None:
    world = World()
    world.beat(stall_minutes=5)
    world.progress(1)
    world.look()
    world.after(6 * MINUTE)
    world.beat(stall_minutes=5)
    assert "stalled" in world.look().conditions
    world.after(5 * MINUTE)
    world.beat(stall_minutes=5)
    outcome = world.look()
    assert outcome.status.value == "TIMED_OUT"
    assert outcome.record is not None
    assert outcome.record.exceeded is not None
    assert outcome.record.exceeded.limit_s == 300
