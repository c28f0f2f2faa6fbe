"""Stores that are given so much time for a call, or for all calls together, and no more."""

import threading
import time
from collections.abc import Callable

import pytest

from lastbeat.stores.limited import ClosingStore, LimitedStore, TimelyStore
from lastbeat.stores.port import Expect, Store, UnreachableError
from support.memory import MemoryStore
from support.row_by_row import labelled
from support.waiting import until

CALLS: list[tuple[str, Callable[[Store], object]]] = [
    ("list", lambda store: store.list("")),
    ("folders", lambda store: store.folders()),
    ("read", lambda store: store.read("a/x", 10)),
    ("write", lambda store: store.write("a/y", b"new")),
    ("delete", lambda store: store.delete("a/x")),
]


def hanging(released: threading.Event) -> MemoryStore:
    store = MemoryStore()
    store.before = lambda _operation, _key: (released.wait(60), None)[1]
    return store


def timely(store: Store, seconds: float) -> TimelyStore:
    """One that has so much time for all that it is asked."""
    made = TimelyStore(store)
    made.until = time.monotonic() + seconds
    return made


@pytest.mark.parametrize("limited", [lambda store: LimitedStore(store, 0.05), lambda store: timely(store, 0.05)])
def test_a_call_that_hangs_is_given_up_and_may_still_happen(
    limited: Callable[[Store], Store], released: threading.Event
) -> None:
    inner = hanging(released)
    with pytest.raises(UnreachableError, match="cannot write a/b: no answer") as refused:
        limited(inner).write("a/b", b"late", Expect.NOTHING)
    assert refused.value.retryable
    assert not inner.held
    released.set()
    until(lambda: "a/b" in inner.held)


@pytest.mark.parametrize("call", labelled(CALLS))
def test_no_call_goes_on_when_the_time_of_all_is_over(
    call: Callable[[Store], object], released: threading.Event
) -> None:
    inner = hanging(released)
    store = timely(inner, 0.1)
    with pytest.raises(UnreachableError, match=r"memory://runs: cannot .*: no answer within"):
        call(store)
    assert time.monotonic() >= store.until
    assert len(inner.calls) == 1
    with pytest.raises(UnreachableError):
        call(store)
    assert len(inner.calls) == 1, "without any time nobody is asked"


def test_a_store_that_has_closed_is_asked_nothing() -> None:
    inner = MemoryStore()
    with pytest.raises(UnreachableError, match="cannot write a: no time was left"):
        ClosingStore(inner, time.monotonic()).write("a", b"", Expect.NOTHING)
    assert inner.calls == []


def test_calls_that_hang_are_bounded_and_make_room_when_they_end(released: threading.Event) -> None:
    inner = hanging(released)
    store = LimitedStore(inner, 0.001)
    faults = set()
    for _ in range(70):
        with pytest.raises(UnreachableError) as refused:
            store.read("a", 1)
        faults.add(str(refused.value))
    assert any("have not come back" in fault for fault in faults)
    assert len(inner.calls) <= 64
    released.set()
    patient = LimitedStore(inner, 60.0)
    for _ in range(60_000):
        try:
            assert patient.read("a", 1) is None
            break
        except UnreachableError:
            released.wait(0.001)
            threading.Event().wait(0.001)
    else:
        pytest.fail("the calls have ended, and still there is no room")
