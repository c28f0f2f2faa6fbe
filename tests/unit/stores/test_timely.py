"""A store that nobody waits for beyond a time."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from lastbeat.stores.limited import TimelyStore
from lastbeat.stores.port import ConflictError, Expect, Store, UnreachableError
from support.memory import Killed, MemoryStore
from support.waiting import until

CALLS: list[Callable[[Store], Any]] = [
    lambda store: store.list(""),
    lambda store: store.folders(),
    lambda store: store.read("a/x", 10),
    lambda store: store.write("a/y", b"new"),
    lambda store: store.delete("a/x"),
]
NAMES = ["list", "folders", "read", "write", "delete"]


def _hanging(released: threading.Event) -> Callable[[str, str], None]:
    def hang(_operation: str, _key: str) -> None:
        released.wait(60)

    return hang


def _filled() -> MemoryStore:
    store = MemoryStore()
    store.put_text("a/x", "old")
    return store


@pytest.mark.parametrize("call", CALLS, ids=NAMES)
def test_what_hangs_is_given_up_when_the_time_is_over(call: Callable[[Store], Any], released: threading.Event) -> None:
    store = _filled()
    store.before = _hanging(released)
    timely = TimelyStore(store)
    timely.until = time.monotonic() + 0.1
    with pytest.raises(UnreachableError, match=r"memory://runs: cannot .*: no answer within"):
        call(timely)
    assert time.monotonic() >= timely.until
    assert len(store.calls) == 1


@pytest.mark.parametrize("call", CALLS, ids=NAMES)
def test_without_any_time_nobody_is_asked(call: Callable[[Store], Any]) -> None:
    store = _filled()
    timely = TimelyStore(store)
    timely.until = time.monotonic()
    with pytest.raises(UnreachableError):
        call(timely)
    assert store.calls == []


@pytest.mark.parametrize("fault", [UnreachableError("503"), ConflictError("it changed"), Killed()])
def test_what_goes_wrong_goes_wrong_where_it_was_asked_for(fault: BaseException) -> None:
    store = _filled()
    store.refuse("any", fault)
    timely = TimelyStore(store)
    timely.until = time.monotonic() + 60
    with pytest.raises(type(fault)) as raised:
        timely.write("a/x", b"new", Expect.NOTHING)
    assert raised.value is fault


def test_a_write_that_was_given_up_may_happen_all_the_same(released: threading.Event) -> None:
    store = _filled()
    store.before = _hanging(released)
    timely = TimelyStore(store)
    timely.until = time.monotonic() + 0.05
    with pytest.raises(UnreachableError):
        timely.write("a/y", b"late")
    released.set()
    until(lambda: "a/y" in store.held)
