"""Several commands of one job are started again together, or not at all: with races, lost answers and stores that are
away."""

import itertools
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.starts_in_place import StartsInPlace
from lastbeat.stores.port import UnreachableError
from lastbeat.training.exec.in_place.together import Participant, Together, encode_starts
from support.memory import MemoryStore
from support.waiting import LIMIT_S

KEY = "r/in_place.json"
NEXT = StartsInPlace("job", 1, why="a hang", by="node 0")
OVER = StartsInPlace("job", 0, over="out of memory", by="node 1")


def one(number: int, count: int = 2, pause: Callable[[float], None] = lambda _: None) -> Together:
    return Together("r", "job", Participant(number, count), pause=pause)


def away(store: MemoryStore) -> None:
    store.refuse("any", UnreachableError("no answer"))


def test_who_asks_first_is_followed() -> None:
    store = MemoryStore()
    assert one(0).ask_for(store, NEXT, 0.0) == NEXT
    assert one(1).ask_for(store, replace(NEXT, by="node 1"), 0.0) == NEXT
    assert one(1).ask_for(store, OVER, 0.0) == NEXT, "one that would rather end sees what the others do"


def test_two_that_ask_at_once_make_one_start() -> None:
    store = MemoryStore()

    def faster(operation: str, _key: str) -> None:
        if operation == "write":
            store.heal()
            assert one(1).ask_for(store, replace(NEXT, by="node 1"), 0.0) == replace(NEXT, by="node 1")

    store.before = faster
    assert one(0).ask_for(store, NEXT, 60.0) == replace(NEXT, by="node 1")


def test_an_answer_that_is_lost_is_asked_for_again() -> None:
    store = MemoryStore()

    def lost(operation: str, _key: str) -> None:
        if operation == "write":
            store.heal()
            raise UnreachableError("no answer")

    store.after = lost
    assert one(0).ask_for(store, NEXT, 60.0) == NEXT


def test_without_a_store_nobody_knows() -> None:
    store = MemoryStore()
    away(store)
    assert one(0).ask_for(store, NEXT, 0.0) is None
    assert one(0).gather(store, 1, 0.0) == (None, (1,)), "and nobody is there"


LEFT = [
    pytest.param(encode_starts(replace(NEXT, launch="yesterday", number=7)), id="an earlier job's says nothing"),
    pytest.param(encode_starts(replace(OVER, launch="yesterday")), id="nor that it was over"),
    pytest.param(b"{", id="nor what is no document"),
    pytest.param(b'{"launch": 7}', id="nor what is damaged"),
]


@pytest.mark.parametrize("body", LEFT)
def test_what_was_there_before(body: bytes) -> None:
    store = MemoryStore()
    store.write(KEY, body)
    own = one(0)
    own.look(store)
    assert own.called is None
    assert own.ask_for(store, NEXT, 0.0) == NEXT


def test_nobody_starts_before_all_are_ready() -> None:
    store = MemoryStore()
    assert one(0, 3).gather(store, 1, 0.0) == (None, (1, 2))
    assert one(2, 3).gather(store, 1, 0.0) == (None, (1,))
    assert one(1, 3).gather(store, 1, 0.0) == (None, ())
    assert one(0, 3).gather(store, 1, 0.0) == (None, ())
    assert one(0, 3).gather(store, 2, 0.0) == (None, (1, 2)), "each start by itself"


def test_who_waits_hears_that_it_is_over() -> None:
    store = MemoryStore()
    one(0).ask_for(store, NEXT, 0.0)
    own = one(0, pause=lambda _: store.put_text(KEY, encode_starts(replace(OVER, number=1)).decode()))
    assert own.gather(store, 1, 60.0) == (replace(OVER, number=1), (1,))


@given(st.lists(st.sampled_from(["ask 0", "ask 1", "over 0", "over 1"]), min_size=1, max_size=6), st.data())
def test_whatever_happens_the_number_only_grows_and_an_end_is_final(acts: list[str], data: st.DataObject) -> None:
    store, own = MemoryStore(), [one(0), one(1)]
    seen = [StartsInPlace("job")]
    for act in acts:
        word, node = act.split()
        who = own[int(node)]
        if data.draw(st.booleans(), "its answer is lost"):
            calls = itertools.count()
            store.after = lambda operation, _, calls=calls: _lose(operation, next(calls))  # type: ignore[misc]
        wanted = replace(NEXT if word == "ask" else OVER, number=who.number + (word == "ask"))
        who.ask_for(store, wanted, 0.0)
        store.heal()
        who.look(store)
        if who.called is not None:
            seen.append(who.called)
            who.number = who.called.number
        assert seen[-1].number >= seen[-2].number if len(seen) > 1 else True
        first_end = next((each for each in seen if each.over), None)
        assert first_end is None or seen[-1] == first_end


def _lose(operation: str, call: int) -> None:
    if operation == "write" and call < 3:
        raise UnreachableError("no answer")


def test_many_that_fail_at_once_make_one_start() -> None:
    store, found = MemoryStore(), list[StartsInPlace | None]()
    gathered = list[tuple[StartsInPlace | None, tuple[int, ...]]]()

    def fail(number: int) -> None:
        own = Together("r", "job", Participant(number, 8))
        starts = own.ask_for(store, replace(NEXT, by=f"node {number}"), 60.0)
        found.append(starts)
        gathered.append(own.gather(store, 1, 60.0))

    threads = [threading.Thread(target=fail, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert len({each.by for each in found if each is not None}) == 1
    assert len(found) == 8
    assert gathered == [(None, ())] * 8
