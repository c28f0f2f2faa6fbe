"""A run in which a section lasts too long is TIMED_OUT, says which and where, and recovers when it goes on."""

import json
from typing import Any

import pytest

from lastbeat.model.status import Event, Status
from support.world import RUN, World

CHECKPOINTING = {"name": "checkpointing", "limit_s": 420.0}


@pytest.fixture
def world() -> World:
    return World()


def beat(world: World, open_s: float | None, **more: Any) -> None:
    sections = [] if open_s is None else [{**CHECKPOINTING, "open_s": open_s}]
    world.beat(beat_seconds=30.0, sections=sections, **more)


def rank(world: World, number: int, open_s: float | None, *, late: bool | None = None) -> None:
    sections = [] if open_s is None else [{**CHECKPOINTING, "open_s": open_s}]
    world.rank(number, sections=sections)
    if late:
        world.put(f"ranks/{number}.late")
    elif late is False:
        world.delete(f"ranks/{number}.late")


def test_a_run_of_one_process_that_hangs_in_a_checkpoint(world: World) -> None:
    for minute in range(9):
        beat(world, minute * 60.0)
        outcome = world.look()
        assert outcome.status is (Status.RUNNING if minute <= 7 else Status.TIMED_OUT)
        world.after(60)
    (alert,) = world.channel.sent
    assert (alert.event, alert.reason) == (Event.TIMED_OUT, "checkpointing for 8m (limit 7m)")
    assert alert.cause == "hang"
    assert "py-spy" in (alert.action or "")


def test_it_has_recovered_once_it_has_left_the_section(world: World) -> None:
    beat(world, 480.0)
    assert world.look().status is Status.TIMED_OUT
    world.after(60)
    assert world.look().status is Status.TIMED_OUT, "it has not beaten since"
    world.put("metadata.json", "{ torn")
    assert world.look().status is Status.TIMED_OUT, "what it says cannot be read"
    world.after(60)
    beat(world, None)
    assert world.look().status is Status.RUNNING
    assert world.channel.events == ["TIMED_OUT", "RECOVERED"]


def eight_ranks(world: World, third_s: float | None, *, late: bool | None = None) -> None:
    beat(world, None, world_size=8, rank_beat_seconds=60.0)
    for number in range(8):
        if number != 3:
            rank(world, number, None)
    rank(world, 3, third_s, late=late)


def read(world: World) -> set[str]:
    return {key for op, key in world.store.calls if op == "read" and "/ranks/" in key}


def test_a_rank_that_hangs_and_beats_is_found_by_its_mark_and_no_other_is_read(world: World) -> None:
    for minute in range(8):
        eight_ranks(world, minute * 60.0)
        assert world.look().status is Status.RUNNING
        world.after(60)
    assert read(world) == set()
    eight_ranks(world, 480.0, late=True)
    outcome = world.look()
    assert (outcome.status, outcome.reason) == (Status.TIMED_OUT, "rank 3: checkpointing for 8m (limit 7m)")
    world.store.calls.clear()
    world.look(restarted=False)
    assert read(world) <= {f"{RUN}/ranks/3.json"}
    world.after(60)
    eight_ranks(world, None, late=False)
    assert world.look().status is Status.RUNNING


HOSTILE = [
    pytest.param([{"name": "x", "open_s": "many", "limit_s": 1}], id="no number"),
    pytest.param([{"name": {"a": 1}, "open_s": 1e6, "limit_s": 1}], id="a name that is no text"),
    pytest.param([{"took_s": "long", "limit_s": 1}, {"took_s": 1e300, "ago_s": -4, "limit_s": 9}], id="left for ever"),
    pytest.param(["x", None, 7, []], id="no sections at all"),
]


@pytest.mark.parametrize("sections", HOSTILE)
def test_what_is_no_section_is_left_out(world: World, sections: object) -> None:
    world.beat(beat_seconds=30.0, sections=sections, left_sections=sections)
    outcome = world.look()
    assert (outcome.status, dict(outcome.conditions)) == (Status.RUNNING, {})


def test_an_old_document_that_is_stored_again_tells_of_no_section(world: World) -> None:
    beat(world, None)
    world.look()
    world.after(3600)
    world.both(1)
    world.look()
    old = {"last_update": (world.now.replace(year=2025)).isoformat(), "beat_seconds": 30.0}
    world.put("metadata.json", json.dumps({**old, "sections": [{**CHECKPOINTING, "open_s": 900.0}]}))
    assert world.look().status is Status.RUNNING
