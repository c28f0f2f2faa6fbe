"""A sweep names a rank that fell silent, from the listing that it makes anyway; ranks that are well cost nothing."""

import json
from collections.abc import Iterable

import pytest

from lastbeat.observe.listing import RANK_PAGES
from support.fleet import FleetScene


def beat(scene: FleetScene, run_id: str, ranks: Iterable[int]) -> None:
    scene.run(run_id).beat(world_size=4, rank_beat_seconds=60.0)
    for number in ranks:
        told = {"rank": number, "host": f"host-{14 + number}", "status": "running", "beat_seconds": 60.0}
        scene.run(run_id).put(f"ranks/{number}.json", json.dumps(told))


@pytest.mark.parametrize("fresh", [True, False], ids=["a process a pass", "one process"])
@pytest.mark.parametrize("in_s3", [True, False], ids=["in S3", "where listing is free"])
def test_a_silent_rank_is_told_once_and_cleared(fresh: bool, in_s3: bool) -> None:
    scene = FleetScene()
    if in_s3:
        scene.store.in_s3()
    for minute in range(30):
        beat(scene, "a", range(4))
        beat(scene, "b", [0, 1, 2, *([3] if minute < 3 or minute > 20 else [])])
        scene.sweep(restarted=fresh)
        told = ["WARNING"] if minute > 8 else []
        if minute < 7 or minute > 8:
            assert scene.told("b") == told, minute
        scene.after(60)
    assert scene.told("a") == []
    assert scene.channel.sent[0].conditions["rank_silent"].startswith("rank 3 on host-17 silent for ")
    assert scene.last is not None
    assert [line.conditions for line in scene.last.lines] == [(), ()]


def test_ranks_that_are_well_are_never_read_and_a_silent_one_costs_no_look_in_each_pass() -> None:
    scene = FleetScene()
    for minute in range(40):
        beat(scene, "a", range(4))
        beat(scene, "b", [0, 1, 2] if minute > 3 else range(4))
        scene.sweep()
        scene.after(60)
    read = [key for op, key in scene.store.calls if op == "read" and "/ranks/" in key]
    assert set(read) == {"b/ranks/3.json"}
    assert len(read) == 1


def test_a_run_with_very_many_ranks_costs_a_listing_as_many_pages_as_its_files_fill() -> None:
    scene = FleetScene()
    beat(scene, "a", range(4))
    beat(scene, "many", range(5_000))
    beat(scene, "z", range(4))
    scene.sweep()
    scene.after(30)
    scene.store.calls.clear()
    scene.sweep()
    assert sum(op == "list" for op, _ in scene.store.calls) <= 6
    assert RANK_PAGES > 10


def late(scene: FleetScene, run_id: str, rank: int, *, is_late: bool) -> None:
    """A rank that beats on, and hangs in a checkpoint or does not."""
    told: dict[str, object] = {"rank": rank, "host": "host-17", "status": "running", "beat_seconds": 60.0}
    if is_late:
        told["sections"] = [{"name": "checkpointing", "open_s": 480.0, "limit_s": 420.0}]
        scene.run(run_id).put(f"ranks/{rank}.late")
    else:
        scene.run(run_id).delete(f"ranks/{rank}.late")
    scene.run(run_id).put(f"ranks/{rank}.json", json.dumps(told))


@pytest.mark.parametrize("fresh", [True, False], ids=["a process a pass", "one process"])
@pytest.mark.parametrize("in_s3", [True, False], ids=["in S3", "where listing is free"])
def test_a_rank_that_hangs_in_a_section_is_told_within_two_passes_and_so_is_that_it_goes_on(
    fresh: bool, in_s3: bool
) -> None:
    scene = FleetScene()
    if in_s3:
        scene.store.in_s3()
    for minute in range(30):
        beat(scene, "a", range(4))
        beat(scene, "b", [0, 1, 2])
        late(scene, "b", 3, is_late=5 <= minute < 20)
        scene.sweep(restarted=fresh)
        scene.after(60)
        if minute in {4, 6, 19, 26}:
            assert scene.told("b") == ["TIMED_OUT", "RECOVERED"][: {4: 0, 6: 1, 19: 1, 26: 2}[minute]], minute
    assert scene.channel.sent[0].reason == "rank 3: checkpointing for 8m (limit 7m)"
    assert scene.told("a") == []


def test_a_run_of_one_process_that_hangs_in_a_section_is_found_by_its_mark() -> None:
    scene = FleetScene()
    for minute in range(10):
        sections = [{"name": "step", "open_s": 200.0, "limit_s": 180.0}] if minute >= 5 else []
        scene.run("a").beat(beat_seconds=30.0, sections=sections)
        if sections:
            scene.run("a").put("ranks/0.late")
        scene.sweep()
        scene.after(60)
    assert [(each.event.value, each.reason) for each in scene.channel.sent] == [
        ("TIMED_OUT", "step for 3m 20s (limit 3m)")
    ]


def test_a_silent_rank_is_looked_at_again_when_its_section_has_lasted_for_too_long() -> None:
    scene = FleetScene()
    beat(scene, "a", range(4))
    told = {"rank": 3, "status": "running", "beat_seconds": 60.0}
    told["sections"] = [{"name": "checkpointing", "open_s": 60.0, "limit_s": 600.0}]
    scene.run("a").put("ranks/3.json", json.dumps(told))
    for minute in range(12):
        beat(scene, "a", range(3))
        scene.sweep()
        scene.after(60)
        if minute == 8:
            assert scene.told("a") == ["WARNING"]
    assert scene.told("a") == ["WARNING", "TIMED_OUT"]


def test_a_mark_that_was_left_behind_hides_no_later_hang() -> None:
    scene = FleetScene()
    scene.store.in_s3()
    beat(scene, "a", range(4))
    scene.run("a").put("ranks/3.late")
    for minute in range(12):
        beat(scene, "a", range(4) if minute < 5 else range(3))
        if minute >= 5:
            told = {"rank": 3, "status": "running", "beat_seconds": 60.0}
            told["sections"] = [{"name": "step", "open_s": 200.0, "limit_s": 180.0}]
            scene.run("a").put("ranks/3.json", json.dumps(told))
        if minute == 5:
            scene.run("a").put("ranks/3.late")
        scene.sweep()
        scene.after(60)
        if minute in {4, 7}:
            assert scene.told("a") == ["TIMED_OUT"][: minute // 7], minute
