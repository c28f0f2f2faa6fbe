"""An older lastbeat looks at the same run in between: it knows fewer words, and carries along what it cannot read."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.world import RUN, World

MINUTE = 60.0
Change = Callable[[dict[str, Any], World], None]


def rewrite(world: World, change: Change) -> None:
    """As 0.1.0 leaves the record: its own fields changed, those that it does not know as they were."""
    key = f"{RUN}/_watchdog.json"
    blob = world.store.read(key, 1 << 20)
    assert blob is not None
    record = json.loads(blob.body)
    change(record, world)
    record["seq"] += 1
    world.store.write(key, json.dumps(record).encode())


def becomes(status: str, reason: str) -> Change:
    def change(record: dict[str, Any], world: World) -> None:
        number = record["transitions"] + 1
        last = {
            "number": number, "at": world.now.isoformat(), "before": record["status"], "after": status,
            "reason": reason, "attempt": 1,
        }  # fmt: skip
        history = [*record["history"], last]
        record.update(status=status, reason=reason, since=world.now.isoformat(), transitions=number, history=history)

    return change


def without_conditions(record: dict[str, Any], _world: World) -> None:
    record["conditions"] = {}


def test_a_ctrl_c_that_it_told_as_a_failure_stays_one() -> None:
    world = World()
    world.beat(attempt=1)
    world.look()
    world.error("Cancelled: KeyboardInterrupt (Ctrl-C)")
    world.look()
    for _ in range(3):
        rewrite(world, becomes("FAILED", "Cancelled: KeyboardInterrupt (Ctrl-C)"))
        world.after(60)
        assert world.look().status.value == "FAILED"
    assert world.channel.events == []


@pytest.mark.parametrize("ended", [True, False], ids=["a success with a NaN loss", "a silence"])
def test_a_condition_that_it_dropped_is_told_once(ended: bool) -> None:
    world = World()
    world.beat(beat_seconds=30)
    world.look()
    if ended:
        world.progress(7, loss="NaN")
        world.complete()
    world.after(150)
    world.look()
    told = list(world.channel.events)
    for _ in range(3):
        rewrite(world, without_conditions)
        world.after(60)
        world.look()
    assert world.channel.events == told == (["SUCCEEDED"] if ended else ["WARNING"])


def test_the_limit_of_an_earlier_time_out_is_not_taken_for_that_of_a_later_one() -> None:
    world = World()
    world.look()
    world.both(1)
    assert world.look().status.value == "RUNNING"
    world.after(11 * MINUTE)
    rewrite(world, becomes("TIMED_OUT", "Both heartbeats stale (>10m)"))
    world.after(60)
    world.both(2)
    assert world.look().status.value == "RUNNING"
    assert world.channel.events == ["TIMED_OUT", "STARTED", "RECOVERED"]
