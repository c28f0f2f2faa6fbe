"""The race between a rank that fails and a rank 0 that begins: whatever the order, the cause is kept.

The clock of the store is turned by hand; ``wait`` is where rank 0 does what the row says.
"""

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest

from lastbeat.stores.port import DeniedError, UnreachableError
from lastbeat.training.sdk.first_error import FirstErrorResult, leftovers, write_first_error
from support.memory import START, MemoryStore

ERROR, METADATA = "r/_error", "r/metadata.json"
OLD, OURS, THEIRS = b"ValueError: last time\n", b"ValueError: ours\n", b"OSError: theirs\n"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def last_attempt(store: MemoryStore) -> None:
    """What an attempt leaves that failed 100 s before ``START``."""
    store.put_text(METADATA, json.dumps({"attempt": 1, "begun": True}), modified=at(-100))
    store.put_text(ERROR, OLD.decode(), modified=at(-100))


def clear(store: MemoryStore, started: datetime) -> None:
    for key in leftovers(store, "r", started):
        store.delete(key)


def begin(store: MemoryStore, started: datetime) -> Iterator[str]:
    """Rank 0 begins, one request at a time."""
    store.put_text(METADATA, json.dumps({"attempt": 2, "begun": False}))
    yield "its start is written"
    clear(store, started)
    yield "the leftovers are gone"
    store.put_text(METADATA, json.dumps({"attempt": 2, "begun": True}))
    yield "it has begun"


def waits(*moments: Callable[[], object]) -> Callable[[], bool]:
    """Lets each happen in one wait, and gives up then."""
    left = list(moments)

    def wait() -> bool:
        if not left:
            return False
        left.pop(0)()
        return True

    return wait


def body(store: MemoryStore) -> bytes | None:
    blob = store.read(ERROR, 1000)
    return blob.body if blob else None


@pytest.mark.parametrize("steps_before", [0, 1, 2, 3])
@pytest.mark.parametrize("rank_0_started", [-5.0, 0.5, 5.0])
def test_the_error_of_a_rank_outlives_the_start_of_rank_0(steps_before: int, rank_0_started: float) -> None:
    # This rank started at 0 and fails at 1; rank 0 has done so many steps by then, and does the others after.
    store = MemoryStore()
    last_attempt(store)
    store.now = at(1)
    rank_0 = begin(store, at(rank_0_started))
    for _ in range(steps_before):
        next(rank_0)
    store.now = at(2)

    def go_on() -> None:
        store.pass_time(1)
        next(rank_0, None)

    told = write_first_error(store, "r", OURS, at(0), waits(*[go_on] * 5))
    assert (body(store), told) == (OURS, FirstErrorResult(is_run_error=True, is_final=True))


def test_rank_0_that_had_looked_before_and_deletes_after_takes_nothing_away() -> None:
    store = MemoryStore()
    last_attempt(store)
    store.now = at(1)

    # Between the look of rank 0 and its deletion the other rank has replaced the old error by its own.
    def replaced(operation: str, key: str) -> None:
        if (operation, key) == ("delete", ERROR):
            store.before = lambda _operation, _key: None
            write_first_error(store, "r", OURS, at(0), waits())
            assert body(store) == OURS

    store.before = replaced
    for _ in begin(store, at(0.5)):
        pass
    assert body(store) is None
    # The rank has waited, for rank 0 had not begun, and looks again.
    assert write_first_error(store, "r", OURS, at(0), waits()) == FirstErrorResult(is_run_error=True, is_final=True)
    assert body(store) == OURS


def test_an_error_of_the_attempt_before_is_replaced_although_rank_0_never_begins() -> None:
    store = MemoryStore()
    last_attempt(store)
    store.now = at(1)
    assert write_first_error(store, "r", OURS, at(0), waits(lambda: None)) == FirstErrorResult(
        is_run_error=True, is_final=False
    )
    assert body(store) == OURS


def test_the_first_of_two_ranks_wins() -> None:
    store = MemoryStore()
    last_attempt(store)
    for _ in begin(store, at(0)):
        pass
    store.now = at(30)
    assert write_first_error(store, "r", THEIRS, at(0), waits()).is_run_error
    assert write_first_error(store, "r", OURS, at(0), waits()) == FirstErrorResult(is_run_error=False, is_final=True)
    assert body(store) == THEIRS


def test_a_rank_that_starts_late_does_not_replace_the_error_of_one_that_failed_before() -> None:
    store = MemoryStore()
    for _ in begin(store, at(0)):
        pass
    store.now = at(1)
    write_first_error(store, "r", THEIRS, at(0), waits())
    store.now = at(60)
    store.put_text(METADATA, json.dumps({"attempt": 2, "begun": True}))
    assert not write_first_error(store, "r", OURS, at(50), waits()).is_run_error
    assert body(store) == THEIRS


def test_two_ranks_that_replace_the_same_leftover_leave_one_error() -> None:
    store = MemoryStore()
    last_attempt(store)
    store.now = at(1)

    def faster(operation: str, key: str) -> None:
        if operation == "read" and key == ERROR:
            store.after = lambda _operation, _key: None
            assert write_first_error(store, "r", THEIRS, at(0), waits()).is_run_error

    store.after = faster
    assert not write_first_error(store, "r", OURS, at(0), waits()).is_run_error
    assert body(store) == THEIRS


def test_a_write_whose_answer_got_lost_is_recognised() -> None:
    store = MemoryStore()

    def lost(operation: str, key: str) -> None:
        if (operation, key) == ("write", ERROR):
            store.after = lambda _operation, _key: None
            raise UnreachableError("no answer")

    store.after = lost
    with pytest.raises(UnreachableError):
        write_first_error(store, "r", OURS, at(0), waits())
    assert write_first_error(store, "r", OURS, at(0), waits()).is_run_error


@pytest.mark.parametrize(
    ("modified_s", "started_s", "stays"),
    [
        pytest.param(-60, 0.4, False, id="an attempt before this one wrote it"),
        pytest.param(3, 0.4, True, id="another rank wrote it after this one had started"),
        pytest.param(0, 0.4, False, id="in the second of the start nobody knows: a rank that waits writes it again"),
    ],
)
def test_rank_0_deletes_what_is_older_than_itself(modified_s: float, started_s: float, stays: bool) -> None:
    store = MemoryStore()
    store.put_text(ERROR, "ValueError\n", modified=at(modified_s))
    clear(store, at(started_s))
    assert (body(store) is not None) is stays


def test_metadata_that_is_no_json_object_tells_nothing_and_stops_nothing() -> None:
    store = MemoryStore()
    for text in ("", "[]", '"begun"', "[" * 5000, '{"begun": "yes", "attempt": []}'):
        store.put_text(METADATA, text)
        assert not write_first_error(store, "r", OURS, at(-1), waits()).is_final


@pytest.mark.parametrize("refused", [METADATA, ERROR])
def test_a_training_that_may_write_and_not_read_tells_its_error(refused: str) -> None:
    store = MemoryStore()

    store.refuse("read", DeniedError("access denied"), key=refused)
    assert write_first_error(store, "r", OURS, at(0), waits()).is_run_error
    assert store.held[ERROR].body == OURS
    assert not write_first_error(store, "r", THEIRS, at(0), waits()).is_run_error
