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
