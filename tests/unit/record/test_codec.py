"""The record survives being written down, whatever is in it, and stays small."""

import math
from dataclasses import replace
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.alert import Alert, Delivery, Message
from lastbeat.model.cause import Cause, Evidence
from lastbeat.model.codec import DamagedError
from lastbeat.model.figures import Figures
from lastbeat.model.record import Attempt, Finding, HeartbeatMemory, Record, ToldWarning, Transition
from lastbeat.model.state import RecordedCause, State
from lastbeat.model.status import Event, Status
from lastbeat.watch.effects.outbox import enqueue
from lastbeat.watch.record.codec import RECORD_LIMIT_BYTES, encode
from lastbeat.watch.record.codec import decode_record as decode

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)

times = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(timezone.utc))  # noqa: DTZ001
maybe_time = st.none() | times
text = st.text(max_size=30)
maybe_text = st.none() | text
number = st.integers(0, 10**15)
seconds = st.floats(-1e9, 1e9)
statuses = st.sampled_from(Status)
evidence = st.builds(
    Evidence, file=text, line=number, text=text, rank=st.none() | number, host=maybe_text, time=maybe_time
)
causes = st.builds(
    Cause, error_type=text, evidence=evidence, confidence=st.floats(0, 1), subsystem=maybe_text,
    restartable=st.none() | st.booleans(), hint=text, signal=text,
)  # fmt: skip
states = st.builds(
    State, status=statuses, reason=text, cause=maybe_text, action=maybe_text,
    conditions=st.dictionaries(text, text, max_size=2),
    explained=st.none() | st.builds(RecordedCause, cause=causes, also_seen=st.tuples(text), second=st.none() | causes),
)  # fmt: skip
messages = st.builds(
    Message, run_id=text, event=st.sampled_from(Event), status=statuses, reason=text, at=times, attempt=number,
    cause=maybe_text, confidence=st.none() | st.floats(0, 1), evidence=st.none() | evidence, also_seen=st.tuples(text),
    second_cause=maybe_text,
    action=maybe_text, conditions=st.dictionaries(text, text, max_size=2), instance_id=maybe_text,
    phase=maybe_text, duration_s=st.none() | seconds,
    figures=st.builds(Figures, st.none() | number, st.none() | number, st.none() | st.floats(allow_nan=False)),
    last_beat_at=maybe_time, log_tail=st.tuples(text),
    stack=st.tuples(text), notes=st.tuples(text), where=text, link=maybe_text, key=text, members=st.tuples(text),
    member_count=number, shared=st.dictionaries(text, text, max_size=2),
)  # fmt: skip
deliveries = st.builds(
    Delivery, tries=number, sent_at=maybe_time, failed=maybe_text, last_error=maybe_text, not_before=maybe_time,
    claimed_until=maybe_time, claimed_by=maybe_text, told_by=maybe_text,
)  # fmt: skip
alerts = st.builds(
    Alert, number=number, event=st.sampled_from(Event), created_at=times, message=messages,
    deliveries=st.dictionaries(text, deliveries, max_size=2),
)  # fmt: skip
memories = st.builds(
    HeartbeatMemory, modified=times, own_time=maybe_time, alive_at=maybe_time, skew_s=seconds, lag_s=seconds,
    suspect=st.booleans(),
    step=st.none() | number, step_at=maybe_time, missing_since=maybe_time, gap_s=seconds,
)  # fmt: skip
records = st.builds(
    Record, run_id=text, seq=number, written_at=maybe_time, writer=text, first_looked_at=maybe_time,
    state=st.none() | states, since=maybe_time, flapping_since=maybe_time,
    attempt=st.builds(Attempt, number=number, start_time=maybe_time,
                      start_skew_s=st.none() | st.tuples(seconds, seconds), declared=st.none() | number,
                      earlier_starts=st.tuples(times), spent=st.tuples(text)),
    metadata=st.none() | memories, progress=st.none() | memories,
    log=st.none() | memories, log_lines=st.dictionaries(text, times, max_size=2),
    warned=st.dictionaries(text, st.builds(ToldWarning, line=number, until=times), max_size=2),
    finding=st.none() | st.builds(Finding, line=text, seen_at=times, alone=st.booleans(), acquitted=st.booleans(),
                                  doubted=st.booleans()),
    sentinels=st.tuples(text), continues=maybe_text, transitions=number,
    history=st.tuples(st.builds(Transition, number=number, at=times, before=st.none() | statuses, after=statuses,
                                reason=text, attempt=number, cause=maybe_text, silenced=maybe_text)),
    outbox=st.tuples(alerts), alerts=number, delivered=number, dropped=number,
    conditional_writes=st.none() | st.booleans(),
)  # fmt: skip


@given(records)
def test_what_is_written_is_what_is_read(record: Record) -> None:
    assert decode(encode(record)) == record


@given(st.binary(max_size=200) | records.map(encode).flatmap(lambda b: st.integers(0, len(b) - 1).map(lambda n: b[:n])))
def test_anything_else_is_refused_with_a_reason(body: bytes) -> None:
    with pytest.raises(DamagedError) as refused:
        decode(body)
    assert str(refused.value)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_a_loss_that_is_not_finite_is_valid_json(loss: float) -> None:
    message = Message("run", Event.FAILED, Status.FAILED, "boom", NOW, figures=Figures(loss=loss))
    body = encode(enqueue(Record("run"), message))
    read = decode(body).outbox[0].message.loss
    assert read == loss or (read is not None and math.isnan(read) and math.isnan(loss))
    assert b": NaN" not in body
    assert b": Infinity" not in body


def test_the_worst_record_stays_far_below_what_is_read_of_it() -> None:
    wide = "\N{PILE OF POO}"
    message = Message(
        "r" * 200, Event.FAILED, Status.FAILED, wide * 300, NOW, phase=wide * 200, instance_id=wide * 200,
        log_tail=(wide * 400,) * 10,
        stack=(wide * 400,) * 5, conditions=dict.fromkeys("abcdef", wide * 300), action="x" * 300,
        evidence=Evidence("f" * 200, 7, wide * 500, host="h" * 200), also_seen=(wide * 300,) * 3,
    )  # fmt: skip
    record = Record("r" * 200, State(Status.RUNNING, wide * 300))
    for number in range(90):
        record = enqueue(record, message)
        transition = Transition(number, NOW, Status.RUNNING, Status.FAILED, wide * 300, 1)
        record = replace(record, history=(*record.history, transition)[-50:])
    body = encode(record)
    assert len(body) < RECORD_LIMIT_BYTES
    assert decode(body) == record
    assert record.dropped == 40
