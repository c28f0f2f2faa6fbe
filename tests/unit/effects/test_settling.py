"""What was sent is written down, however the store behaves meanwhile, as long as the claims hold."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from lastbeat.model.alert import Message
from lastbeat.model.record import Record
from lastbeat.model.status import Event, Status
from lastbeat.stores.port import DeniedError, StoreError, UnreachableError
from lastbeat.watch.effects.outbox import enqueue
from lastbeat.watch.effects.runner import EffectRunner
from lastbeat.watch.record.repository import RecordRepository
from support.channel import ListChannel, down
from support.memory import START, MemoryStore
from support.there import there
from support.waiting import LIMIT_S

KEY = "run-1/_watchdog.json"
LEASE_S = 60.0


@dataclass
class Watcher:
    """One process, and a store that fails from the sending on, as ``fault`` says."""

    store: MemoryStore = field(default_factory=MemoryStore)
    channel: ListChannel = field(default_factory=ListChannel)
    slept_s: float = 0.0

    def __post_init__(self) -> None:
        self.keeper = RecordRepository(self.store, KEY, "token", proven=True)
        self.rounds = EffectRunner(
            self.keeper, [self.channel], LEASE_S, self.store.clock, sleep=self.sleep, steady=lambda: self.slept_s
        )

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        self.store.pass_time(seconds)

    def tell(self, *, until: float = float("inf")) -> Record:
        message = Message("run-1", Event.FAILED, Status.FAILED, "boom", START)
        record = enqueue(Record("run-1", conditional_writes=True), message, ["list:1"])
        return self.rounds.round(record, START, must_write=True, until=until)

    def fail(self, fault: Callable[[], StoreError | None]) -> None:
        """Every write from the sending on that ``fault`` has an error for."""

        def hook(operation: str, _key: str) -> None:
            error = fault() if operation == "write" and self.channel.sent else None
            if error is not None:
                raise error

        self.store.before = hook

    def written(self) -> Record:
        return there(RecordRepository(self.store, KEY, "another").reload())


@pytest.fixture
def watcher() -> Watcher:
    return Watcher()


@pytest.mark.parametrize("refused_s", [1.0, 50.0])
def test_a_store_that_takes_it_again_while_the_claim_holds_is_told(watcher: Watcher, refused_s: float) -> None:
    watcher.fail(lambda: UnreachableError("503") if watcher.slept_s < refused_s else None)
    watcher.tell()
    assert watcher.written().delivered == 1
    assert not watcher.rounds.unsettled


def test_a_store_that_takes_nothing_is_asked_until_the_claim_runs_out_and_by_the_next_round(watcher: Watcher) -> None:
    watcher.fail(lambda: UnreachableError("503"))
    watcher.tell()
    assert 0.8 * LEASE_S < watcher.slept_s < LEASE_S
    assert watcher.rounds.unsettled == {(1, "list:1")}
    assert watcher.written().delivered == 0
    watcher.store.heal()
    watcher.sleep(LEASE_S)
    record = there(watcher.keeper.record)
    watcher.rounds.round(record, watcher.store.now, must_write=False)
    assert watcher.channel.events == ["FAILED"]
    assert watcher.written().delivered == 1
    assert not watcher.rounds.unsettled


def test_a_pass_that_has_less_time_than_the_claim_stops_then_and_has_tried(watcher: Watcher) -> None:
    watcher.fail(lambda: UnreachableError("503"))
    watcher.tell(until=10.0)
    assert 5.0 < watcher.slept_s < 10.0
    watcher.store.heal()
    watcher.channel.sent.clear()
    in_time = Watcher()
    in_time.tell(until=-1.0)
    assert in_time.written().delivered == 1


def test_a_refusal_that_time_does_not_heal_is_not_tried_again(watcher: Watcher) -> None:
    watcher.fail(lambda: DeniedError("403"))
    watcher.tell()
    assert watcher.slept_s == 0.0
    assert watcher.rounds.unsettled == {(1, "list:1")}


def test_what_could_not_be_sent_is_nothing_that_this_process_alone_knows(watcher: Watcher) -> None:
    watcher.channel.fault = down
    refusing = False

    def refuse(operation: str, _key: str) -> None:
        nonlocal refusing
        if operation == "write" and refusing:
            raise DeniedError("403")
        refusing = True

    watcher.store.before = refuse
    watcher.tell()
    assert not watcher.rounds.unsettled


def test_one_request_that_hangs_uses_up_a_small_part_of_the_time(watcher: Watcher, released: threading.Event) -> None:
    hung: list[str] = []

    def hang_once(operation: str, key: str) -> None:
        if operation == "write" and watcher.channel.sent and not hung:
            hung.append(key)
            released.wait(60)

    watcher.store.before = hang_once
    watcher.tell()
    assert hung == [KEY]
    written = watcher.store.held[KEY]
    assert watcher.written().delivered == 1
    late = threading.Event()
    watcher.store.after = lambda _operation, _key: late.set()
    released.set()
    assert late.wait(LIMIT_S)
    assert watcher.store.held[KEY] == written, "what arrives late is refused"
