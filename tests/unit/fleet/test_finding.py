"""How soon a sweep of a store that takes money finds what is new, and what began again."""

import pytest

from lastbeat.model.fleet import PassReport
from support.pairwise import all_pairs
from support.world import World

DAY_S = 86_400.0
SHIFTS = {"before the one pass": 0, "before the other": 1}
PROCESSES = {"one process": False, "a process for each pass": True}


def _world() -> World:
    world = World()
    # A store that takes money.
    world.store.in_s3()
    return world


def test_the_first_run_of_an_empty_bucket_is_told_of_by_the_next_pass() -> None:
    world = _world()
    for _ in range(10):
        world.sweep()
        world.after(1)
    world.run("first").error()
    assert world.sweep().statuses == {"FAILED": 1}
    assert world.told("first") == ["FAILED"]


@pytest.mark.parametrize(
    ("ended", "living", "shift", "processes"),
    all_pairs(["complete", "silent"], [0, 1, 13], SHIFTS, PROCESSES),
)
def test_in_a_small_fleet_a_run_that_ended_days_ago_and_begins_again_is_found_within_two_passes(
    ended: str, living: int, shift: str, processes: str
) -> None:
    world, restarted = _world(), PROCESSES[processes]
    old = world.run("old")
    old.both(1)
    world.sweep()
    if ended != "silent":
        getattr(old, ended)()
    for _ in range(15):
        _passes(world, living, 1)
    world.after(2 * DAY_S)
    assert _passes(world, living, 8 + SHIFTS[shift], restarted=restarted).finished == 1
    before = world.told("old")
    old.beat(attempt=2, start_time=world.now.isoformat())
    assert _passes(world, living, 2, restarted=restarted).statuses == {"RUNNING": living + 1}
    # And dies without a word.
    _passes(world, living, 12, restarted=restarted)
    assert world.told("old")[len(before) :][-1] == "TIMED_OUT"


def _passes(world: World, living: int, count: int, *, restarted: bool = False) -> PassReport:
    """A minute before each of them, in which so many runs beat."""
    for _ in range(count):
        world.after(60)
        for number in range(living):
            world.run(f"live-{number:02}").both(1)
        report = world.sweep(restarted=restarted)
    return report


def test_a_log_that_is_still_empty_is_no_news() -> None:
    # python train.py > …/logs/train.log: a file from the first moment, a line after the imports.
    world = World()
    world.run("new").put("logs/train.log", "")
    world.sweep()
    world.after(60)
    world.run("new").put("logs/train.log", "step 1 loss 2.5\n")
    world.sweep()
    assert world.told("new") == []


def test_a_log_that_stays_empty_is_told_of_once() -> None:
    world = World()
    world.run("new").put("logs/train.log", "")
    world.after(30)
    for _ in range(25):
        world.sweep()
        world.after(30)
    assert world.told("new") == ["TIMED_OUT"]
