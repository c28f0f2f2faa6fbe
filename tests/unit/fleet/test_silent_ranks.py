"""A sweep names a rank that fell silent, from the listing that it makes anyway; ranks that are well cost nothing."""

from collections.abc import Iterable

import pytest

from lastbeat.watch.observe.fleet import FleetListing
from lastbeat.watch.observe.listing import RANK_PAGES
from support.world import World

either_way = pytest.mark.parametrize(
    ("fresh", "in_s3"),
    [pytest.param(True, False, id="a process a pass"), pytest.param(False, True, id="one process, in S3")],
)


def beat(world: World, run_id: str, ranks: Iterable[int]) -> None:
    world.run(run_id).beat(world_size=4, rank_beat_seconds=60.0)
    for number in ranks:
        world.run(run_id).rank(number)


@either_way
def test_a_silent_rank_is_told_once_and_cleared(fresh: bool, in_s3: bool) -> None:
    world = World()
    if in_s3:
        world.store.in_s3()
    for minute in range(30):
        beat(world, "a", range(4))
        beat(world, "b", [0, 1, 2, *([3] if minute < 3 or minute > 20 else [])])
        report = world.sweep(restarted=fresh)
        told = ["WARNING"] if minute > 8 else []
        if minute < 7 or minute > 8:
            assert world.told("b") == told, minute
        world.after(60)
    assert world.told("a") == []
    assert world.channel.sent[0].conditions["rank_silent"].startswith("rank 3 on host-17 silent for ")
    assert [line.conditions for line in report.lines] == [(), ()]


def test_ranks_that_are_well_are_never_read_and_a_silent_one_costs_no_look_in_each_pass() -> None:
    world = World()
    for minute in range(40):
        beat(world, "a", range(4))
        beat(world, "b", [0, 1, 2] if minute > 3 else range(4))
        world.sweep()
        world.after(60)
    read = [key for op, key in world.store.calls if op == "read" and "/ranks/" in key]
    assert set(read) == {"b/ranks/3.json"}
    assert len(read) == 1


def test_a_run_with_very_many_ranks_costs_a_listing_as_many_pages_as_its_files_fill() -> None:
    world = World()
    beat(world, "a", range(4))
    beat(world, "many", range(5_000))
    beat(world, "z", range(4))
    world.sweep()
    world.after(30)
    world.store.calls.clear()
    world.sweep()
    assert sum(op == "list" for op, _ in world.store.calls) <= 6
    assert RANK_PAGES > 10


def test_all_of_16_384_ranks_are_seen_wherever_a_page_begins() -> None:
    world = World()
    beat(world, "a", range(990))
    beat(world, "many", range(16_384))
    found = {run.run_id: run for run in FleetListing(world.store, rank_pages=RANK_PAGES)}
    assert (seen := found["many"].ranks) is not None
    assert len(seen.beats) == 16_384


def late(world: World, run_id: str, rank: int, *, is_late: bool) -> None:
    """A rank that beats on, and hangs in a checkpoint or does not."""
    run = world.run(run_id)
    if is_late:
        run.put(f"ranks/{rank}.late")
        run.rank(rank, sections=[{"name": "checkpointing", "open_s": 480.0, "limit_s": 420.0}])
    else:
        run.delete(f"ranks/{rank}.late")
        run.rank(rank)


@either_way
def test_a_rank_that_hangs_in_a_section_is_told_within_two_passes_and_so_is_that_it_goes_on(
    fresh: bool, in_s3: bool
) -> None:
    world = World()
    if in_s3:
        world.store.in_s3()
    for minute in range(30):
        beat(world, "a", range(4))
        beat(world, "b", [0, 1, 2])
        late(world, "b", 3, is_late=5 <= minute < 20)
        world.sweep(restarted=fresh)
        world.after(60)
        if minute in {4, 6, 19, 26}:
            assert world.told("b") == ["TIMED_OUT", "RECOVERED"][: {4: 0, 6: 1, 19: 1, 26: 2}[minute]], minute
    assert world.channel.sent[0].reason == "rank 3: checkpointing for 8m (limit 7m)"
    assert world.told("a") == []


def test_a_silent_rank_is_looked_at_again_when_its_section_has_lasted_for_too_long() -> None:
    world = World()
    beat(world, "a", range(4))
    world.run("a").rank(3, sections=[{"name": "checkpointing", "open_s": 60.0, "limit_s": 600.0}])
    for minute in range(12):
        beat(world, "a", range(3))
        world.sweep()
        world.after(60)
        if minute == 8:
            assert world.told("a") == ["WARNING"]
    assert world.told("a") == ["WARNING", "TIMED_OUT"]


def test_a_mark_that_was_left_behind_hides_no_later_hang() -> None:
    world = World()
    world.store.in_s3()
    beat(world, "a", range(4))
    world.run("a").put("ranks/3.late")
    for minute in range(12):
        beat(world, "a", range(4) if minute < 5 else range(3))
        if minute >= 5:
            world.run("a").rank(3, sections=[{"name": "step", "open_s": 200.0, "limit_s": 180.0}])
        if minute == 5:
            world.run("a").put("ranks/3.late")
        world.sweep()
        world.after(60)
        if minute in {4, 7}:
            assert world.told("a") == ["TIMED_OUT"][: minute // 7], minute
