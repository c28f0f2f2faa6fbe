"""Blocks, bars and names in a terminal."""

import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.views.lines import signs
from lastbeat.views.lines.paint import cells
from lastbeat.views.lines.signs import UTF8, ascii_only, harmless, middle_cut, name, padded, spark

SPARKS = [
    pytest.param((1.0, 2.0, 3.0), 8, "▁▅█", id="from the least to the greatest"),
    pytest.param((None, math.nan, math.inf), 8, "", id="nothing of it is a number"),
    pytest.param((1.0, None, 2.0), 8, "▁·█", id="a gap is seen"),
    pytest.param((5.0, 5.0), 8, "▅▅", id="what stays is in the middle"),
    pytest.param((4.0, 4.0, 1.0, 1.0), 2, "█▁", id="neighbours are brought together"),
    pytest.param((1e308, -1e308, 0.0), 8, "█▁▅", id="differences beyond all numbers"),
    pytest.param(
        (1000.0, *(10.0 - i for i in range(10))), 20, "█▆▅▅▄▃▃▂▂▁▁", id="one great value does not flatten all"
    ),
]


@pytest.mark.parametrize(("values", "columns", "drawn"), SPARKS)
def test_a_sparkline(values: tuple[float | None, ...], columns: int, drawn: str) -> None:
    assert spark(values, columns, UTF8) == drawn


def test_a_sparkline_above_zero_shows_that_little_changes() -> None:
    assert set(spark((10.0, 10.1, 10.0), 8, UTF8, 0.0)) <= set("▇█")


@given(st.lists(st.none() | st.floats(), max_size=60), st.integers(-1, 30), st.booleans())
def test_a_sparkline_is_never_wider_than_asked(values: list[float | None], columns: int, plain: bool) -> None:
    drawn = spark(values, columns, ascii_only() if plain else UTF8)
    assert cells(drawn) <= max(columns, 0)
    assert not plain or drawn.isascii()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), st.integers(0, 40))
def test_a_range_holds_the_least(values: list[float], least_count: int) -> None:
    low, high, beyond = signs.usual(values, least_count=least_count)
    assert low == min(values)
    assert high <= max(values) or not beyond
    assert beyond == (high < max(values))


@given(st.text(), st.integers(1, 60))
def test_what_is_padded_is_as_wide_as_asked(text: str, columns: int) -> None:
    assert cells(padded(harmless(text), columns)) == columns


@given(st.text(alphabet="abcdefghij日-", min_size=1, max_size=80), st.integers(4, 60))
def test_what_is_cut_in_the_middle_fits_and_keeps_its_ends(text: str, columns: int) -> None:
    cut = middle_cut(text, columns)
    assert cells(cut) <= columns
    if cut != text:
        assert cut[0] in {text[0], "…"}
        assert cut[-1] in {text[-1], "…"}


STREAMS = [
    pytest.param("utf-8", UTF8, id="UTF-8 has blocks"),
    pytest.param("iso8859-1", ascii_only("iso8859-1"), id="neither has Latin-1"),
]


@pytest.mark.parametrize(("encoding", "expected"), STREAMS)
def test_signs_are_those_of_the_encoding(encoding: str, expected: signs.Signs) -> None:
    assert signs.of(io.TextIOWrapper(io.BytesIO(), encoding=encoding)) == expected


FITTED = [
    pytest.param("ascii", "läuft … 日", "l?uft ~ ??", id="what ASCII does not have, as wide as it was"),
    pytest.param("iso8859-1", "läuft … 日", "läuft ~ ??", id="what Latin-1 has stays"),
]


@pytest.mark.parametrize(("encoding", "text", "expected"), FITTED)
def test_text_is_made_to_fit_an_encoding(encoding: str, text: str, expected: str) -> None:
    assert ascii_only(encoding).fitting(text) == expected
    assert cells(expected) == cells(text)


def test_secrets_are_masked_in_text_and_names_are_not() -> None:
    token = "hf_" + "a" * 30
    assert token not in harmless(f"token {token}")
    assert name(token) == token
