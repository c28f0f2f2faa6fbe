"""What is tried again, how often, after which pauses, and what never is."""

from collections.abc import Callable
from typing import Any

import pytest

from lastbeat.stores.port import (
    ConflictError,
    DeniedError,
    Expect,
    Store,
    StoreError,
    UnreachableError,
)
from lastbeat.stores.retrying import Patience, RetryingStore
from support.memory import MemoryStore

KEY = "run-1/_watchdog.json"


class Bench:
    """A store that fails with ``failures`` in turn, and a clock that the pauses and calls move on."""

    def __init__(self, *failures: StoreError, call_s: float = 0.0, fraction: float = 1.0) -> None:
        self.memory = MemoryStore()
        self.memory.put_text(KEY, "old")
        self.pauses: list[float] = []
        self._failures = list(failures)
        self._now = 0.0
        self._call_s = call_s
        self.memory.before = self._fail
        self.store = RetryingStore(
            self.memory,
            Patience(tries=3, base_s=1.0, total_s=15.0),
            sleep=self._sleep,
            fraction=lambda: fraction,
            steady=lambda: self._now,
        )

    def _fail(self, operation: str, key: str) -> None:
        self._now += self._call_s
        if self._failures:
            raise self._failures.pop(0)

    def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self._now += seconds


DOWN = UnreachableError("down")
REPEATABLE: list[Any] = [
    pytest.param(lambda s: s.list("run-1/"), id="list"),
    pytest.param(lambda s: s.read(KEY, 10), id="read"),
    pytest.param(lambda s: s.write(KEY, b"new"), id="write without condition"),
    pytest.param(lambda s: s.delete(KEY), id="delete"),
]


@pytest.mark.parametrize("call", REPEATABLE)
def test_trouble_that_passes_is_not_noticed(call: Callable[[Store], object]) -> None:
    bench = Bench(DOWN, DOWN)
    call(bench.store)
    assert len(bench.memory.calls) == 3
    assert bench.pauses == [1.0, 2.0]


@pytest.mark.parametrize("call", REPEATABLE)
def test_trouble_that_stays_is_raised_after_three_tries(call: Callable[[Store], object]) -> None:
    bench = Bench(DOWN, DOWN, DOWN, DOWN)
    with pytest.raises(UnreachableError):
        call(bench.store)
    assert len(bench.memory.calls) == 3


@pytest.mark.parametrize("call", REPEATABLE)
@pytest.mark.parametrize("error", [DeniedError("no"), StoreError("odd"), ConflictError("lost")], ids=repr)
def test_what_will_not_pass_is_raised_at_once(call: Callable[[Store], object], error: StoreError) -> None:
    bench = Bench(error)
    with pytest.raises(type(error)):
        call(bench.store)
    assert len(bench.memory.calls) == 1
    assert bench.pauses == []


@pytest.mark.parametrize("expect", [Expect.NOTHING, "v1"])
def test_a_conditional_write_is_never_repeated(expect: Expect | str) -> None:
    bench = Bench(DOWN)
    with pytest.raises(UnreachableError):
        bench.store.write(KEY, b"new", expect)
    assert len(bench.memory.calls) == 1


def test_no_try_begins_after_the_total_time() -> None:
    bench = Bench(DOWN, DOWN, DOWN, call_s=10.0)
    with pytest.raises(UnreachableError):
        bench.store.read(KEY, 10)
    assert len(bench.memory.calls) == 2
