"""A look that is taken again within one tick, because somebody else wrote the record: it sees what the first saw."""

import json

import pytest

from lastbeat.model.status import Status
from support.growing import MAIN, LoggedScene, steps
from support.scene import RUN

RECORD = f"{RUN}/_watchdog.json"
HALF = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB"


@pytest.fixture
def scene() -> LoggedScene:
    return LoggedScene()


def lose_races(scene: LoggedScene, count: int) -> list[int]:
    """Somebody else writes the record right before this watcher does, so many times; the list counts them."""
    lost: list[int] = []

    def somebody(operation: str, key: str) -> None:
        held = scene.store.held.get(RECORD)
        if operation == "write" and key == RECORD and held is not None and len(lost) < count:
            lost.append(1)
            record = json.loads(held.body)
            scene.store.put_text(RECORD, json.dumps({**record, "seq": record["seq"] + 1, "writer": "somebody"}))

    scene.store.before = somebody
    return lost


@pytest.mark.parametrize("races", [0, 1, 3])
def test_a_line_that_has_not_ended_does_not_stand_still_because_of_a_race(scene: LoggedScene, races: int) -> None:
    scene.write(steps(10))
    scene.look()
    scene.after(60)
    scene.watch = scene.fresh_watch()
    scene.watch.tick()
    # Something to write down, and a line that is being written.
    scene.beat(attempt=None)
    scene.beat(own="odd", age_s=-120)
    scene.write(HALF)
    lost = lose_races(scene, races)
    outcome = scene.watch.tick()
    assert len(lost) == races
    assert (outcome.status, outcome.cause) == (Status.RUNNING, None)
    scene.after(60)
    scene.beat()
    assert scene.watch.tick().status is Status.FAILED, "now it has stood still"


@pytest.mark.parametrize("races", [0, 2])
def test_who_knows_of_no_earlier_look_still_writes_down_what_it_saw(scene: LoggedScene, races: int) -> None:
    scene.write(steps(10))
    scene.cold()
    scene.after(60)
    marks = set()
    for minute in range(1, 12):
        scene.write(steps(10 * minute + 10, 10 * minute + 1))
        lost = lose_races(scene, races)
        scene.cold()
        marks.add(json.loads(scene.store.held[RECORD].body)["log"]["mark"])
        scene.after(60)
        del lost
    assert len(marks) >= 3


def test_a_log_that_came_with_its_attempt_stays_that_attempt_s(scene: LoggedScene) -> None:
    scene.beat(attempt=1, start_time=scene.now.isoformat())
    scene.write(steps(10))
    scene.look()
    scene.watch.tick()
    scene.after(60)
    scene.beat(attempt=2, start_time=scene.now.isoformat())
    scene.put("logs/second.log", "step 7/1000 loss 2.5\n")
    lost = lose_races(scene, 2)
    scene.watch.tick()
    assert len(lost) == 2
    outcome = scene.watch.tick()
    assert outcome.record is not None
    assert outcome.record.attempt.number == 2
    assert outcome.record.log is not None
    assert outcome.record.log.step == 7, MAIN
