"""Changes by compare-and-set: of a record, and of any other document. Each adds a word, and no word gets lost."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from lastbeat.model.record import Record
from lastbeat.model.state import State
from lastbeat.model.status import Status
from lastbeat.stores.port import Blob, ConflictError, StoreError, UnreachableError
from lastbeat.watch.record import fleet_document
from lastbeat.watch.record.codec import decode_record
from lastbeat.watch.record.fleet_document import RACES
from lastbeat.watch.record.repository import RecordRepository
from support.memory import Killed, MemoryStore
from support.waiting import LIMIT_S

KEY = "run/_watchdog.json"


def add_to_record(store: MemoryStore, word: str) -> None:
    def change(record: Record | None) -> Record | None:
        known = record or Record("run")
        if word in known.reason.split():
            return None
        return replace(known, state=State(Status.RUNNING, f"{known.reason} {word}"))

    RecordRepository(store, KEY, word, proven=True).update(change, store.now)


def add_to_document(store: MemoryStore, word: str) -> None:
    def change(blob: Blob | None) -> bytes | None:
        words = blob.body.decode().split() if blob is not None else []
        return None if word in words else " ".join([*words, word]).encode()

    fleet_document.update(store, KEY, 4096, change)


@dataclass
class Words:
    """A store, in which ``add`` adds a word to the record or the document."""

    store: MemoryStore
    add: Callable[[MemoryStore, str], None]

    @property
    def words(self) -> list[str]:
        held = self.store.held.get(KEY)
        if held is None:
            return []
        return (decode_record(held.body).reason if self.add is add_to_record else held.body.decode()).split()

    @property
    def writes(self) -> int:
        return sum(operation == "write" for operation, _ in self.store.calls)

    def overtake(self, times: int) -> None:
        """Before each of the next ``times`` writes another writer adds a word."""
        left = times

        def hook(operation: str, _key: str) -> None:
            nonlocal left
            if operation == "write" and left:
                left, self.store.before = left - 1, lambda _operation, _key: None
                self.add(self.store, f"other{left}")
                self.store.before = hook

        self.store.before = hook


@pytest.fixture(params=[add_to_record, add_to_document], ids=["record", "document"])
def scene(request: pytest.FixtureRequest) -> Words:
    return Words(MemoryStore(), request.param)


@pytest.mark.parametrize("exists", [True, False], ids=["changed", "created"])
@pytest.mark.parametrize("lost", [1, RACES - 1])
def test_a_change_wins_after_lost_races_and_keeps_what_the_others_wrote(scene: Words, lost: int, exists: bool) -> None:
    if exists:
        scene.add(scene.store, "first")
    scene.overtake(lost)
    scene.add(scene.store, "mine")
    others = [f"other{number}" for number in reversed(range(lost))]
    assert scene.words == [*(["first"] if exists else []), *others, "mine"]


def test_a_change_that_loses_every_race_ends_with_an_error_and_writes_nothing(scene: Words) -> None:
    scene.overtake(RACES)
    with pytest.raises(ConflictError, match="changed by others every time"):
        scene.add(scene.store, "mine")
    assert "mine" not in scene.words
    assert len(scene.words) == RACES


def test_nothing_is_written_where_there_is_nothing_to_change(scene: Words) -> None:
    scene.add(scene.store, "mine")
    writes, version = scene.writes, scene.store.held[KEY].version
    scene.add(scene.store, "mine")
    assert (scene.writes, scene.store.held[KEY].version) == (writes, version)


def test_a_write_whose_answer_gets_lost_happens_once(scene: Words) -> None:
    scene.add(scene.store, "first")
    writes = scene.writes

    def lose(operation: str, _key: str) -> None:
        if operation == "write":
            scene.store.heal()
            raise UnreachableError("no answer")

    scene.store.after = lose
    scene.add(scene.store, "mine")
    assert scene.words == ["first", "mine"]
    assert scene.writes == writes + 1


def test_a_store_that_never_answers_is_not_asked_for_ever(scene: Words) -> None:
    scene.store.refuse("write", UnreachableError("no answer"))
    with pytest.raises(UnreachableError):
        scene.add(scene.store, "mine")
    assert scene.writes <= 2


def test_a_store_that_refuses_is_not_asked_again(scene: Words) -> None:
    scene.store.refuse("write", StoreError("no"))
    with pytest.raises(StoreError, match="no"):
        scene.add(scene.store, "mine")
    assert scene.writes == 1


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("call", range(3))
def test_a_process_that_dies_at_any_call_leaves_all_or_nothing(scene: Words, call: int, before: bool) -> None:
    scene.add(scene.store, "first")
    scene.store.die_at(call, before=before)
    try:
        scene.add(scene.store, "mine")
    except Killed:
        assert call < 2
    scene.store.heal()
    assert scene.words in (["first"], ["first", "mine"])
    scene.add(scene.store, "mine")
    assert scene.words == ["first", "mine"]


def test_of_many_at_once_each_one_is_written(scene: Words) -> None:
    threads = [threading.Thread(target=scene.add, args=(scene.store, f"w{number}")) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert sorted(scene.words) == [f"w{number}" for number in range(8)]


def test_an_update_returns_the_record_as_it_is_then() -> None:
    store = MemoryStore()
    repository = RecordRepository(store, KEY, "me", proven=True)
    assert repository.update(lambda _record: None) is None
    written = repository.update(lambda _record: Record("run", State(Status.RUNNING, "new")))
    assert written is not None
    assert (written.reason, written.seq, written.written_at) == ("new", 1, store.now), "at the store's time"
    assert repository.update(lambda record: record) == written, "the very record is no change"
    assert repository.update(lambda _record: None) == written
    assert [operation for operation, _ in store.calls].count("write") == 1


def test_an_error_of_the_change_itself_comes_through_and_writes_nothing(scene: Words) -> None:
    def refuse(_known: object) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        RecordRepository(scene.store, KEY, "me").update(refuse)
    with pytest.raises(LookupError):
        fleet_document.update(scene.store, KEY, 4096, refuse)
    assert scene.writes == 0
