"""Watchers with different limits over one run: what one decided stands until something happens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastbeat.model.limits import NO_LIMITS, RunLimits
from lastbeat.model.policy import Policy
from support.laws import examples
from support.world import World

MINUTE = 60.0
STRICT = Policy(stale_s=5 * MINUTE, stall_s=2 * MINUTE)
LAX = Policy(stale_s=60 * MINUTE)
WAITS = Policy(stale_s=60 * MINUTE, start_grace_s=60 * MINUTE)

HISTORY = {"beat_seconds": 10, "longest_gap_s": 12}

Act = Callable[[World], object]
beat = World.beat
Look = tuple[float, Act, Policy, str]
"""Seconds that pass, what then happens, who looks, and the status (with ! for conditions) that he then sees."""


def nothing(_world: World) -> None:
    pass


def step(number: int) -> Act:
    return lambda world: world.both(number)


HISTORIES: list[tuple[str, list[Look], list[str]]] = [
    (
        "a run that hangs is not recovered by a watcher that does not watch for hangs",
        [(0, step(1), STRICT, "RUNNING"), (60, beat, STRICT, "RUNNING"), (240, beat, STRICT, "TIMED_OUT"),
         (60, beat, LAX, "TIMED_OUT"), (60, beat, STRICT, "TIMED_OUT"), (60, step(2), LAX, "RUNNING")],
        ["TIMED_OUT", "RECOVERED"],
    ),
    (
        "a run that is silent is not recovered by a watcher with more patience",
        [(0, step(1), STRICT, "RUNNING"), (6 * MINUTE, nothing, STRICT, "TIMED_OUT"),
         (60, nothing, LAX, "TIMED_OUT"), (60, nothing, STRICT, "TIMED_OUT"), (60, step(2), LAX, "RUNNING")],
        ["TIMED_OUT", "RECOVERED"],
    ),
    (
        "a run that hung and then fell silent has to show progress, not life alone",
        [(0, step(1), STRICT, "RUNNING"), (240, beat, STRICT, "TIMED_OUT"), (90 * MINUTE, nothing, LAX, "TIMED_OUT"),
         (60, beat, LAX, "TIMED_OUT"), (60, step(2), LAX, "RUNNING")],
        ["TIMED_OUT", "RECOVERED"],
    ),
    (
        "a run that never began is not begun by a watcher that still waits for it",
        [(0, nothing, STRICT, "TIMED_OUT"), (60, nothing, WAITS, "TIMED_OUT"), (60, step(1), WAITS, "RUNNING")],
        ["TIMED_OUT", "STARTED"],
    ),
    (
        "a condition that a stricter limit raised is raised once, not at each of its looks",
        [(0, step(1), STRICT, "RUNNING"), (150, beat, STRICT, "RUNNING!"), (10, beat, LAX, "RUNNING!"),
         (10, beat, STRICT, "RUNNING!"), (10, beat, LAX, "RUNNING!"), (10, step(2), LAX, "RUNNING")],
        ["WARNING"],
    ),
    (
        "a heartbeat that is stale by the stricter limit stays so until it beats",
        [(0, step(1), LAX, "RUNNING"), (6 * MINUTE, beat, Policy(stale_s=5 * MINUTE), "RUNNING!"),
         (60, beat, LAX, "RUNNING!"), (60, beat, Policy(stale_s=5 * MINUTE), "RUNNING!"),
         (60, step(2), LAX, "RUNNING")],
        ["WARNING"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("looks", "events"), [pytest.param(s, e, id=name) for name, s, e in HISTORIES])
def test_a_laxer_limit_is_no_life(looks: Sequence[Look], events: list[str]) -> None:
    world = World()
    seen = []
    for seconds, act, policy, _ in looks:
        world.after(seconds)
        act(world)
        world.policy = policy
        outcome = world.look()
        seen.append(outcome.status.value + ("!" if outcome.conditions else ""))
    assert seen == [status for _, _, _, status in looks]
    assert world.channel.events == events


@dataclass(frozen=True)
class Moment:
    passes_s: float
    beats: bool
    steps: bool
    watcher: int
    limits: RunLimits | None
    """From now on these are the fleet's; None: they stay as they are."""


WORDS = st.none() | st.builds(
    RunLimits,
    stale=st.none() | st.tuples(st.sampled_from([60.0, 300.0, 3600.0]), st.just("*")),
    stall=st.none() | st.tuples(st.sampled_from([0.0, 60.0, 900.0]), st.just("run-*")),
    start=st.none() | st.tuples(st.sampled_from([0.0, 300.0]), st.just("*")),
    learned=st.none() | st.tuples(st.booleans(), st.just("*")),
)
MOMENTS = st.builds(
    Moment,
    passes_s=st.sampled_from([5.0, 30.0, 60.0, 200.0, 700.0]),
    beats=st.booleans(),
    steps=st.booleans(),
    watcher=st.integers(0, 4),
    limits=WORDS,
)
LIMITS = st.builds(
    Policy,
    stale_s=st.sampled_from([60.0, 300.0, 600.0, 3600.0]),
    stall_s=st.sampled_from([None, 60.0, 120.0, 900.0]),
    start_grace_s=st.sampled_from([0.0, 300.0]),
    learns=st.booleans(),
)


@settings(max_examples=examples(30, 3000))
@given(
    watchers=st.lists(LIMITS, min_size=2, max_size=5), moments=st.lists(MOMENTS, max_size=40), taught=st.integers(0, 20)
)
def test_no_status_gets_better_without_evidence(watchers: list[Policy], moments: list[Moment], taught: int) -> None:
    """Two to five watchers over one run, each with limits of its own, and those of the fleet change over time. Before
    that each may have seen a few steps, from which some of them learn."""
    world, of_fleet = World(), NO_LIMITS
    step_now, stood_still, was_out = 0, False, False
    lived = got_on = False
    quick = [Moment(20.0, beats=True, steps=True, watcher=number, limits=None) for number in range(taught)]
    for moment in [*quick, *moments]:
        world.after(moment.passes_s)
        of_fleet = moment.limits or of_fleet
        if moment.steps:
            step_now += 1
            world.beat(**HISTORY)
            world.progress(step_now)
            lived = got_on = True
        elif moment.beats:
            world.beat(**HISTORY)
            lived = True
        world.policy = watchers[moment.watcher % len(watchers)].of_fleet(of_fleet)
        outcome = world.look()
        out = outcome.status.value == "TIMED_OUT"
        if was_out and not out:
            assert got_on if stood_still else lived
        if out and not was_out:
            assert outcome.record is not None
            assert outcome.record.exceeded is not None
            stood_still = outcome.record.exceeded.name.value == "stall"
            lived = got_on = False
        was_out = out
