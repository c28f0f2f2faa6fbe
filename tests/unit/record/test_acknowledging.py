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


def test_it_is_for_the_conditions_that_stand() -> None:
    store = MemoryStore()
    store.write("r/_watchdog.json", encode(Record("r", state("slow"), transitions=3)))
    acknowledge(store, "r", GIVEN)
    blob = store.read("r/_watchdog.json", 10**6)
    assert blob is not None
    assert decode_record(blob.body).acknowledged == replace(GIVEN, conditions=("slow",))
    assert withdraw(store, "r")
    assert not withdraw(store, "r")


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (None, "no watcher has seen r yet"),
        (Record("r", state(), transitions=4), "what you saw is over; r is RUNNING since: as it was"),
    ],
    ids=["a run that was never seen", "one that has had a transition meanwhile"],
)
def test_what_is_not_acknowledged(record: Record | None, told: str) -> None:
    store = MemoryStore()
    if record is not None:
        store.write("r/_watchdog.json", encode(record))
    with pytest.raises(StoreError, match=told):
        acknowledge(store, "r", GIVEN)
    assert not withdraw(store, "r")
