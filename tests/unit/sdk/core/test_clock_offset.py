"""An instance whose clock is off says by how much, from its first document that has a time: nobody is misled."""

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

import pytest

from lastbeat.model.policy import Policy
from lastbeat.stores.port import DeniedError, UnreachableError
from lastbeat.training.sdk.documents import ClockOffset
from lastbeat.training.sdk.one_shot import Report, beat
from lastbeat.watch.watchdog import Watch, WatchContext
from support.channel import ListChannel
from support.memory import START, MemoryStore
from support.reporting import environment

HOUR = 3600.0
KEY = "run-1/metadata.json"


@dataclass
class Machine:
    """One whose wall clock is ``ahead_s`` of the store's."""

    ahead_s: float = 0.0
    store: MemoryStore = field(default_factory=MemoryStore)

    def wall(self) -> float:
        return self.store.now.timestamp() + self.ahead_s

    def steadily(self) -> float:
        return (self.store.now - START).total_seconds()

    def offset(self) -> ClockOffset:
        return ClockOffset(self.wall, self.steadily)


@pytest.mark.parametrize(
    ("ahead_s", "told"),
    [
        pytest.param(-HOUR, HOUR, id="an hour slow"),
        pytest.param(HOUR, -HOUR, id="an hour fast"),
        pytest.param(1.0, 0.0, id="right as far as stores that stamp whole seconds can tell"),
    ],
)
def test_it_is_learned_from_what_was_written(ahead_s: float, told: float) -> None:
    machine = Machine(ahead_s)
    offset = machine.offset()
    assert offset.seconds is None
    offset.write(machine.store, KEY, b"{}")
    assert offset.seconds == pytest.approx(told, abs=1)


def test_a_clock_that_is_set_meanwhile_is_known_at_once() -> None:
    machine = Machine(-HOUR)
    offset = machine.offset()
    offset.write(machine.store, KEY, b"{}")
    machine.ahead_s = 0.0
    assert offset.seconds == 0.0


def test_it_is_learned_anew_once_an_hour() -> None:
    machine = Machine()
    offset = machine.offset()
    for _ in range(120):
        offset.write(machine.store, KEY, b"{}")
        machine.store.pass_time(60)
    assert [call for call, _ in machine.store.calls].count("read") == 2


@pytest.mark.parametrize("error", [DeniedError("write only"), UnreachableError("503")])
def test_where_it_cannot_be_learned_the_write_counts_all_the_same(error: Exception) -> None:
    machine = Machine(-HOUR)
    offset = machine.offset()

    machine.store.refuse("read", error)
    offset.write(machine.store, KEY, b"{}")
    assert offset.seconds is None
    assert machine.store.held[KEY].body == b"{}"
    machine.store.heal()
    machine.store.pass_time(61)
    offset.write(machine.store, KEY, b"{}")
    assert offset.seconds == pytest.approx(HOUR, abs=1)


@pytest.mark.parametrize("ahead_s", [-HOUR, HOUR, 0.0], ids=["slow", "fast", "right"])
def test_no_look_at_any_write_of_a_beat_thinks_it_dead(ahead_s: float) -> None:
    """A watcher that comes between any two of the calls, and knows nothing yet."""
    store = MemoryStore(datetime.now(timezone.utc) - timedelta(seconds=ahead_s))
    statuses: list[str] = []

    def look(operation: str, key: str) -> None:
        if (operation, key) == ("write", KEY):
            context = WatchContext(store, [ListChannel()], Policy(), lambda: store.now, dry_run=True)
            statuses.append(Watch("run-1", context).tick().status.value)

    store.after = look
    around = environment(store)
    for _ in range(3):
        beat(around, "run-1", Report(step=7))
        store.pass_time(1)
    assert len(statuses) == 4, "the first beat writes twice, to learn"
    assert set(statuses) == {"RUNNING"}
    document = json.loads(store.held[KEY].body)
    assert document["clock_offset_s"] == pytest.approx(-ahead_s, abs=3)
    assert document["last_update"]
