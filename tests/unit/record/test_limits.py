"""The limits of a fleet as watchers read them and people change them, whole or damaged."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastbeat.model.limits import LIMITS, LimitEntry
from lastbeat.model.policy import Policy
from lastbeat.stores.port import Entry, StoreError, UnreachableError
from lastbeat.watch.record.fleet_document import GOOD_FOR_S
from lastbeat.watch.record.limits import LISTED_FOR_S, MOST, FleetLimits
from lastbeat.watch.record.limits_file import faults_of
from support.laws import examples
from support.memory import START, MemoryStore

HERE = Policy()


def held(*entries: object, **more: Any) -> str:
    return json.dumps({"schema": 1, "limits": list(entries), **more}, indent=1)


def stale_minutes(limits: FleetLimits, after_s: float = 0.0, run_id: str = "run") -> float:
    return limits.policy(run_id, HERE, START + timedelta(seconds=after_s)).stale_s / 60


def reads(store: MemoryStore) -> int:
    return store.calls.count(("read", LIMITS))


def listed(store: MemoryStore) -> Entry | None:
    return next((entry for entry in store.list("").entries if entry.key == LIMITS), None)


def test_they_are_read_once_a_minute_however_many_ask() -> None:
    store = MemoryStore()
    limits = FleetLimits(store, GOOD_FOR_S)
    for number in range(100):
        assert stale_minutes(limits, number / 2, f"run-{number}") == 10
    assert reads(store) == 1
    store.put_text(LIMITS, held({"runs": "*", "stale_minutes": 20}))
    assert stale_minutes(limits, GOOD_FOR_S) == 20
    assert reads(store) == 2


def test_where_something_depends_on_them_they_are_read_anew() -> None:
    store = MemoryStore()
    limits = FleetLimits(store)
    assert stale_minutes(limits) == 10
    store.put_text(LIMITS, held({"runs": "*", "stale_minutes": 20}))
    assert stale_minutes(limits, 300) == 10
    assert limits.renew(START + timedelta(seconds=301))
    assert stale_minutes(limits, 302) == 20
    assert not limits.renew(START + timedelta(seconds=340)), "a moment ago"
    assert not limits.renew(START + timedelta(seconds=400)), "they are the same"
    assert reads(store) == 3


def test_where_listings_tell_they_are_read_when_they_changed() -> None:
    store = MemoryStore()
    limits = FleetLimits(store, LISTED_FOR_S)
    for minute in range(100):
        now = START + timedelta(minutes=minute)
        limits.listed(listed(store), now)
        assert limits.policy("run", HERE, now).stale_s == 600
    assert reads(store) == 0, "there was none"
    store.put_text(LIMITS, held({"runs": "*", "stale_minutes": 20}))
    for minute in range(100, 200):
        limits.listed(listed(store), START + timedelta(minutes=minute))
        assert stale_minutes(limits, 60 * minute) == 20
    assert reads(store) == 1
    store.delete(LIMITS)
    limits.listed(listed(store), START + timedelta(minutes=200))
    assert stale_minutes(limits, 60 * 200) == 10
    assert reads(store) == 1


def test_what_was_read_holds_while_the_store_does_not_answer() -> None:
    store = MemoryStore()
    store.put_text(LIMITS, held({"runs": "*", "stale_minutes": 20}))
    limits = FleetLimits(store, GOOD_FOR_S)
    assert stale_minutes(limits) == 20
    store.refuse("read", UnreachableError("no answer"))
    later = limits.policy("run", HERE, START + timedelta(seconds=GOOD_FOR_S))
    assert (later.stale_s, later.unread) == (1200.0, None)
    assert limits.note is not None
    assert "no answer" in limits.note
    assert "still hold" in limits.note
    store.heal()
    assert stale_minutes(limits, 2 * GOOD_FOR_S) == 20
    assert limits.note is None


def test_what_was_never_read_is_not_known() -> None:
    store = MemoryStore()
    store.refuse("read", UnreachableError("no answer"))
    limits = FleetLimits(store)
    policy = limits.policy("run", HERE, START)
    assert policy.unread == "The fleet's limits cannot be read: no answer"
    for each in range(100):
        limits.policy(f"run-{each}", HERE, START)
    assert reads(store) == 1, "a pass over many runs does not ask for each of them"
    store.heal()
    assert limits.policy("run", HERE, START + timedelta(seconds=10)).unread is None


# Changing them.


def test_a_change_leaves_what_it_does_not_name() -> None:
    limits = FleetLimits(MemoryStore())
    limits.change("m-*", lambda entry: replace(entry, stale_minutes=20.0))
    limits.change("*", lambda entry: replace(entry, stall_minutes=30.0))
    limits.change("m-*", lambda entry: replace(entry, stall_minutes=0.0))
    assert limits.all() == (
        LimitEntry("m-*", stale_minutes=20.0, stall_minutes=0.0),
        LimitEntry("*", stall_minutes=30.0),
    )
    assert limits.clear("m-*") == LimitEntry("m-*", stale_minutes=20.0, stall_minutes=0.0)
    assert limits.clear("m-*") is None
    limits.change("*", lambda entry: replace(entry, stall_minutes=None))
    assert limits.all() == (), "an entry that says nothing is none"


def test_what_was_said_before_is_not_written_again() -> None:
    store = MemoryStore()
    limits = FleetLimits(store)
    for _ in range(3):
        limits.change("*", lambda entry: replace(entry, stale_minutes=20.0, at=store.now))
        store.pass_time(60)
    assert store.calls.count(("write", LIMITS)) == 1


def test_there_are_so_many_at_most() -> None:
    store = MemoryStore()
    store.put_text(LIMITS, held(*({"runs": f"run-{n}", "stale_minutes": 5} for n in range(MOST))))
    with pytest.raises(StoreError, match="limits of 200 globs already"):
        FleetLimits(store).change("more", lambda entry: replace(entry, stale_minutes=5.0))
    FleetLimits(store).change("run-7", lambda entry: replace(entry, stale_minutes=6.0))


# Newer versions.


def test_what_a_newer_version_added_survives_a_change_and_is_told() -> None:
    store = MemoryStore()
    store.put_text(
        LIMITS, held({"runs": "*", "stale_minutes": 20, "gpu_idle_minutes": 9}, {"runs": "m", "new": [1]}, owner="x")
    )
    limits = FleetLimits(store)
    assert stale_minutes(limits) == 20
    assert limits.note is not None
    assert "does not know gpu_idle_minutes of *, new of m, owner" in limits.note
    limits.change("*", lambda entry: replace(entry, stall_minutes=5.0))
    document = json.loads(store.held[LIMITS].body)
    assert document["owner"] == "x"
    assert {"runs": "*", "stale_minutes": 20, "stall_minutes": 5, "gpu_idle_minutes": 9} in document["limits"]
    assert {"runs": "m", "new": [1]} in document["limits"]


def test_of_a_word_that_only_a_newer_version_knows_the_fixed_limit_is_left() -> None:
    store = MemoryStore()
    store.put_text(LIMITS, held({"runs": "*", "stale_minutes": 20, "stale": "seasonal"}))
    limits = FleetLimits(store)
    policy = limits.policy("run", HERE, START)
    assert (policy.stale_s, policy.learned) == (1200.0, False)
    assert limits.note is not None
    assert "stale: seasonal of *" in limits.note


def test_a_newer_document_is_left_alone_and_not_known() -> None:
    store = MemoryStore()
    store.put_text(LIMITS, '{"schema": 2, "limits": "other"}')
    limits = FleetLimits(store)
    assert "newer lastbeat" in (limits.policy("run", HERE, START).unread or "")
    for change in (limits.clear_all, lambda: limits.clear("*"), limits.all):
        with pytest.raises(StoreError, match="newer lastbeat") as told:
            change()
        assert "upgrade" in told.value.advice


def store_of(text: str) -> MemoryStore:
    store = MemoryStore()
    store.put_text(LIMITS, text)
    return store


DAMAGED = [
    pytest.param("", id="nothing"),
    pytest.param('{"limits": []}', id="no schema"),
    pytest.param('{"schema": 1}', id="no limits"),
    pytest.param('{"schema": 1, "limits": {}}', id="limits that are no list"),
    pytest.param(held("mistral-*"), id="an entry that is no object"),
    pytest.param(held({"stale_minutes": 5}), id="an entry for nobody"),
    pytest.param(held({"runs": "a/b"}), id="a glob that can be none"),
    pytest.param(held({"runs": "*", "stale_minutes": 0}), id="no time at all"),
    pytest.param(held({"runs": "*", "stale_minutes": "20"}), id="a text for a number"),
    pytest.param(held({"runs": "*", "stall_minutes": True}), id="a truth for a number"),
    pytest.param(held({"runs": "*", "start_minutes": 1e9}), id="a time of years"),
    pytest.param(held({"runs": "*", "stale": 7}), id="a word that is none"),
    pytest.param(held({"runs": "*", "stale_minutes": 5}, {"runs": "*", "stall_minutes": 5}), id="a glob twice"),
]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_document_is_told_and_replaced_only_on_purpose(text: str) -> None:
    store = store_of(text)
    limits = FleetLimits(store)
    policy = limits.policy("run", Policy(), START)
    assert policy.unread is not None
    assert "_watchdog/limits.json is damaged" in policy.unread
    assert limits.note is not None
    assert "lastbeat limits" in limits.note
    assert len(limits.note) < 600
    for ask in (limits.all, lambda: limits.clear("*"), lambda: limits.change("*", lambda entry: entry)):
        with pytest.raises(StoreError, match="is damaged") as told:
            ask()
        assert "--remove-all" in told.value.advice
    assert store.held[LIMITS].body.decode() == text
    faults, _ = faults_of(store)
    assert faults
    assert all(str(fault).startswith(LIMITS) and len(str(fault)) < 400 for fault in faults)
    limits.clear_all()
    assert limits.all() == ()


def test_all_faults_are_told_at_once_each_with_its_line_and_what_is_misspelt() -> None:
    faults, strange = faults_of(
        store_of(held({"runs": "a b", "stale_minutes": 5}, {"runs": "*", "stale_minutes": "x", "stal_minutes": 7}))
    )
    told = "\n".join(map(str, faults))
    assert f"{LIMITS}:5: " in told
    assert "'a b' can match no run" in told
    assert f"{LIMITS}:10: " in told
    assert "has to be a number of minutes" in told
    (unknown,) = strange
    assert str(unknown).startswith(f"{LIMITS}:11: unknown key 'stal_minutes'")
    assert "did you mean" in str(unknown)


VALUES = st.one_of(st.none(), st.booleans(), st.integers(-5, 50_000), st.floats(), st.text(max_size=5), st.just([]))
ENTRY = st.fixed_dictionaries(
    {"runs": st.sampled_from(["*", "m-*", "x", "", "a b", "[z-a]", 7])},
    optional={
        "stale_minutes": VALUES,
        "stall_minutes": VALUES,
        "start_minutes": VALUES,
        "stale": VALUES | st.sampled_from(["learned", "fixed"]),
        "by": VALUES,
        "at": VALUES | st.sampled_from(["2026-01-01T12:00:00Z", 1767268760]),
        "new": VALUES,
    },
)


@settings(max_examples=examples(40))
@given(st.lists(ENTRY | VALUES, max_size=4))
def test_what_passes_take_and_what_people_are_told_is_right_is_the_same(entries: list[Any]) -> None:
    store = store_of(json.dumps({"schema": 1, "limits": entries}))
    taken = FleetLimits(store).policy("m-1", Policy(), START).unread is None
    faults, _ = faults_of(store)
    assert taken == (not faults)


@given(st.binary(max_size=300) | st.text(max_size=100).map(lambda t: held({"runs": t}).encode()))
def test_whatever_lies_there_no_watcher_stumbles_over_it(body: bytes) -> None:
    store = MemoryStore()
    store.put_text(LIMITS, body.decode("latin-1"))
    policy = FleetLimits(store).policy("run", Policy(), START)
    assert (policy.stale_s, policy.stall_s) == (600.0, None)
    faults_of(store)
