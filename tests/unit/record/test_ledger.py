"""The ledger of groups survives being written down, and stays far below what is read of it."""

import json
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.alert import Message
from lastbeat.model.codec import DamagedError
from lastbeat.model.group import LEDGER_ID, Group, Ledger, Member, MemberState, SingleTimeout
from lastbeat.model.status import Event, Status
from lastbeat.watch.decide.groups import MEMBER_LIMIT
from lastbeat.watch.effects.outbox import enqueue
from lastbeat.watch.record.codec import LEDGER_LIMIT_BYTES, decode, encode

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)

times = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(timezone.utc))  # noqa: DTZ001
number = st.integers(0, 10**15)
numbers = st.lists(number, max_size=3).map(tuple)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
counts = st.dictionaries(text, number, max_size=3)
members = st.builds(
    Member,
    state=st.sampled_from(MemberState),
    waiting=numbers,
    back=numbers,
    told=st.dictionaries(number, number, max_size=3),
)
groups = st.builds(
    Group, number=number, opened_at=times, grew_at=times, told_at=st.none() | times, closed_at=st.none() | times,
    members=st.dictionaries(text, members, max_size=3), facts=st.dictionaries(text, counts, max_size=3), having=counts,
)  # fmt: skip
ledgers = st.builds(
    Ledger, run_id=st.just(LEDGER_ID), alerts=number, opened=number, groups=st.lists(groups, max_size=2).map(tuple),
    alone=st.lists(st.builds(SingleTimeout, text, number, times, st.booleans()), max_size=2).map(tuple),
)  # fmt: skip


@given(ledgers)
def test_what_is_written_is_what_is_read(ledger: Ledger) -> None:
    with_alert = enqueue(ledger, Message(LEDGER_ID, Event.TIMED_OUT, Status.TIMED_OUT, "97 runs", NOW))
    assert decode(encode(with_alert), Ledger) == with_alert


@given(st.binary(max_size=200) | ledgers.map(encode).flatmap(lambda b: st.integers(0, len(b) - 1).map(lambda n: b[:n])))
def test_anything_else_is_refused_with_a_reason(body: bytes) -> None:
    with pytest.raises(DamagedError):
        decode(body, Ledger)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("groups", None, id="no list"),
        pytest.param("groups", [1], id="no groups in it"),
        pytest.param("groups", [{"number": 1}], id="half a group"),
        pytest.param("alone", [["run-1"]], id="half a row"),
        pytest.param("opened", "many", id="no number"),
    ],
)
def test_a_damaged_field_is_refused_with_a_reason(field: str, value: object) -> None:
    document = json.loads(encode(Ledger(LEDGER_ID)))
    with pytest.raises(DamagedError, match=field):
        decode(json.dumps({**document, field: value}).encode(), Ledger)


def test_the_largest_group_fits() -> None:
    everybody = {
        f"{run:0200d}": Member(waiting=(10**6,), told={10**6 + n: n for n in range(10)}) for run in range(MEMBER_LIMIT)
    }
    ledger = Ledger(LEDGER_ID, groups=(Group(1, NOW, NOW, members=everybody),))
    assert len(encode(ledger)) < LEDGER_LIMIT_BYTES
