"""A store that nobody waits for beyond a time."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lastbeat.stores.limited import TimelyStore
from lastbeat.stores.port import ConflictError, Expect, Store, UnreachableError
from support.memory import Killed, MemoryStore

CALLS: list[Callable[[Store], Any]] = [
    lambda store: store.list(""),
    lambda store: store.folders(),
    lambda store: store.read("a/x", 10),
    lambda store: store.write("a/y", b"new"),
    lambda store: store.delete("a/x"),
]
NAMES = ["list", "folders", "read", "write", "delete"]


@pytest.fixture
def held() -> Iterator[threading.Event]:
    """Set at the end of the test, for those that hang until then."""
    event = threading.Event()
    yield event
    event.set()


def _hanging(held: threading.Event) -> Callable[[str, str], None]:
    def hang(_operation: str, _key: str) -> None:
        held.wait(60)

    return hang


def _filled() -> MemoryStore:
    store = MemoryStore()
    store.put_text("a/x", "old")
    return store


@pytest.mark.parametrize("left_s", [float("inf"), 60.0], ids=["no end", "time enough"])
@pytest.mark.parametrize("call", CALLS, ids=NAMES)
def test_what_is_answered_in_time_is_as_the_store_answers_it(call: Callable[[Store], Any], left_s: float) -> None:
    timely = TimelyStore(_filled())
    timely.until = time.monotonic() + left_s
    assert call(timely) == call(_filled())
    assert timely.url == "memory://runs"
    assert timely.clock() == _filled().now


@pytest.mark.parametrize("call", CALLS, ids=NAMES)
def test_what_hangs_is_given_up_when_the_time_is_over(call: Callable[[Store], Any], held: threading.Event) -> None:
    store = _filled()
    store.before = _hanging(held)
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

    def fail(_operation: str, _key: str) -> None:
        raise fault

    store.before = fail
    timely = TimelyStore(store)
    timely.until = time.monotonic() + 60
    with pytest.raises(type(fault)) as raised:
        timely.write("a/x", b"new", Expect.NOTHING)
    assert raised.value is fault


def test_a_write_that_was_given_up_may_happen_all_the_same(held: threading.Event) -> None:
    store = _filled()
    store.before = _hanging(held)
    timely = TimelyStore(store)
    timely.until = time.monotonic() + 0.05
    with pytest.raises(UnreachableError):
        timely.write("a/y", b"late")
    held.set()
    until = time.monotonic() + 60
    while "a/y" not in store.held:
        assert time.monotonic() < until
        time.sleep(0.01)
