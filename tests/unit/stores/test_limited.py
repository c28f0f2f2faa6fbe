"""A store that is given so much time for each call and no more."""

import threading

import pytest

from lastbeat.stores.limited import LimitedStore
from lastbeat.stores.port import ConflictError, DeniedError, Expect, UnreachableError
from support.memory import Killed, MemoryStore


def hanging(released: threading.Event) -> MemoryStore:
    store = MemoryStore()
    store.before = lambda _operation, _key: (released.wait(60), None)[1]
    return store


@pytest.mark.parametrize("fault", [DeniedError("no"), ConflictError("no"), Killed(), ZeroDivisionError()], ids=repr)
def test_what_is_raised_in_time_is_raised_here(fault: BaseException) -> None:
    inner = MemoryStore()
    inner.refuse("any", fault)
    with pytest.raises(type(fault)):
        LimitedStore(inner, 60.0).write("a", b"", "v1")


def test_a_call_that_hangs_is_given_up_and_may_still_happen(released: threading.Event) -> None:
    inner = hanging(released)
    written = threading.Event()
    inner.after = lambda _operation, _key: written.set()
    with pytest.raises(UnreachableError, match="cannot write a/b: no answer") as refused:
        LimitedStore(inner, 0.05).write("a/b", b"late", Expect.NOTHING)
    assert refused.value.retryable
    assert not inner.held
    released.set()
    assert written.wait(60)
    assert inner.held["a/b"].body == b"late"


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
