"""An acknowledgement holds for what its author saw, and for nothing that happened after that."""

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from lastbeat.model.record import Acknowledgement, Record
from lastbeat.model.state import State
from lastbeat.model.status import Status
from lastbeat.stores.port import StoreError
from lastbeat.watch.record.acknowledging import acknowledge, withdraw
from lastbeat.watch.record.codec import decode_record, encode
from support.memory import MemoryStore
from support.world import RUN, World

NOW = datetime(2026, 11, 26, 8, tzinfo=timezone.utc)
GIVEN = Acknowledgement(NOW, "ana@desk", "mine", transition=3)


def state(*conditions: str) -> State:
    return State(Status.RUNNING, "as it was", conditions=dict.fromkeys(conditions, "text"))


@pytest.mark.parametrize(
    ("record", "holds"),
    [
        (Record("r", state("slow"), transitions=3), True),
        (Record("r", state(), transitions=3), True),
        (Record("r", state("slow"), transitions=4), False),
        (Record("r", state("slow", "loss_nan"), transitions=3), False),
    ],
    ids=["what was seen", "a condition that is over", "another transition", "another condition"],
)
def test_what_ends_one(record: Record, holds: bool) -> None:
    given = replace(GIVEN, conditions=("slow",))
    assert (replace(record, acknowledgement=given).acknowledged == given) is holds


def test_it_is_for_the_conditions_that_stand_and_were_seen() -> None:
    store = MemoryStore()
    store.write("r/_watchdog.json", encode(Record("r", state("slow"), transitions=3)))
    acknowledge(store, "r", replace(GIVEN, conditions=("slow", "over")))
    blob = store.read("r/_watchdog.json", 10**6)
    assert blob is not None
    assert decode_record(blob.body).acknowledged == replace(GIVEN, conditions=("slow",))
    assert withdraw(store, "r", "ana@desk")
    assert not withdraw(store, "r", "ana@desk")


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (None, "no watcher has seen r yet"),
        (Record("r", state(), transitions=4), "what you saw is over; r is RUNNING since: as it was"),
        (Record("r", state("slow"), transitions=3), "r has a new warning: slow"),
    ],
    ids=["a run that was never seen", "one that has had a transition meanwhile", "one that has a new warning"],
)
def test_what_is_not_acknowledged(record: Record | None, told: str) -> None:
    store = MemoryStore()
    if record is not None:
        store.write("r/_watchdog.json", encode(record))
    with pytest.raises(StoreError, match=told):
        acknowledge(store, "r", GIVEN)
    assert not withdraw(store, "r", "ana@desk")


def test_a_warning_that_ends_and_comes_back_is_not_acknowledged() -> None:
    world = World()

    def look(step: int, loss: float | str) -> Record:
        world.after(60)
        world.beat()
        world.progress(step, loss=loss)
        return world.record_after_look()

    look(1, 2.5)
    warned = look(2, "NaN")
    assert list(warned.conditions) == ["loss_nan"]
    acknowledge(world.store, RUN, replace(GIVEN, transition=warned.transitions, conditions=("loss_nan",)))
    assert look(3, "NaN").acknowledged is not None
    look(4, 2.5)
    again = look(5, "NaN")
    assert (list(again.conditions), again.acknowledged) == (["loss_nan"], None)
