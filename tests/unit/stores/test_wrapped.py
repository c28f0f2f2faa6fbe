"""Stores around another one: each operation of the port reaches it as it was asked for, and none is missed."""

import time
from collections.abc import Callable
from typing import Any, TypeVar, get_args

import pytest

from lastbeat.stores.counting import CountingStore, Tally
from lastbeat.stores.limited import ClosingStore, LimitedStore, TimelyStore
from lastbeat.stores.port import DeniedError, Expect, Store
from lastbeat.stores.reading import ReadingStore
from lastbeat.stores.retrying import RetryingStore
from lastbeat.stores.wrapped import Operation, WrappedStore
from support.memory import MemoryStore

T = TypeVar("T")
CALLS: dict[str, tuple[str, Callable[[Store], object]]] = {
    "list": ("run/", lambda store: store.list("run/", "run/a", 1)),
    "folders": ("", lambda store: store.folders()),
    "read": ("run/a", lambda store: store.read("run/a", 3, start=2)),
    "write": ("run/a", lambda store: store.write("run/a", b"new", "v1")),
    "delete": ("run/a", lambda store: store.delete("run/a")),
    "clear": ("run/", lambda store: store.clear("run/", keep="a", limit=1)),
    "clock": ("", lambda store: store.clock()),
}
"""Operation → the key that it is about, and the call, with no argument at its default."""
WRITES = {"write", "delete", "clear"}


class Witness(WrappedStore):
    """Notes what passes."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.passed: list[tuple[str, str]] = []

    def _call(self, operation: Operation, key: str, function: Callable[[], T]) -> T:
        self.passed.append((operation, key))
        return function()


def filled() -> MemoryStore:
    store = MemoryStore()
    for name in "abcd":
        store.put_text(f"run/{name}", f"text of {name}")
    return store


def timely(store: Store) -> TimelyStore:
    """One that has a minute for all that it is asked."""
    made = TimelyStore(store)
    made.until = time.monotonic() + 60
    return made


WRAPPERS: dict[str, Callable[[Store], Store]] = {
    "witness": Witness,
    "limited": lambda store: LimitedStore(store, 60.0),
    "timely": timely,
    "closing": lambda store: ClosingStore(store, time.monotonic() + 60),
    "timely, without an end": TimelyStore,
    "retrying": RetryingStore,
    "counting": lambda store: CountingStore(store, Tally()),
    "reading": ReadingStore,
}


def test_every_operation_of_the_port_is_known_here() -> None:
    operations = {name for name in vars(Store) if not name.startswith("_")} - {"url", "traits"}
    assert operations == set(CALLS) == set(get_args(Operation))


@pytest.mark.parametrize("operation", CALLS)
@pytest.mark.parametrize("name", WRAPPERS)
def test_each_wrapper_passes_on_what_it_was_asked_and_what_is_answered(name: str, operation: str) -> None:
    inner, plain = filled(), filled()
    wrapped, call = WRAPPERS[name](inner), CALLS[operation][1]
    if name == "reading" and operation in WRITES:
        with pytest.raises(DeniedError, match=r"a dry run (writes|deletes) nothing, not even run/"):
            call(wrapped)
        assert (inner.held, inner.calls) == (plain.held, [])
        return
    assert call(wrapped) == call(plain)
    assert (inner.held, inner.calls) == (plain.held, plain.calls)
    assert (wrapped.url, wrapped.traits) == (plain.url, plain.traits)


@pytest.mark.parametrize("expect", [Expect.ANYTHING, Expect.NOTHING, "v1"])
@pytest.mark.parametrize("name", sorted(WRAPPERS.keys() - {"reading"}))
def test_a_write_keeps_its_condition(name: str, expect: Expect | str) -> None:
    class Noting(MemoryStore):
        seen: Any = None

        def write(self, key: str, body: bytes, expect: Expect | str = Expect.ANYTHING) -> str:
            self.seen = expect
            return super().write(key, body)

    inner = Noting()
    WRAPPERS[name](inner).write("run/a", b"new", expect)
    assert inner.seen == expect
