"""The mark of a pass: what it says, what it costs, and that nothing rests on it."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.fleet.mark import LIMIT_BYTES, RECENT, MarkWriter, parse_mark, read_mark
from lastbeat.model.fleet import PassReport, Shard
from lastbeat.model.policy import FleetPolicy
from lastbeat.model.runid import SWEEP_MARK
from lastbeat.model.version import __version__
from lastbeat.stores.port import DeniedError, StoreError
from support.memory import START, Killed, MemoryStore
from support.there import there

REPORT = PassReport(
    at=START,
    seconds=1.23456,
    statuses={"RUNNING": 7, "RUNNING (WARNING)": 2, "FAILED": 1},
    finished=40,
    unreadable={"run-9": "not allowed"},
    unreadable_count=1,
    sent=3,
    failed=1,
    pending=2,
    requests={"LIST": 2, "GET": 5, "PUT": 1, "DELETE": 0},
    oldest_observation_s=59.5,
)


def written(store: MemoryStore) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(store.held[SWEEP_MARK].body)
    return document


def test_it_says_when_how_long_what_was_seen_and_what_it_cost() -> None:
    store = MemoryStore()
    report = MarkWriter(store, FleetPolicy(interval_s=30.0), Shard("a", "m")).write(REPORT)
    assert report.requests == {"LIST": 2, "GET": 6, "PUT": 2, "DELETE": 0}, "the mark's own two are in it"
    mark = written(store)
    recent = mark.pop("recent")
    assert mark.pop("dollars") == pytest.approx((4 * 0.005 + 6 * 0.0004) / 1000)
    assert mark == {
        "at": "2026-01-01T12:00:00Z",
        "interval_s": 30.0,
        "pass_s": 30.0,
        "seconds": 1.235,
        "runs": 50,
        "statuses": {"RUNNING": 7, "RUNNING (WARNING)": 2, "FAILED": 1},
        "requests": {"LIST": 2, "GET": 6, "PUT": 2, "DELETE": 0},
        "plan": "list",
        "complete": True,
        "oldest_observation_s": 59.5,
        "unreadable": 1,
        "alerts": {"sent": 3, "failed": 1, "pending": 2},
        "version": __version__,
        "shard": {"after": "a", "until": "m"},
    }
    assert recent == [{"at": "2026-01-01T12:00:00Z", "requests": [2, 6, 2, 0], "active": 9, "runs": 50, "part": True}]


def paid() -> MemoryStore:
    store = MemoryStore()
    store.in_s3()
    return store


def test_where_writing_costs_money_every_twentieth_minute_is_marked_and_tells_of_all_passes_since() -> None:
    store = paid()
    mark, asked = MarkWriter(store, FleetPolicy()), []
    for _ in range(61):
        store.pass_time(60)
        asked.append(mark.write(replace(REPORT, at=store.now)).requests["PUT"] - REPORT.requests["PUT"])
    assert [minute for minute, count in enumerate(asked) if count] == [0, 20, 40, 60]
    assert store.calls == [("read", SWEEP_MARK), *[("write", SWEEP_MARK)] * 4]
    assert (written(store)["interval_s"], written(store)["pass_s"]) == (1200.0, 60.0)
    found = there(read_mark(store))
    assert (found.interval_s, found.late_s) == (60.0, 3600.0)
    assert [short.requests["PUT"] for short in found.recent] == [1 + count for count in asked[-RECENT:]]


@given(
    interval_s=st.floats(10.0, 7200.0),
    late=st.lists(st.floats(0.5, 1.5), min_size=1, max_size=20),
    url=st.sampled_from(["s3://bucket/runs", "memory://runs"]),
)
def test_while_passes_are_made_nobody_takes_them_for_stopped(interval_s: float, late: list[float], url: str) -> None:
    store = MemoryStore()
    store.url = url
    mark, until = MarkWriter(store, FleetPolicy(interval_s=interval_s)), store.now + timedelta(hours=5)
    for number in range(250):
        if store.now > until:
            break
        mark.write(replace(REPORT, at=store.now))
        store.pass_time(interval_s * late[number % len(late)])
        # As every reader has it: three of what it says is too long.
        age_s = (store.now - store.held[SWEEP_MARK].modified).total_seconds()
        assert age_s < 3 * written(store)["interval_s"]


def test_the_mark_of_an_earlier_version_was_left_by_each_pass() -> None:
    found = there(parse_mark(b'{"at": "2026-01-01T12:00:00Z", "interval_s": 30, "recent": []}'))
    assert (found.interval_s, found.late_s) == (30.0, 90.0)


def test_a_process_that_makes_one_pass_goes_on_from_the_last_ones() -> None:
    store = MemoryStore()
    for minute in range(RECENT + 10):
        MarkWriter(store, FleetPolicy()).write(replace(REPORT, at=START + timedelta(minutes=minute)))
    found = there(read_mark(store))
    assert [each.at for each in found.recent] == [START + timedelta(minutes=m) for m in range(10, RECENT + 10)]
    assert found.recent[-1].requests == {"LIST": 2, "GET": 6, "PUT": 2, "DELETE": 0}
    assert (found.recent[-1].active, found.recent[-1].runs) == (9, 50)


def test_the_largest_mark_is_read_by_everybody() -> None:
    store = MemoryStore()
    mark = MarkWriter(store, FleetPolicy(interval_s=1 / 3), Shard("a" * 200, "b" * 200))
    most = 10**12
    large = replace(
        REPORT,
        at=START.replace(microsecond=123456),
        statuses=dict.fromkeys(["RUNNING", "RUNNING (WARNING)", "SUCCEEDED", "FAILED", "TIMED_OUT"], most),
        requests=dict.fromkeys(["LIST", "GET", "PUT", "DELETE"], most),
        notes=("x" * 100_000,),
    )
    for _ in range(RECENT + 5):
        mark.write(large)
    assert len(store.held[SWEEP_MARK].body) < LIMIT_BYTES
    assert len(there(read_mark(store)).recent) == RECENT


def test_a_mark_that_cannot_be_written_is_a_note_and_stops_nothing() -> None:
    store = paid()
    store.refuse("any", DeniedError("access denied"))
    mark = MarkWriter(store, FleetPolicy())
    assert "access denied" in mark.write(REPORT).notes[-1]
    store.heal()
    report = mark.write(replace(REPORT, at=START + timedelta(minutes=1)))
    assert (report.notes, report.requests["PUT"]) == ((), 2), "the next pass leaves it, although writing costs money"
    assert len(written(store)["recent"]) == 2


def test_death_in_the_middle_leaves_the_old_mark_or_the_new_one() -> None:
    for before in (True, False):
        store = MemoryStore()
        MarkWriter(store, FleetPolicy()).write(REPORT)
        later = replace(REPORT, at=START + timedelta(minutes=1))
        store.die_at(1, before=before)
        with pytest.raises(Killed):
            MarkWriter(store, FleetPolicy()).write(later)
        store.heal()
        assert there(read_mark(store)).at == (START if before else later.at)


DAMAGED = [
    pytest.param(b"", id="nothing"),
    pytest.param(b"[" * 100_000, id="deeper than a parser goes"),
    pytest.param(b'{"at": "2026-01-01T12:00:00Z", "interval_s": 60, "recent": [{"at"', id="cut off"),
    pytest.param(b'{"at": "2026-01-01T12:00:00Z"}', id="without an interval"),
    pytest.param(b'{"at": "2026-01-01T12:00:00Z", "interval_s": NaN}', id="an interval that is no number"),
    pytest.param(b'{"at": "2026-01-01T12:00:00Z", "interval_s": -5}', id="a negative interval"),
    pytest.param(b'{"at": "yesterday", "interval_s": 60}', id="no time"),
]


@pytest.mark.parametrize("body", DAMAGED)
def test_what_is_no_mark_is_none_and_is_written_anew(body: bytes) -> None:
    assert parse_mark(body) is None
    store = MemoryStore()
    store.write(SWEEP_MARK, body)
    assert MarkWriter(store, FleetPolicy()).write(REPORT).notes == ()
    assert len(written(store)["recent"]) == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=10,
)
shorts = st.fixed_dictionaries(
    {}, optional={"at": json_values, "requests": json_values, "active": json_values, "runs": json_values}
)


@given(recent=st.lists(shorts | json_values, max_size=5) | json_values, interval=json_values)
def test_whatever_somebody_wrote_there_is_counts_or_nothing(recent: object, interval: object) -> None:
    body = json.dumps({"at": "2026-01-01T12:00:00Z", "interval_s": interval, "recent": recent}).encode()
    found = parse_mark(body)
    for each in found.recent if found is not None else ():
        assert all(0 <= count <= 10**9 for count in (*each.requests.values(), each.active, each.runs))


def test_a_store_that_does_not_answer_is_no_missing_mark() -> None:
    store = MemoryStore()
    store.refuse("any", DeniedError("access denied"))
    with pytest.raises(StoreError):
        read_mark(store)
