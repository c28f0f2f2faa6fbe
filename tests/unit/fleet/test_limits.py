"""A sweep goes by the limits of its fleet, and reads them when a listing shows that they changed."""

import json
from typing import Any

import pytest

from lastbeat.model.fleet import Shard
from lastbeat.model.limits import LIMITS
from support.world import World, running

MINUTE = 60.0


def limit(world: World, *entries: dict[str, Any]) -> None:
    world.store.put_text(LIMITS, json.dumps({"schema": 1, "limits": list(entries)}))


def reads(world: World) -> int:
    return world.store.calls.count(("read", LIMITS))


def status(world: World, run_id: str) -> str:
    record = world.run(run_id).record
    return record.status.value if record is not None and record.status is not None else "none"


def test_a_fleet_without_limits_pays_nothing_for_them() -> None:
    world = running(20)
    for minute in range(30):
        world.beat_all()
        world.sweep(restarted=minute % 3 == 0)
        world.after(MINUTE)
    assert reads(world) == 0


@pytest.mark.parametrize("in_s3", [False, True], ids=["a directory", "S3, where every second pass only asks"])
def test_they_are_read_once_and_again_when_they_change(in_s3: bool) -> None:
    world = running(3)
    if in_s3:
        world.store.in_s3()
    limit(world, {"runs": "*", "stale_minutes": 20})
    for minute in range(60):
        world.beat_all()
        if minute == 30:
            limit(world, {"runs": "*", "stale_minutes": 30})
        world.sweep()
        world.after(MINUTE)
    assert reads(world) == 2


def test_they_cost_no_look_of_a_run_that_they_say_nothing_of() -> None:
    world = running(10)
    world.beat_all()
    world.sweep()
    world.after(MINUTE)
    world.beat_all()
    limit(world, {"runs": "run-0003", "stale_minutes": 20}, {"runs": "llama-*", "stale_minutes": 1})
    before = len(world.store.calls)
    world.sweep()
    asked = {key.partition("/")[0] for operation, key in world.store.calls[before:] if operation == "read"}
    assert "run-0003" in asked
    assert len(asked - {"_watchdog"}) <= 1 + 6, "a few looks come early where requests are free"


def test_each_run_has_the_limit_that_covers_it_at_once() -> None:
    """Run 7B is listed before the limits are, its name being upper case."""
    world = World()
    limit(world, {"runs": "7B-*", "stale_minutes": 30}, {"runs": "fast-*", "stale_minutes": 2})
    for name in ("7B-1", "fast-1", "other"):
        world.run(name).both(1)
    world.sweep()
    world.after(3 * MINUTE)
    world.sweep()
    assert [status(world, name) for name in ("7B-1", "fast-1", "other")] == ["RUNNING", "TIMED_OUT", "RUNNING"]
    world.after(9 * MINUTE)
    world.sweep()
    assert [status(world, name) for name in ("7B-1", "other")] == ["RUNNING", "TIMED_OUT"]
    world.after(20 * MINUTE)
    world.sweep(restarted=True)
    assert status(world, "7B-1") == "TIMED_OUT"


@pytest.mark.parametrize("restarted", [False, True], ids=["one process", "a process for each pass"])
def test_a_stricter_limit_is_held_in_the_next_pass_though_nothing_else_changed(restarted: bool) -> None:
    world = World()
    world.run("x").both(1)
    world.sweep()
    for _ in range(8):
        world.after(MINUTE)
        world.sweep(restarted=restarted)
    assert status(world, "x") == "RUNNING"
    limit(world, {"runs": "x", "stale_minutes": 5})
    world.sweep(restarted=restarted)
    assert status(world, "x") == "TIMED_OUT"
    limit(world, {"runs": "x", "stale_minutes": 60})
    for _ in range(3):
        world.after(MINUTE)
        world.sweep(restarted=restarted)
    assert status(world, "x") == "TIMED_OUT", "a longer limit is no sign of life"
    world.run("x").both(2)
    world.sweep(restarted=restarted)
    assert world.told("x") == ["TIMED_OUT", "RECOVERED"]


@pytest.mark.parametrize("in_s3", [False, True], ids=["a directory", "S3"])
def test_a_run_is_given_up_when_its_own_beats_show_it_and_nobody_reads_it_before(in_s3: bool) -> None:
    world = World()
    if in_s3:
        world.store.in_s3()
    limit(world, {"runs": "*", "stale": "learned"})
    for _ in range(5):
        world.run("x").beat(beat_seconds=30, longest_gap_s=35)
        world.run("x").progress(7)
        world.sweep()
        world.after(30)
    world.after(210)
    world.sweep()
    assert status(world, "x") == "RUNNING"
    world.after(15)
    world.sweep()
    assert status(world, "x") == "TIMED_OUT"


def test_damage_is_told_in_each_pass_and_no_limit_decides() -> None:
    world = running(2)
    world.sweep()
    world.store.put_text(LIMITS, '{"schema": 1, "limits": [{"runs": "*", "stale_minutes": -1}]}')
    world.after(MINUTE)
    world.run("run-0000").both(2)
    report = world.sweep()
    (note,) = [note for note in report.notes if "limits" in note]
    assert "stale_minutes of * is -1" in note
    assert report.unreadable == {}, "a run that lives needs no limit"
    for _ in range(12):
        world.run("run-0000").both(2)
        world.after(MINUTE)
        report = world.sweep()
    assert list(report.unreadable) == ["run-0001"]
    assert report.exit_status == 3
    assert status(world, "run-0001") == "RUNNING"
    assert reads(world) == 1, "what did not change is not read again"
    limit(world, {"runs": "*", "stale_minutes": 5})
    report = world.sweep()
    assert report.notes == ()
    assert status(world, "run-0001") == "TIMED_OUT"


def test_a_part_of_a_fleet_that_lists_none_of_them_knows_them_too() -> None:
    world = World()
    limit(world, {"runs": "*", "stale_minutes": 2})
    world.run("m").both(1)
    sweep = world.fresh_sweep(shard=Shard("k", "z"))
    sweep.run()
    world.after(3 * MINUTE)
    sweep.run()
    assert status(world, "m") == "TIMED_OUT"
    limit(world, {"runs": "*", "stale_minutes": 60})
    world.run("m").both(2)
    world.after(16 * MINUTE)
    sweep.run()
    assert status(world, "m") == "RUNNING", "they are read again after a while"
