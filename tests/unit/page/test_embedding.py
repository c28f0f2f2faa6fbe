"""The data in a page: whatever runs wrote it stays data, and it stays small."""

import base64
import gzip
import json
import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.views.page.assembling import page
from lastbeat.views.page.embedding import fitted, packed, squeezed

HOSTILE = [
    pytest.param("</script><script>alert(1)</script>", id="the end of a script"),
    pytest.param("<!--<script>", id="what makes a browser overlook that end"),
    pytest.param("]]>\u2028\u2029'\"`${x}\\", id="quotes and line separators"),
    pytest.param("\ud800", id="half a character"),
    pytest.param("\0\x1b[31m", id="controls"),
]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_run_wrote_cannot_leave_its_place(text: str) -> None:
    html = page(data={"fleet": {"runs": [{"reason": text}]}, "runs": {}}).html
    data = re.search(rb'<script type="application/octet-stream" id="data">([^<]*)</script>', html)
    assert data is not None
    assert re.fullmatch(rb"[A-Za-z0-9+/=]+", data[1])
    read = json.loads(gzip.decompress(base64.b64decode(data[1])))
    assert read["fleet"]["runs"][0]["reason"] == text.replace("\ud800", "?")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), json_values, max_size=4))
def test_what_is_packed_is_unpacked_the_same(data: dict[str, Any]) -> None:
    try:
        read = json.loads(gzip.decompress(base64.b64decode(packed(data))))
    except UnicodeEncodeError:
        pytest.fail("a key was no text")
    assert read == json.loads(json.dumps(data))
    assert packed(data) == packed(data)


def test_no_number_gets_in_that_json_does_not_have() -> None:
    with pytest.raises(ValueError, match="JSON"):
        packed({"loss": float("nan")})


def noise(size: int, seed: int) -> str:
    """Text that cannot be made smaller by more than a quarter."""
    return base64.b64encode(random.Random(seed).randbytes(size)).decode()


def fleet(rows: int, each: int = 0) -> dict[str, Any]:
    return {
        "notes": [],
        "counts": {"RUNNING": rows},
        "runs": [{"rank": n, "text": noise(each, n)} for n in range(rows)],
    }


def ids(count: int) -> list[str]:
    return [f"run-{n}" for n in range(count)]


def test_a_small_fleet_is_there_with_all_details() -> None:
    runs = [(f"run-{n}", {"log": noise(50, n)}) for n in range(5)]
    data = fitted(fleet(20), runs, needy=ids(3))
    assert list(data["runs"]) == ids(5)
    assert data["fleet"] == fleet(20)


def test_details_are_taken_in_their_order_as_far_as_there_is_room_and_the_rest_is_said() -> None:
    runs = [(f"run-{n}", {"log": noise(9000, n)}) for n in range(10)]
    data = fitted(fleet(3), runs, needy=ids(12), limit_bytes=50_000)
    assert list(data["runs"]) == ids(5)
    assert data["fleet"]["notes"] == ["This page has no details of 7 runs of those that need people."]
    assert len(squeezed(data)) <= 50_000
    assert fitted(fleet(3), runs, needy=ids(5), limit_bytes=50_000)["fleet"]["notes"] == []


def test_where_not_even_the_rows_fit_those_that_need_people_least_are_left_out() -> None:
    data = fitted(fleet(400, each=300), [("run-0", {"log": noise(50_000, 1)})], needy=ids(1), limit_bytes=60_000)
    shown = data["fleet"]["runs"]
    assert [row["rank"] for row in shown] == list(range(len(shown)))
    assert 100 < len(shown) < 400
    assert data["fleet"]["counts"] == {"RUNNING": 400}
    assert f"no room for {400 - len(shown)} runs" in data["fleet"]["notes"][0]
    assert len(squeezed(data)) <= 61_000
