"""The JSON document is valid, stable and bounded whatever the message."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from lastbeat.alerts.document import MAX_BYTES, document, encode
from lastbeat.model.alert import Message
from support.laws import examples
from support.messages import FAILED, GROUP, hostile_messages


def strict(text: str) -> Any:
    """JSON as the standard has it: no NaN."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


@given(hostile_messages)
@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_message_is_bounded_json_with_all_fields(message: Message) -> None:
    text = encode(message)
    assert len(text.encode()) <= MAX_BYTES
    assert strict(text).keys() == document(FAILED).keys()


@pytest.mark.parametrize("filling", ["🔥", '"', "\\", "字", "\ufffd"])
def test_the_largest_message_is_within_the_bound(filling: str) -> None:
    text = filling * 20_000
    largest = replace(
        FAILED, run_id=text, reason=text, cause=text, action=text, instance_id=text, phase=text, where=text,
        link=text, key=text, notes=(text,) * 100, frames=(text,) * 9, log_tail=(text,) * 200, stack=(text,) * 200,
        conditions={f"{n}{text}": text for n in range(100)}, members=(text,) * 200, member_count=2**62,
        member_notes=(text,) * 200, log_name=text, checkpoint=text, restart=text,
        shared={f"{n}{text}": text for n in range(100)},
    )  # fmt: skip
    assert len(encode(largest).encode()) <= MAX_BYTES


def test_a_document_reads_as_the_message_was() -> None:
    written = strict(encode(FAILED))
    assert written["version"] == 1
    assert written["run_id"] == "mistral-20250804-171621"
    assert (written["event"], written["severity"], written["status"]) == ("FAILED", "critical", "FAILED")
    assert written["at"] == "2025-08-04T17:16:21Z"
    assert (written["confidence"], written["second_cause"]) == (0.9, None)
    assert written["evidence"] == {
        "file": "rank3.log",
        "line": 48112,
        "text": "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB <!channel>",
        "rank": 3,
        "host": "node-17",
        "time": "2025-08-04T17:15:41Z",
    }
    assert [line.split(" ")[0] for line in written["also_seen"]] == ["then", "then"]
    assert (written["step"], written["total_steps"], written["loss"]) == (1200, 5000, 2.34567)
    assert written["conditions"] == {"progress_stale": "progress.json is 14m old"}
    assert (written["member_count"], written["members"], written["shared"]) == (0, [], {})
    assert written["members_left_out"] == 0
    assert written["log_tail"][-3] == "Traceback (most recent call last):"


MANY = tuple(f"sweep-qwen2.5-14b-lr3e-5-seed{number}" for number in range(20_000))
ALERTS_ABOUT_MANY = [
    ("all of a few", MANY[:3], 3, 3),
    ("all of more than people are shown", MANY[:52], 52, 52),
    ("all of thousands", MANY[:4000], 4000, 4000),
    ("those that were recorded, of more", MANY[:50], 93, 50),
    ("the longest ids whole", ("r" * 200,) * 60, 60, 60),
]


@pytest.mark.parametrize(
    ("members", "count", "named"), [pytest.param(*row, id=name) for name, *row in ALERTS_ABOUT_MANY]
)
def test_an_alert_about_many_runs_names_all_that_there_is_room_for(
    members: tuple[str, ...], count: int, named: int
) -> None:
    written = strict(encode(replace(GROUP, members=members, member_count=count)))
    assert (written["run_id"], written["member_count"]) == ("_groups", count)
    assert written["members"] == list(members[:named])
    assert written["members_left_out"] == count - named
    assert written["shared"]["Zone"] == "us-east-1a (93 of 97)"


def test_what_there_is_no_room_for_is_counted() -> None:
    text = encode(replace(GROUP, members=MANY, member_count=len(MANY)))
    written = strict(text)
    assert MAX_BYTES - 100 < len(text.encode()) <= MAX_BYTES
    assert written["members"] == list(MANY[: len(written["members"])])
    assert len(written["members"]) + written["members_left_out"] == len(MANY)
