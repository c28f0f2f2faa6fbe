"""A new attempt that had been beating for a while when it was first seen: what it wrote meanwhile is its own."""

import pytest

from lastbeat.model.document import outcome_document
from lastbeat.model.policy import Policy
from lastbeat_cli.plain import lines
from support.there import there
from support.world import World

MINUTE = 60.0

restarts = pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])


def seen_after_its_first_step(world: World, *, restarted: bool) -> str:
    """An attempt dies; the next one beats, takes a step, and beats on; only now somebody looks. Its start."""
    world.beat(start_time=world.instance_now.isoformat(), attempt=1)
    world.progress(500)
    world.look(restarted=restarted)
    world.after(MINUTE)
    start = world.instance_now.isoformat()
    world.beat(start_time=start, attempt=2)
    world.after(10)
    world.progress(3)
    world.after(20)
    world.beat(start_time=start, attempt=2)
    return start


@restarts
def test_a_hang_right_after_a_restart_is_seen(restarted: bool) -> None:
    world = World(Policy(stall_s=10 * MINUTE))
    start = seen_after_its_first_step(world, restarted=restarted)
    shown = []
    for _ in range(30):
        outcome = world.look(restarted=restarted)
        shown.append(outcome.status.value + ("!" if "stalled" in outcome.conditions else ""))
        world.after(MINUTE)
        world.beat(start_time=start, attempt=2)
    assert shown[0] == "RUNNING"
    assert "RUNNING!" in shown
    assert shown[-1] == "TIMED_OUT"


@restarts
def test_what_the_attempt_before_left_behind_does_not(restarted: bool) -> None:
    world = World()
    world.beat(start_time=world.instance_now.isoformat(), attempt=1)
    world.look(restarted=restarted)
    world.after(MINUTE)
    world.progress(500)
    world.after(1.5)
    start = world.instance_now.isoformat()
    for _ in range(3):
        world.beat(start_time=start, attempt=2)
        world.after(30)
    outcome = world.look(restarted=restarted)
    assert there(outcome.record).progress is None
    assert (outcome_document(outcome)["attempt"], outcome_document(outcome)["step"]) == (2, None)
    assert not any("step 500" in line for line in lines(outcome))


@restarts
def test_its_own_failure_counts_though_it_beat_once_more(restarted: bool) -> None:
    world = World()
    start = seen_after_its_first_step(world, restarted=restarted)
    world.error("CUDA out of memory")
    world.after(5)
    world.beat(start_time=start, attempt=2, status="failed")
    assert world.look(restarted=restarted).status.value == "FAILED"
