"""What a watcher takes for the routes of its fleet, whatever lies there."""

import json
import sys
from collections.abc import Callable
from datetime import timedelta

import pytest

from lastbeat.model.route import ROUTES, ROUTES_FILE
from lastbeat.stores.port import DeniedError, StoreError, UnreachableError
from lastbeat.watch.record.routes import Routes, RoutesNow, look, remove
from lastbeat.watch.record.routes_file import put_routes
from support.memory import MemoryStore

SIMPLE = b"default: {to: slack}\n"
OTHER = b"default: {to: sns}\n"


def destinations(now: RoutesNow) -> tuple[str, ...] | None:
    return None if now.table is None else now.table.routes[-1].to


def set_to(store: MemoryStore, body: bytes = SIMPLE) -> None:
    table, faults = put_routes(store, body, "routes.yaml")
    assert (table is not None, faults) == (True, [])


def test_without_a_file_there_are_none_and_one_read_finds_that_out() -> None:
    store = MemoryStore()
    assert look(store) == RoutesNow()
    assert store.calls == [("read", ROUTES_FILE)]


def test_what_was_set_holds_and_needs_no_yaml(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    set_to(store)
    # As in a Lambda function, whose zip has neither PyYAML nor pydantic.
    monkeypatch.setitem(sys.modules, "lastbeat.watch.record.routes_file", None)
    assert destinations(look(store)) == ("slack",)


def test_a_file_that_somebody_copied_there_holds_and_is_compiled_once() -> None:
    store = MemoryStore()
    set_to(store)
    store.put_text(ROUTES_FILE, OTHER.decode())
    assert destinations(look(store)) == ("sns",)
    store.calls.clear()
    assert destinations(look(store)) == ("sns",)
    assert [operation for operation, _ in store.calls] == ["read", "read"]


def test_one_that_cannot_read_yaml_says_that_the_file_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    set_to(store)
    store.put_text(ROUTES_FILE, OTHER.decode())
    monkeypatch.setitem(sys.modules, "lastbeat.watch.record.routes_file", None)
    now = look(store)
    assert now.table is None
    assert "run: lastbeat routes set FILE" in str(now.fault)


def test_a_watcher_that_may_not_write_follows_the_file_all_the_same() -> None:
    store = MemoryStore()
    store.put_text(ROUTES_FILE, SIMPLE.decode())

    store.refuse("write", DeniedError("no"))
    assert destinations(look(store)) == ("slack",)


def test_who_takes_the_file_away_wants_no_routes() -> None:
    store = MemoryStore()
    set_to(store)
    store.delete(ROUTES_FILE)
    assert look(store) == RoutesNow()
    set_to(store)
    assert remove(store)
    assert not remove(store)
    assert not store.held


def test_a_file_with_a_fault_changes_nothing_when_it_is_set() -> None:
    store = MemoryStore()
    set_to(store)
    before = dict(store.held)
    table, faults = put_routes(store, b"default: {to: slack}\nrouts: []\n", "mine.yaml")
    assert table is None
    assert str(faults[0]).startswith("mine.yaml:2: unknown key 'routs' (did you mean 'routes'?)")
    assert store.held == before


def newer(store: MemoryStore) -> None:
    document = json.loads(store.held[ROUTES].body)
    store.put_text(ROUTES, json.dumps({**document, "schema": 2}))


def with_new_condition(store: MemoryStore) -> None:
    document = json.loads(store.held[ROUTES].body)
    document["routes"][0]["moon"] = ["full"]
    store.put_text(ROUTES, json.dumps(document))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        pytest.param(lambda s: s.put_text(ROUTES_FILE, "default: {to: slack}\nx: 1\n"), "unknown key", id="a fault"),
        pytest.param(lambda s: s.put_text(ROUTES_FILE, "#" * 70_000), "65,536 is the most", id="a huge file"),
        pytest.param(newer, "written by a newer lastbeat", id="a newer document"),
        pytest.param(with_new_condition, "a newer lastbeat wrote it", id="a condition that a newer version added"),
    ],
)
def test_what_cannot_be_followed_is_a_fault_and_no_routes(spoil: Callable[[MemoryStore], None], why: str) -> None:
    store = MemoryStore()
    set_to(store)
    spoil(store)
    now = look(store)
    assert now.table is None
    assert why in str(now.fault)


def test_a_damaged_document_is_made_anew_from_the_file() -> None:
    store = MemoryStore()
    set_to(store)
    store.put_text(ROUTES, "{]")
    assert destinations(look(store)) == ("slack",)
    assert json.loads(store.held[ROUTES].body)["schema"] == 1


@pytest.mark.parametrize("there", [True, False], ids=["where there is one", "where there is none"])
def test_who_may_not_read_the_file_finds_out_whether_there_is_one(there: bool) -> None:
    store = MemoryStore()
    if there:
        set_to(store)

    store.refuse("read", DeniedError("access denied"), named=ROUTES_FILE)
    now = Routes(store).now(store.now)
    assert now.table is None
    assert (now.fault is not None) is there


def test_they_are_read_once_a_minute_at_most() -> None:
    store = MemoryStore()
    set_to(store)
    routes = Routes(store)
    for _ in range(5):
        assert destinations(routes.now(store.now)) == ("slack",)
    store.put_text(ROUTES_FILE, OTHER.decode())
    assert destinations(routes.now(store.now + timedelta(seconds=59))) == ("slack",)
    assert destinations(routes.now(store.now + timedelta(seconds=61))) == ("sns",)


@pytest.mark.parametrize(
    ("fault", "stays"),
    [
        pytest.param(UnreachableError("no answer"), True, id="that does not answer: what held a moment ago still does"),
        pytest.param(StoreError("broken"), False, id="that is broken: every alert goes everywhere"),
    ],
)
def test_a_store(fault: StoreError, stays: bool) -> None:
    store = MemoryStore()
    set_to(store)
    routes = Routes(store)
    routes.now(store.now)

    store.refuse("any", fault)
    now = routes.now(store.now + timedelta(minutes=2))
    assert (now.table is not None, now.fault is None) == (stays, stays)
    store.heal()
    assert routes.now(store.now + timedelta(minutes=4)).table is not None
