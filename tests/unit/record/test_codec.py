"""What the record and the ledger of groups hold at their worst is valid JSON, and far below what is read of it."""

import json
import math
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.alert import Message
from lastbeat.model.cause import Evidence
from lastbeat.model.figures import Figures
from lastbeat.model.group import LEDGER_ID, Group, Ledger, Member
from lastbeat.model.record import Record, Transition
from lastbeat.model.state import State
from lastbeat.model.status import Event, Status
from lastbeat.watch.decide.groups import MEMBER_LIMIT
from lastbeat.watch.effects.outbox import enqueue
from lastbeat.watch.record.codec import LEDGER_LIMIT_BYTES, RECORD_LIMIT_BYTES, decode, decode_record, encode

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_a_loss_that_is_not_finite_is_valid_json(loss: float) -> None:
    message = Message("run", Event.FAILED, Status.FAILED, "boom", NOW, figures=Figures(loss=loss))
    body = encode(enqueue(Record("run"), message))
    read = decode_record(body).outbox[0].message.loss
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
    assert decode_record(body) == record
    assert record.dropped == 40


def test_the_largest_group_fits() -> None:
    everybody = {
        f"{run:0200d}": Member(waiting=(10**6,), told={10**6 + n: n for n in range(10)}) for run in range(MEMBER_LIMIT)
    }
    ledger = Ledger(LEDGER_ID, groups=(Group(1, NOW, NOW, members=everybody),))
    body = encode(ledger)
    assert len(body) < LEDGER_LIMIT_BYTES
    assert decode(body, Ledger) == ledger


AT = "2026-01-01T12:00:00Z"
REMOTE = [
    pytest.param(True, {}, False, id="a restart that waits"),
    pytest.param(True, {"claims": 1, "claimed_by": "x", "claimed_until": AT}, False, id="one that is claimed"),
    pytest.param(True, {"claims": 2, "in_doubt": True}, False, id="one of which nobody knows whether it happened"),
    pytest.param(True, {"done_at": AT}, True, id="one that was made"),
    pytest.param(False, {"done_at": AT}, False, id="no restart"),
]


@pytest.mark.parametrize(("restart", "action", "stands"), REMOTE)
def test_what_an_earlier_build_decided_without_the_launcher_is_left_to_the_supervisor(
    restart: bool, action: dict[str, Any], stands: bool
) -> None:
    ruling = {"number": 0, "restart": restart, "reason": "nccl", "at": AT, "attempt": "1/3", "afar": True}
    asked = {"name": "run-r1", "kind": "restart", "asked_at": AT, "asked_by": "", "why": "nccl", **action}
    document = {
        "schema": 1, "run_id": "run", "ruling": ruling, "restarts": [{"at": AT, "mode": "crash", "error_type": "nccl"}],
        "actions": [asked | {"details": {"number": "1", "unreviewed": "yes"}}],
    }  # fmt: skip
    record = decode_record(json.dumps(document).encode())
    assert (record.ruling is not None) is stands
    assert (len(record.actions), len(record.restarts)) == ((1, 1) if stands or not restart else (0, 0))
