"""Silence outranks standing still: a run that has missed several of its own beats is not said to live."""

from typing import Any

import pytest

from lastbeat.explain.signals import hints
from lastbeat.model.policy import Policy
from support.world import World

MINUTE = 60.0
STALL = Policy(stall_s=2 * MINUTE)


def beaten(**fields: Any) -> World:
    """A run that made step 50 and was looked at."""
    world = World(STALL)
    world.beat(**fields)
    world.progress(50)
    world.look()
    return world


@pytest.mark.parametrize(
    ("fields", "silent_s", "conditions"),
    [
        pytest.param({"beat_seconds": 30}, 100, [], id="three beats may be late"),
        pytest.param({"beat_seconds": 30}, 126, ["beats_missed", "stalled"], id="after four of them it is silent"),
        pytest.param({"beat_seconds": 5}, 30, ["beats_missed"], id="who beats often is missed soon"),
        pytest.param({"beat_seconds": 5, "longest_gap_s": 50}, 30, [], id="a gap that it had before is no news"),
        pytest.param({"beat_seconds": 5, "longest_gap_s": 50}, 110, ["beats_missed"], id="one twice as long is"),
        pytest.param({}, 110, [], id="who does not say how often it beats misses none"),
        pytest.param({"beat_seconds": "often"}, 110, [], id="nor who says so in words"),
        pytest.param({"beat_seconds": -3}, 110, [], id="or less often than never"),
    ],
)
def test_missed_beats_are_a_condition(fields: dict[str, Any], silent_s: float, conditions: list[str]) -> None:
    world = beaten(**fields)
    world.after(silent_s)
    outcome = world.look()
    assert outcome.status.value == "RUNNING"
    assert sorted(outcome.conditions) == conditions


def test_the_condition_says_since_when_and_how_often_it_beats_and_ends_with_the_next_beat() -> None:
    world = beaten(beat_seconds=30)
    world.after(126)
    outcome = world.look()
    assert outcome.conditions["beats_missed"] == "silent for 2m 06s (beats each 30s)"
    assert outcome.action == hints.SILENT
    world.beat(beat_seconds=30)
    assert "beats_missed" not in world.look().conditions
    assert world.channel.events == ["WARNING"]


@pytest.mark.parametrize(
    ("fields", "beats", "says", "hint"),
    [
        pytest.param({"beat_seconds": 30}, False, "Silent for 4m 01s (beats each 30s). No progress", hints.SILENT,
                     id="a killed process is silent"),
        pytest.param({"beat_seconds": 30}, True, "No progress: still at step 50", hints.STALLED,
                     id="one that beats lives and hangs"),
        pytest.param({}, False, "No progress: still at step 50", hints.STALLED_OR_DEAD,
                     id="of one that does not say how often it beats nobody knows"),
        pytest.param({}, True, "No progress: still at step 50", hints.STALLED, id="unless it has just beaten"),
    ],
)  # fmt: skip
def test_only_a_run_that_beats_is_said_to_live(fields: dict[str, Any], beats: bool, says: str, hint: str) -> None:
    world = beaten(**fields)
    world.after(241)
    if beats:
        world.beat(**fields)
    outcome = world.look()
    assert outcome.status.value == "TIMED_OUT"
    assert outcome.reason.startswith(says)
    assert outcome.action == hint
    assert outcome.cause == ("hang" if hint == hints.STALLED else None)
