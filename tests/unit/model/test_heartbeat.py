"""Documents as training scripts, shells and accidents write them."""

import json
import math
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.document_field import RANK
from lastbeat.model.heartbeat import DOCUMENT_LIMIT_BYTES, Heartbeat, read_heartbeat
from lastbeat.model.runid import METADATA, PROGRESS
from lastbeat.stores.port import Blob
from lastbeat.views.heartbeats import fields_of

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def read(body: bytes, size: int | None = None) -> Heartbeat:
    return read_heartbeat(Blob(body, len(body) if size is None else size, NOW, "v1"))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(b"", "empty", id="empty"),
        pytest.param(b'{"step": 5, "lo', "not JSON", id="truncated"),
        pytest.param(b"\x80\x04\x95\x00\x00", "not UTF-8", id="a pickle"),
        pytest.param(b"[1, 2]", "list where an object belongs", id="a list"),
        pytest.param(b"null", "null where an object belongs", id="null"),
        pytest.param(b"[" * 100_000, "too large", id="nested without end"),
        pytest.param(b'{"step": ' + b"9" * 10_000 + b"}", "too large", id="a number without end"),
    ],
)
def test_what_cannot_be_understood_says_why(body: bytes, words: str) -> None:
    heartbeat = read(body)
    assert words in (heartbeat.fault or "")
    assert heartbeat.modified == NOW


def test_a_5_gb_document_is_not_read() -> None:
    heartbeat = read(b'{"a": 1' + b" " * (DOCUMENT_LIMIT_BYTES - 7), size=5_000_000_000)
    assert "5,000,000,000 bytes" in (heartbeat.fault or "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("2025-08-04T17:16:21Z", "2025-08-04T17:16:21+00:00", id="Z"),
        pytest.param("2025-08-04T17:16:21", "2025-08-04T17:16:21+00:00", id="naive is UTC"),
        pytest.param("2025-08-04 17:16:21", "2025-08-04T17:16:21+00:00", id="a space for the T"),
        pytest.param("2025-08-04T19:16:21+02:00", "2025-08-04T17:16:21+00:00", id="offset"),
        pytest.param("2025-08-04T19:16:21+0200", "2025-08-04T17:16:21+00:00", id="offset as date +%z writes it"),
        pytest.param("2025-08-04T13:16:21-04", "2025-08-04T17:16:21+00:00", id="offset in hours"),
        pytest.param("2025-08-04T17:16:21.123456789Z", "2025-08-04T17:16:21.123456+00:00", id="nanoseconds"),
        pytest.param(
            "2025-08-04T17:16:21,5Z", "2025-08-04T17:16:21.500000+00:00", id="a comma, as date -Ins writes it"
        ),
        pytest.param("2025-08-04T17:16Z", "2025-08-04T17:16:00+00:00", id="minutes"),
        pytest.param("2025-08-04 17:16:21 UTC", "2025-08-04T17:16:21+00:00", id="UTC in letters"),
        pytest.param(1754327781, "2025-08-04T17:16:21+00:00", id="epoch seconds"),
        pytest.param(1754327781.5, "2025-08-04T17:16:21.500000+00:00", id="epoch seconds with a fraction"),
        pytest.param(1754327781000, "2025-08-04T17:16:21+00:00", id="epoch milliseconds"),
        pytest.param(1754327781000000, "2025-08-04T17:16:21+00:00", id="epoch microseconds"),
        pytest.param(1754327781000000000, "2025-08-04T17:16:21+00:00", id="epoch nanoseconds"),
        pytest.param("1754327781", "2025-08-04T17:16:21+00:00", id="epoch as text"),
        pytest.param("20250804T171621Z", "2025-08-04T17:16:21+00:00", id="basic form"),
        pytest.param("2025-08-04t17:16:21z", "2025-08-04T17:16:21+00:00", id="small letters"),
        pytest.param("2025-08-04", "2025-08-04T00:00:00+00:00", id="a day"),
        pytest.param("yesterday", None, id="words"),
        pytest.param("2025-13-45T99:99:99Z", None, id="no such day"),
        pytest.param("0001-01-01T00:00:00+14:00", None, id="before time"),
        pytest.param(None, None, id="null"),
        pytest.param(True, None, id="true"),
        pytest.param(5, None, id="a step is no time"),
        pytest.param(1e300, None, id="far too large"),
        pytest.param([], None, id="a list"),
        pytest.param("٢٠٢٥-08-04T17:16:21Z", None, id="digits of another script"),
    ],
)
def test_timestamps(text: object, expected: str | None) -> None:
    own = read(json.dumps({"last_update": text}).encode()).own_time
    assert (own.isoformat() if own else None) == expected


@pytest.mark.parametrize("key", ["last_update", "last_updated", "timestamp"])
def test_every_name_of_a_documents_own_time_is_accepted(key: str) -> None:
    assert read(json.dumps({key: "2025-08-04T17:16:21Z"}).encode()).own_time is not None


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("step", "120", 120),
        ("step", 120.0, 120),
        ("step", 1.5, None),
        ("step", True, None),
        ("step", 1e30, None),
        ("step", {"a": 1}, None),
        ("total_steps", None, None),
        ("loss", "2.5", 2.5),
        ("loss", None, None),
        ("loss", float("inf"), math.inf),
        ("loss", "nan", math.nan),
        ("loss", 10**400, None),
        ("attempt", "2", 2),
        ("phase", 7, "7"),
        ("phase", ["x"], None),
        ("phase", "x" * 5000, "x" * 200),
    ],
)
def test_fields_are_read_as_far_as_they_make_sense(field: str, value: object, expected: object) -> None:
    got = getattr(read(json.dumps({field: value}).encode()), field)
    assert got == expected or (isinstance(expected, float) and math.isnan(expected) and math.isnan(got))


def test_a_byte_order_mark_is_no_fault() -> None:
    assert read(b'\xef\xbb\xbf{"step": 5}').step == 5


@given(st.binary(max_size=300))
def test_no_bytes_can_break_it(body: bytes) -> None:
    heartbeat = read(body)
    assert heartbeat.modified == NOW


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
_fields = st.sampled_from(sorted({each.name for file in (METADATA, PROGRESS, RANK) for each in fields_of(file)}))


@given(st.dictionaries(_fields, _json, max_size=8))
def test_no_values_can_break_it(document: dict[str, object]) -> None:
    heartbeat = read(json.dumps(document).encode("utf-8", "surrogatepass"))
    assert heartbeat.step is None or isinstance(heartbeat.step, int)
    assert heartbeat.own_time is None or heartbeat.own_time.tzinfo is not None


def test_where_it_runs_is_read_and_bounded() -> None:
    heartbeat = read(json.dumps({"zone": "us-east-1a", "instance_type": "p5.48xlarge", "host": "h" * 500}).encode())
    assert (heartbeat.zone, heartbeat.instance_type, heartbeat.host) == ("us-east-1a", "p5.48xlarge", "h" * 200)
    assert read(b'{"zone": ["x"]}').zone is None
