"""Since when a run is what it is: as the evidence tells; and beside it when that was seen."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from lastbeat.model.policy import Policy
from support.there import there
from support.world import World

MINUTE, HOUR = 60.0, 3600.0


@pytest.mark.parametrize(
    ("act", "policy", "status", "ago_s"),
    [
        pytest.param(lambda s: s.error("boom", age_s=5 * HOUR), Policy(), "FAILED", 5 * HOUR,
                     id="a failure is as old as its _error"),
        pytest.param(lambda s: s.complete(age_s=5 * HOUR), Policy(), "SUCCEEDED", 5 * HOUR,
                     id="a success is as old as its _complete"),
        pytest.param(lambda s: (s.beat(age_s=5 * HOUR), s.progress(7, age_s=4 * HOUR)), Policy(), "TIMED_OUT", 4 * HOUR,
                     id="a silent run died with its last beat"),
        pytest.param(lambda s: None, Policy(), "TIMED_OUT", 0.0,
                     id="a run that never was is missed since the first look"),
        pytest.param(lambda s: (s.beat(), s.progress(7, age_s=9 * MINUTE)), Policy(stall_s=2 * MINUTE), "TIMED_OUT",
                     9 * MINUTE, id="a run that hangs hangs since its last step"),
        pytest.param(lambda s: s.error("boom", age_s=-5 * HOUR), Policy(), "FAILED", 0.0,
                     id="a file from the future was written by now"),
    ],
)  # fmt: skip
def test_since_is_when_it_happened(act: Callable[[World], object], policy: Policy, status: str, ago_s: float) -> None:
    world = World(policy)
    act(world)
    outcome = world.look()
    assert outcome.status.value == status
    assert outcome.record is not None
    assert outcome.record.happened_at is not None
    assert (world.now - outcome.record.happened_at).total_seconds() == pytest.approx(ago_s, abs=1)
    assert outcome.record.since == outcome.at
    world.after(60)
    again = world.look()
    assert there(again.record).happened_at == outcome.record.happened_at


@pytest.mark.parametrize("skew_s", [0.0, -HOUR, HOUR])
def test_a_run_runs_since_its_attempt_began_however_late_it_was_seen(skew_s: float) -> None:
    world = World(skew_s=skew_s)
    began = world.now - timedelta(hours=3)
    start = (world.instance_now - timedelta(hours=3)).isoformat()
    world.beat(start_time=start, clock_offset_s=-skew_s)
    first = world.record_after_look()
    assert first.came_to_be_at == began
    assert first.since == world.now
    world.after(20 * MINUTE)
    world.beat(start_time=start, clock_offset_s=-skew_s)
    again = world.record_after_look()
    assert again.came_to_be_at == began


def test_the_next_attempt_runs_since_its_own_start_and_a_recovered_run_since_it_recovered() -> None:
    world = World()
    start = world.instance_now.isoformat()
    world.beat(start_time=start)
    world.look()
    world.after(HOUR)
    assert world.look().status.value == "TIMED_OUT"
    world.beat(start_time=start)
    recovered = world.record_after_look()
    assert recovered.came_to_be_at == world.now
    world.after(HOUR / 2)
    started = world.now
    start = world.instance_now.isoformat()
    world.after(MINUTE)
    world.beat(attempt=2, start_time=start)
    second = world.record_after_look()
    assert (second.status, second.came_to_be_at) == (recovered.status, started)


def points(world: World, *ago_and_step: tuple[float, int]) -> list[list[float]]:
    now = world.instance_now.timestamp()
    return [[now - ago_s, step, 2.0] for ago_s, step in ago_and_step]


STOOD = [
    pytest.param([(2 * HOUR, 5), (HOUR, 7)], {}, HOUR, id="its newest point tells"),
    pytest.param([(2 * HOUR, 5), (HOUR, 7), (60, 7), (0, 7)], {}, HOUR, id="so does the first of those with that step"),
    pytest.param([(2 * HOUR, 5), (HOUR, 6)], {}, 0, id="not where the newest is of an earlier step"),
    pytest.param([], {}, 0, id="without points it has stood still since it was seen"),
    pytest.param([(HOUR, 7)], {"zone": ""}, 0, id="a time without a zone may be local and tells nothing"),
    pytest.param([(-HOUR, 7)], {}, 0, id="a point from the future was written by now"),
    pytest.param([(9 * HOUR, 7)], {}, 3 * HOUR, id="points of an earlier attempt are not older than this one"),
    pytest.param([(HOUR, 7), ("x", 7), [7]], {}, 0, id="points that are none tell nothing"),
]


@pytest.mark.parametrize("skew_s", [0.0, -HOUR])
@pytest.mark.parametrize(("told", "fields", "stood_s"), STOOD)
def test_a_step_that_no_watcher_saw_come_is_as_old_as_its_points_say(
    told: list[Any], fields: dict[str, str], stood_s: float, skew_s: float
) -> None:
    world = World(Policy(stall_s=2 * HOUR), skew_s=skew_s)
    world.beat(start_time=(world.instance_now - timedelta(hours=3)).isoformat(), clock_offset_s=-skew_s)
    recent = [points(world, each)[0] if isinstance(each, tuple) and each[0] != "x" else each for each in told]
    own = world.instance_now.isoformat()
    world.progress(7, recent=recent, last_updated=own.removesuffix("+00:00") if "zone" in fields else own)
    record = world.record_after_look()
    assert record.progress is not None
    assert record.progress.step_at is not None
    assert (world.now - record.progress.step_at).total_seconds() == pytest.approx(stood_s, abs=1)


def test_a_run_that_stood_still_before_it_was_watched_is_timed_out_at_once() -> None:
    world = World(Policy(stall_s=20 * MINUTE))
    world.beat()
    world.progress(7, recent=points(world, (2 * HOUR, 5), (HOUR, 7)))
    outcome = world.look()
    assert outcome.status.value == "TIMED_OUT"
    assert outcome.reason.startswith("No progress: still at step 7 after 1h 00m")


def test_a_step_that_a_watcher_saw_come_is_as_old_as_that() -> None:
    world = World(Policy(stall_s=20 * MINUTE))
    world.both(6)
    world.look()
    world.after(MINUTE)
    world.beat()
    world.progress(7, recent=points(world, (HOUR, 7)))
    record = world.record_after_look()
    assert there(record.progress).step_at == world.now
