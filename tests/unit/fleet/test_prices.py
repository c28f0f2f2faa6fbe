"""What requests cost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.stores.kind import S3_LIST

ROWS = [
    pytest.param({"LIST": 1000}, 0.005, id="a thousand listings"),
    pytest.param({"GET": 1000}, 0.0004, id="a thousand reads"),
    pytest.param({"DELETE": 1000}, 0.0, id="deletions are free"),
    pytest.param({"OPTIONS": 1000}, 0.0004, id="any other kind is of the cheap tier"),
    pytest.param({"LIST": 500 * 60 * 24 * 30}, 108.0, id="100,000 runs listed page by page each minute for a month"),
]


@pytest.mark.parametrize(("requests", "expected"), ROWS)
def test_a_price(requests: dict[str, int], expected: float) -> None:
    assert S3_LIST.dollars(requests) == pytest.approx(expected)


@given(*[st.dictionaries(st.sampled_from([*S3_LIST.per_request, "OTHER"]), st.integers(0, 10**6)) for _ in "ab"])
def test_two_bills_together_are_one(one: dict[str, int], other: dict[str, int]) -> None:
    together = {kind: one.get(kind, 0) + other.get(kind, 0) for kind in {*one, *other}}
    assert S3_LIST.dollars(one) + S3_LIST.dollars(other) == pytest.approx(S3_LIST.dollars(together))
    assert S3_LIST.dollars(one) >= 0
