"""A look that is taken again within one tick, because somebody else wrote the record: it sees what the first saw."""

import json

import pytest

from lastbeat.model.status import Status
from support.growing import MAIN, LoggedWorld, steps
from support.world import RUN

RECORD = f"{RUN}/_watchdog.json"
HALF = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB"


@pytest.fixture
def world() -> LoggedWorld:
    return LoggedWorld()


def lose_races(world: LoggedWorld, count: int) -> list[int]:
    """Somebody else writes the record right before this watcher does, so many times; the list counts them."""
    lost: list[int] = []

    def somebody(operation: str, key: str) -> None:
        held = world.store.held.get(RECORD)
        if operation == "write" and key == RECORD and held is not None and len(lost) < count:
            lost.append(1)
            record = json.loads(held.body)
            world.store.put_text(RECORD, json.dumps({**record, "seq": record["seq"] + 1, "writer": "somebody"}))

    world.store.before = somebody
    return lost


@pytest.mark.parametrize("races", [0, 1, 3])
def test_a_line_that_has_not_ended_does_not_stand_still_because_of_a_race(world: LoggedWorld, races: int) -> None:
    world.write(steps(10))
    world.look()
    world.after(60)
    world.look()
    # Something to write down, and a line that is being written.
    world.beat(attempt=None)
    world.beat(own="odd", age_s=-120)
    world.write(HALF)
    lost = lose_races(world, races)
    outcome = world.watch.tick()
    assert len(lost) == races
    assert (outcome.status, outcome.cause) == (Status.RUNNING, None)
    world.after(60)
    world.beat()
    assert world.watch.tick().status is Status.FAILED, "now it has stood still"


@pytest.mark.parametrize("races", [0, 2])
def test_who_knows_of_no_earlier_look_still_writes_down_what_it_saw(world: LoggedWorld, races: int) -> None:
    world.write(steps(10))
    world.cold()
    world.after(60)
    marks = set()
    for minute in range(1, 12):
        world.write(steps(10 * minute + 10, 10 * minute + 1))
        lost = lose_races(world, races)
        world.cold()
        marks.add(json.loads(world.store.held[RECORD].body)["log"]["mark"])
        world.after(60)
        del lost
    assert len(marks) >= 3


def test_a_log_that_came_with_its_attempt_stays_that_attempt_s(world: LoggedWorld) -> None:
    world.beat(attempt=1, start_time=world.now.isoformat())
    world.write(steps(10))
    world.look()
    world.watch.tick()
    world.after(60)
    world.beat(attempt=2, start_time=world.now.isoformat())
    world.put("logs/second.log", "step 7/1000 loss 2.5\n")
    lost = lose_races(world, 2)
    world.watch.tick()
    assert len(lost) == 2
    outcome = world.watch.tick()
    assert outcome.record is not None
    assert outcome.record.attempt.number == 2
    assert outcome.record.log is not None
    assert outcome.record.log.step == 7, MAIN
