"""Limits that somebody wrote by hand, or that broke: told, and no limit of anybody's decides anything meanwhile."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.limits import LIMITS
from lastbeat.model.policy import Policy
from lastbeat.stores.port import StoreError
from lastbeat.watch.record.fleet_document import LIMIT_BYTES
from lastbeat.watch.record.limits import FleetLimits
from lastbeat.watch.record.limits_file import faults_of
from support.memory import START, MemoryStore


def held(*entries: object) -> str:
    return json.dumps({"schema": 1, "limits": list(entries)}, indent=1)


def store_of(text: str) -> MemoryStore:
    store = MemoryStore()
    store.put_text(LIMITS, text)
    return store


DAMAGED = [
    pytest.param("", id="nothing"),
    pytest.param("{", id="half a document"),
    pytest.param('{"limits": []}', id="no schema"),
    pytest.param('{"schema": true, "limits": []}', id="a schema that is no number"),
    pytest.param('{"schema": 1}', id="no limits"),
    pytest.param('{"schema": 1, "limits": {}}', id="limits that are no list"),
    pytest.param(held("mistral-*"), id="an entry that is no object"),
    pytest.param(held({"stale_minutes": 5}), id="an entry for nobody"),
    pytest.param(held({"runs": "a/b"}), id="a glob that can be none"),
    pytest.param(held({"runs": "*", "stale_minutes": 0}), id="no time at all"),
    pytest.param(held({"runs": "*", "stale_minutes": "20"}), id="a text for a number"),
    pytest.param(held({"runs": "*", "stall_minutes": True}), id="a truth for a number"),
    pytest.param(held({"runs": "*", "start_minutes": 1e9}), id="a time of years"),
    pytest.param('{"schema": 1, "limits": [{"runs": "*", "stale_minutes": 1e999}]}', id="a number without end"),
    pytest.param(held({"runs": "*", "stale": 7}), id="a word that is none"),
    pytest.param(held({"runs": "*", "stale_minutes": 5}, {"runs": "*", "stall_minutes": 5}), id="a glob twice"),
    pytest.param("[" * 60_000, id="a hole without a floor"),
    pytest.param('{"schema": 1, "limits": []}' + " " * LIMIT_BYTES, id="one with a whole document at its beginning"),
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
