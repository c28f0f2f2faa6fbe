"""A sweep goes by the limits of its fleet, and reads them when a listing shows that they changed."""

import json
from typing import Any

import pytest

from lastbeat.model.fleet import Shard
from lastbeat.model.limits import LIMITS
from lastbeat.model.policy import Policy
from lastbeat.stores.port import DeniedError
from support.fleet import FleetScene, running
from support.paged import PagedStore

MINUTE = 60.0


def limit(scene: FleetScene, *entries: dict[str, Any]) -> None:
    scene.store.put_text(LIMITS, json.dumps({"schema": 1, "limits": list(entries)}))


def reads(scene: FleetScene) -> int:
    return scene.store.calls.count(("read", LIMITS))


def status(scene: FleetScene, run_id: str) -> str:
    record = scene.run(run_id).record
    return record.status.value if record is not None and record.status is not None else "none"


def beat_all(scene: FleetScene, count: int, minute: int) -> None:
    for number in range(count):
        scene.run(f"run-{number:04}").both(minute)


def test_a_fleet_without_limits_pays_nothing_for_them() -> None:
    scene = running(20)
    for minute in range(30):
        beat_all(scene, 20, minute)
        scene.sweep(restarted=minute % 3 == 0)
        scene.after(MINUTE)
    assert reads(scene) == 0


@pytest.mark.parametrize("in_s3", [False, True], ids=["a directory", "S3, where every second pass only asks"])
def test_they_are_read_once_and_again_when_they_change(in_s3: bool) -> None:
    scene = running(3)
    if in_s3:
        scene.store.in_s3()
    limit(scene, {"runs": "*", "stale_minutes": 20})
    for minute in range(60):
        beat_all(scene, 3, minute)
        if minute == 30:
            limit(scene, {"runs": "*", "stale_minutes": 30})
        scene.sweep()
        scene.after(MINUTE)
    assert reads(scene) == 2


def test_they_cost_no_look_of_a_run_that_they_say_nothing_of() -> None:
    scene = running(10)
    beat_all(scene, 10, 1)
    scene.sweep()
    scene.after(MINUTE)
    beat_all(scene, 10, 2)
    limit(scene, {"runs": "run-0003", "stale_minutes": 20}, {"runs": "llama-*", "stale_minutes": 1})
    before = len(scene.store.calls)
    scene.sweep()
    asked = {key.partition("/")[0] for operation, key in scene.store.calls[before:] if operation == "read"}
    assert "run-0003" in asked
    assert len(asked - {"_watchdog"}) <= 1 + 6, "a few looks come early where requests are free"


def test_each_run_has_the_limit_that_covers_it_at_once() -> None:
    """Run 7B is listed before the limits are, its name being upper case."""
    scene = FleetScene()
    limit(scene, {"runs": "7B-*", "stale_minutes": 30}, {"runs": "fast-*", "stale_minutes": 2})
    for name in ("7B-1", "fast-1", "other"):
        scene.run(name).both(1)
    scene.sweep()
    scene.after(3 * MINUTE)
    scene.sweep()
    assert [status(scene, name) for name in ("7B-1", "fast-1", "other")] == ["RUNNING", "TIMED_OUT", "RUNNING"]
    scene.after(9 * MINUTE)
    scene.sweep()
    assert [status(scene, name) for name in ("7B-1", "other")] == ["RUNNING", "TIMED_OUT"]
    scene.after(20 * MINUTE)
    scene.sweep(restarted=True)
    assert status(scene, "7B-1") == "TIMED_OUT"


@pytest.mark.parametrize("restarted", [False, True], ids=["one process", "a process for each pass"])
def test_a_stricter_limit_is_held_in_the_next_pass_though_nothing_else_changed(restarted: bool) -> None:
    scene = FleetScene()
    scene.run("x").both(1)
    scene.sweep()
    for _ in range(8):
        scene.after(MINUTE)
        scene.sweep(restarted=restarted)
    assert status(scene, "x") == "RUNNING"
    limit(scene, {"runs": "x", "stale_minutes": 5})
    scene.sweep(restarted=restarted)
    assert status(scene, "x") == "TIMED_OUT"
    limit(scene, {"runs": "x", "stale_minutes": 60})
    for _ in range(3):
        scene.after(MINUTE)
        scene.sweep(restarted=restarted)
    assert status(scene, "x") == "TIMED_OUT", "a longer limit is no sign of life"
    scene.run("x").both(2)
    scene.sweep(restarted=restarted)
    assert scene.told("x") == ["TIMED_OUT", "RECOVERED"]


def test_standing_still_is_seen_where_only_the_fleet_s_limits_ask_for_it() -> None:
    scene = FleetScene()
    limit(scene, {"runs": "*", "stall_minutes": 10})
    for _ in range(25):
        scene.run("x").beat()
        scene.run("x").progress(7)
        scene.sweep(restarted=True)
        scene.after(MINUTE)
    assert status(scene, "x") == "TIMED_OUT"
    assert scene.told("x") == ["WARNING", "TIMED_OUT"]


@pytest.mark.parametrize("in_s3", [False, True], ids=["a directory", "S3"])
def test_a_run_is_given_up_when_its_own_beats_show_it_and_nobody_reads_it_before(in_s3: bool) -> None:
    scene = FleetScene()
    if in_s3:
        scene.store.in_s3()
    limit(scene, {"runs": "*", "stale": "learned"})
    for _ in range(5):
        scene.run("x").beat(beat_seconds=30, longest_gap_s=35)
        scene.run("x").progress(7)
        scene.sweep()
        scene.after(30)
    scene.after(210)
    scene.sweep()
    assert status(scene, "x") == "RUNNING"
    scene.after(15)
    scene.sweep()
    assert status(scene, "x") == "TIMED_OUT"


def test_damage_is_told_in_each_pass_and_no_limit_decides() -> None:
    scene = running(2)
    scene.sweep()
    scene.store.put_text(LIMITS, '{"schema": 1, "limits": [{"runs": "*", "stale_minutes": -1}]}')
    scene.after(MINUTE)
    beat_all(scene, 1, 2)
    report = scene.sweep()
    (note,) = [note for note in report.notes if "limits" in note]
    assert "stale_minutes of * is -1" in note
    assert report.unreadable == {}, "a run that lives needs no limit"
    for _ in range(12):
        beat_all(scene, 1, 2)
        scene.after(MINUTE)
        report = scene.sweep()
    assert list(report.unreadable) == ["run-0001"]
    assert report.exit_status == 3
    assert status(scene, "run-0001") == "RUNNING"
    assert reads(scene) == 1, "what did not change is not read again"
    limit(scene, {"runs": "*", "stale_minutes": 5})
    report = scene.sweep()
    assert report.notes == ()
    assert status(scene, "run-0001") == "TIMED_OUT"


def test_limits_that_nobody_may_look_at_are_told() -> None:
    scene = running(1)
    scene.store.closed[LIMITS] = DeniedError("_watchdog/limits.json: permission denied", "chmod it")
    report = scene.sweep()
    assert any("permission denied" in note for note in report.notes)


def test_a_part_of_a_fleet_that_lists_none_of_them_knows_them_too() -> None:
    scene = FleetScene()
    limit(scene, {"runs": "*", "stale_minutes": 2})
    scene.run("m").both(1)
    sweep = scene.fresh_sweep(shard=Shard("k", "z"))
    sweep.run()
    scene.after(3 * MINUTE)
    sweep.run()
    assert status(scene, "m") == "TIMED_OUT"
    limit(scene, {"runs": "*", "stale_minutes": 60})
    scene.run("m").both(2)
    scene.after(16 * MINUTE)
    sweep.run()
    assert status(scene, "m") == "RUNNING", "they are read again after a while"


def test_a_long_listing_comes_by_them_within_its_round() -> None:
    scene = FleetScene(Policy(stale_s=60 * MINUTE))
    scene.store = PagedStore(2)
    scene.through = scene.store
    for number in range(8):
        scene.run(f"old-{number}").both(1, age_s=200_000)
        scene.run(f"old-{number}").complete(age_s=200_000)
    for name in ("A", "m"):
        scene.run(name).both(1)
    scene.sweep()
    limit(scene, {"runs": "*", "stale_minutes": 2})
    for _ in range(8):
        scene.after(MINUTE)
        scene.sweep()
    assert [status(scene, name) for name in ("A", "m")] == ["TIMED_OUT", "TIMED_OUT"]
