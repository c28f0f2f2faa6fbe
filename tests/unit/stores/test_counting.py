"""What a pass asked of its store, by kind."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from lastbeat.stores.counting import CountingStore, Tally
from lastbeat.stores.port import Expect, Store, StoreError, UnreachableError
from lastbeat.stores.retrying import Patience, RetryingStore
from support.memory import MemoryStore
from support.row_by_row import labelled

KEY = "run-1/metadata.json"


def counting() -> tuple[MemoryStore, CountingStore]:
    memory = MemoryStore()
    memory.put_text(KEY, "{}")
    return memory, CountingStore(memory, Tally())


def counted(**more: int) -> dict[str, int]:
    return {"LIST": 0, "GET": 0, "PUT": 0, "DELETE": 0, **more}


CALLS: list[tuple[str, Callable[[Store], object], str]] = [
    ("a page is a LIST", lambda store: store.list(""), "LIST"),
    ("a few folders are one LIST", lambda store: store.folders(), "LIST"),
    ("a read is a GET", lambda store: store.read(KEY, 100), "GET"),
    ("a read of what is not there is one, too", lambda store: store.read("run-2/none", 100, from_end=True), "GET"),
    ("a write is a PUT", lambda store: store.write(KEY, b"{}"), "PUT"),
    ("a write on a condition is one, too", lambda store: store.write("new", b"{}", Expect.NOTHING), "PUT"),
    ("a deletion is a DELETE", lambda store: store.delete(KEY), "DELETE"),
]


@pytest.mark.parametrize(("call", "kind"), labelled(CALLS))
def test_each_call_is_one_request_of_its_kind_and_answers_as_before(call: Callable[[Store], object], kind: str) -> None:
    _, store = counting()
    plain, _ = counting()
    assert call(store) == call(plain)
    assert store.tally.counts == counted(**{kind: 1})


@pytest.mark.parametrize(("many", "requests"), [(0, 1), (1, 1), (1000, 1), (1001, 2), (2500, 3)])
def test_folders_come_a_thousand_a_request(many: int, requests: int) -> None:
    memory = MemoryStore()
    for number in range(many):
        memory.put_text(f"run-{number}/metadata.json", "{}")
    store = CountingStore(memory, Tally())
    assert len(store.folders()) == many
    assert store.tally.counts == counted(LIST=requests)


def test_each_attempt_of_a_store_that_tries_again_counts() -> None:
    memory, _ = counting()
    failures = [UnreachableError("503"), UnreachableError("503")]

    def fail(_operation: str, _key: str) -> None:
        if failures:
            raise failures.pop()

    memory.before = fail
    store = CountingStore(memory, Tally())
    RetryingStore(store, Patience(tries=3), sleep=lambda _seconds: None).read(KEY, 10)
    assert store.tally.counts == counted(GET=3)


def test_what_fails_was_asked() -> None:
    memory, store = counting()
    memory.refuse("any", StoreError("no"))
    for call in (lambda: store.list(""), store.folders, lambda: store.delete(KEY)):
        with pytest.raises(StoreError):
            call()
    assert store.tally.counts == counted(LIST=2, DELETE=1)


def test_no_request_is_lost_between_threads() -> None:
    tally = Tally()
    stores = [CountingStore(MemoryStore(), tally) for _ in range(8)]

    def ask(store: CountingStore) -> None:
        for _ in range(500):
            store.read(KEY, 1)
            store.write(KEY, b"")

    with ThreadPoolExecutor(len(stores)) as pool:
        list(pool.map(ask, stores))
    assert tally.counts == counted(GET=4000, PUT=4000)
