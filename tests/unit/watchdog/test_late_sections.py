"""A run in which a section lasts too long is TIMED_OUT, says which and where, and recovers when it goes on."""

import json
import tracemalloc
from typing import Any

import pytest

from lastbeat.model.status import Event, Status
from lastbeat.stores.port import UnreachableError
from support.scene import RUN, Scene

CHECKPOINTING = {"name": "checkpointing", "limit_s": 420.0}


@pytest.fixture
def scene() -> Scene:
    return Scene()


def beat(scene: Scene, open_s: float | None, **more: Any) -> None:
    sections = [] if open_s is None else [{**CHECKPOINTING, "open_s": open_s}]
    scene.beat(beat_seconds=30.0, sections=sections, **more)


def rank(scene: Scene, number: int, open_s: float | None, *, late: bool | None = None) -> None:
    sections = [] if open_s is None else [{**CHECKPOINTING, "open_s": open_s}]
    told = {"rank": number, "host": f"host-{14 + number}", "status": "running", "beat_seconds": 60.0}
    scene.put(f"ranks/{number}.json", json.dumps({**told, "sections": sections}))
    if late:
        scene.put(f"ranks/{number}.late")
    elif late is False:
        scene.delete(f"ranks/{number}.late")


def test_a_run_of_one_process_that_hangs_in_a_checkpoint(scene: Scene) -> None:
    for minute in range(9):
        beat(scene, minute * 60.0)
        outcome = scene.look()
        assert outcome.status is (Status.RUNNING if minute <= 7 else Status.TIMED_OUT)
        scene.after(60)
    (alert,) = scene.channel.sent
    assert (alert.event, alert.reason) == (Event.TIMED_OUT, "checkpointing for 8m (limit 7m)")
    assert alert.cause == "hang"
    assert "py-spy" in (alert.action or "")


def test_it_has_recovered_once_it_has_left_the_section(scene: Scene) -> None:
    beat(scene, 480.0)
    assert scene.look().status is Status.TIMED_OUT
    scene.after(60)
    assert scene.look().status is Status.TIMED_OUT, "it has not beaten since"
    scene.put("metadata.json", "{ torn")
    assert scene.look().status is Status.TIMED_OUT, "what it says cannot be read"
    scene.after(60)
    beat(scene, None)
    assert scene.look().status is Status.RUNNING
    assert scene.channel.events == ["TIMED_OUT", "RECOVERED"]


def test_a_new_attempt_has_nothing_to_do_with_it(scene: Scene) -> None:
    beat(scene, 480.0, attempt=1, start_time=scene.now.isoformat())
    assert scene.look().status is Status.TIMED_OUT
    scene.after(60)
    beat(scene, None, attempt=2, start_time=scene.now.isoformat())
    assert scene.look().status is Status.RUNNING


def eight_ranks(scene: Scene, third_s: float | None, *, late: bool | None = None) -> None:
    beat(scene, None, world_size=8, rank_beat_seconds=60.0)
    for number in range(8):
        if number != 3:
            rank(scene, number, None)
    rank(scene, 3, third_s, late=late)


def read(scene: Scene) -> set[str]:
    return {key for op, key in scene.store.calls if op == "read" and "/ranks/" in key}


def test_a_rank_that_hangs_and_beats_is_found_by_its_mark_and_no_other_is_read(scene: Scene) -> None:
    for minute in range(8):
        eight_ranks(scene, minute * 60.0)
        assert scene.look().status is Status.RUNNING
        scene.after(60)
    assert read(scene) == set()
    eight_ranks(scene, 480.0, late=True)
    outcome = scene.look()
    assert (outcome.status, outcome.reason) == (Status.TIMED_OUT, "rank 3: checkpointing for 8m (limit 7m)")
    scene.store.calls.clear()
    scene.look(restarted=False)
    assert read(scene) <= {f"{RUN}/ranks/3.json"}
    scene.after(60)
    eight_ranks(scene, None, late=False)
    assert scene.look().status is Status.RUNNING


def test_while_a_late_rank_cannot_be_read_the_run_stays_timed_out(scene: Scene) -> None:
    eight_ranks(scene, 480.0, late=True)
    assert scene.look().status is Status.TIMED_OUT

    def refuse(operation: str, key: str) -> None:
        if operation == "read" and "/ranks/" in key:
            raise UnreachableError("away")

    scene.store.before = refuse
    scene.after(60)
    eight_ranks(scene, 540.0)
    assert scene.look().status is Status.TIMED_OUT


def test_a_mark_that_an_earlier_attempt_left_behind_counts_for_nothing(scene: Scene) -> None:
    rank(scene, 3, 480.0, late=True)
    scene.after(60)
    began = scene.now.isoformat()
    scene.after(1)
    beat(scene, None, world_size=8, rank_beat_seconds=60.0, attempt=2, start_time=began)
    for number in range(8):
        if number != 3:
            rank(scene, number, None)
    assert scene.look().status is Status.RUNNING


def test_a_rank_that_was_stopped_in_a_section_is_late_by_the_stores_clock(scene: Scene) -> None:
    eight_ranks(scene, 60.0)
    seen = []
    for _ in range(13):
        beat(scene, None, world_size=8, rank_beat_seconds=60.0)
        for number in range(8):
            if number != 3:
                rank(scene, number, None)
        outcome = scene.look()
        seen.append((outcome.status.value, *outcome.conditions))
        scene.after(60)
    assert seen[:5] == [("RUNNING",)] * 5
    assert seen[5:11] == [("RUNNING", "rank_silent")] * 6, "it may be an outage of its store"
    assert seen[11:] == [("TIMED_OUT",)] * 2
    assert scene.channel.sent[-1].reason == "rank 3: checkpointing for 12m (limit 7m)"


def test_an_outage_of_the_store_where_training_runs_is_no_late_section(scene: Scene) -> None:
    scene.beat(beat_seconds=30.0, sections=[{"name": "step", "open_s": 3.0, "limit_s": 180.0}])
    scene.progress(50)
    for _ in range(9):
        assert scene.look().status is Status.RUNNING
        scene.after(60)
    scene.after(61)
    assert scene.look().status is Status.TIMED_OUT


def test_ranks_that_wait_while_rank_0_saves_are_not_late(scene: Scene) -> None:
    for minute in range(7):
        beat(scene, minute * 60.0, world_size=2, rank_beat_seconds=60.0)
        waits = [{"open_s": minute * 60.0, "limit_s": 300.0}]
        told = {"rank": 1, "status": "running", "beat_seconds": 60.0, "sections": waits}
        scene.put("ranks/1.json", json.dumps(told))
        if minute > 5:
            scene.put("ranks/1.late")
        assert scene.look().status is Status.RUNNING
        scene.after(60)


def test_a_rank_that_says_late_that_it_waited_is_not_late_after_rank_0_has_saved(scene: Scene) -> None:
    beat(scene, 290.0, world_size=2, rank_beat_seconds=60.0)
    told = {"rank": 1, "status": "running", "beat_seconds": 60.0, "sections": [{"open_s": 301.0, "limit_s": 300.0}]}
    scene.put("ranks/1.json", json.dumps(told))
    scene.put("ranks/1.late")
    assert scene.look().status is Status.RUNNING
    scene.after(30)
    left = [{"name": "checkpointing", "took_s": 300.0, "ago_s": 20.0, "limit_s": 420.0}]
    beat(scene, None, world_size=2, rank_beat_seconds=60.0, left_sections=left)
    assert scene.look().status is Status.RUNNING
    scene.after(330)
    beat(scene, None, world_size=2, rank_beat_seconds=60.0, left_sections=[{**left[0], "ago_s": 350.0}])
    scene.put("ranks/1.json", json.dumps({**told, "sections": [{"open_s": 661.0, "limit_s": 300.0}]}))
    outcome = scene.look()
    assert (outcome.status, outcome.reason) == (Status.TIMED_OUT, "rank 1: in no section for 11m 01s (limit 5m)")


HOSTILE = [
    pytest.param([{"name": "x", "open_s": "many", "limit_s": 1}], id="no number"),
    pytest.param([{"name": "x", "open_s": float("nan"), "limit_s": 1}], id="not finite"),
    pytest.param([{"name": "x", "open_s": -5, "limit_s": -10}], id="negative"),
    pytest.param([{"name": {"a": 1}, "open_s": 1e6, "limit_s": 1}], id="a name that is no text"),
    pytest.param([{"name": "x", "open_s": 1e6, "limit_s": 0}], id="no limit at all"),
    pytest.param([{"took_s": "long", "limit_s": 1}, {"took_s": 1e300, "ago_s": -4, "limit_s": 9}], id="left for ever"),
    pytest.param(["x", None, 7, []], id="no sections at all"),
    pytest.param({"x": 1}, id="no list"),
]


@pytest.mark.parametrize("sections", HOSTILE)
def test_what_is_no_section_is_left_out(scene: Scene, sections: object) -> None:
    scene.beat(beat_seconds=30.0, sections=sections, left_sections=sections)
    outcome = scene.look()
    assert (outcome.status, dict(outcome.conditions)) == (Status.RUNNING, {})


def test_an_old_document_that_is_stored_again_tells_of_no_section(scene: Scene) -> None:
    beat(scene, None)
    scene.look()
    scene.after(3600)
    scene.both(1)
    scene.look()
    old = {"last_update": (scene.now.replace(year=2025)).isoformat(), "beat_seconds": 30.0}
    scene.put("metadata.json", json.dumps({**old, "sections": [{**CHECKPOINTING, "open_s": 900.0}]}))
    assert scene.look().status is Status.RUNNING


def test_a_heartbeat_of_30_mb_says_nothing_and_is_not_read_whole(scene: Scene) -> None:
    eight_ranks(scene, None)
    scene.look()
    scene.after(60)
    eight_ranks(scene, None)
    sections = [{**CHECKPOINTING, "open_s": 480.0}] * 500_000
    scene.put("ranks/3.json", json.dumps({"rank": 3, "status": "running", "sections": sections}))
    scene.put("ranks/3.late")
    assert len(scene.store.held[f"{RUN}/ranks/3.json"].body) > 25_000_000
    tracemalloc.start()
    try:
        outcome = scene.look()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert outcome.status is Status.RUNNING
    assert peak < 5_000_000
