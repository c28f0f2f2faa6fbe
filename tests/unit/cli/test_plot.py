"""A curve in a terminal."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.views.lines.paint import cells
from lastbeat.views.lines.signs import UTF8, Signs, ascii_only
from lastbeat_cli.terminal.plot import LEAST, Points, plot


def drawn(
    points: Points, columns: int = 30, height: int = 8, made_of: Signs = UTF8, floor: float | None = None
) -> list[str]:
    return plot(points, columns, height, made_of, lambda x: f"step {x:g}", lambda y: f"{y:.3g}", floor)


def test_a_straight_line_in_ascii() -> None:
    assert drawn([(0, 1.0), (10, 0.0)], 20, 7, ascii_only()) == [
        "1 ┤'..",
        "  │   ''..",
        "  │       ''.",
        "  │          ''..",
        "0 ┤              ''.",
        "  └─────────────────",
        "   step 0    step 10",
    ]


def test_a_straight_line_in_braille() -> None:
    told = drawn([(0, 1.0), (10, 0.0)], 20, 7)
    assert told[0].startswith("1 ┤⠑")
    assert told[4].endswith("⠢⣀") or told[4].rstrip()[-1] in "⢄⣀⡀⠤"


NOTHING = [
    pytest.param([], 30, 8, id="no points"),
    pytest.param([(0, None), (1, math.nan), (2, math.inf), (math.nan, 1.0)], 30, 8, id="no number among them"),
    pytest.param([(0, 1.0)], LEAST[0] - 1, 8, id="too few columns"),
    pytest.param([(0, 1.0)], 30, LEAST[1] - 1, id="too few lines"),
]


@pytest.mark.parametrize(("points", "columns", "height"), NOTHING)
def test_where_there_is_nothing_to_see_nothing_is_drawn(points: Points, columns: int, height: int) -> None:
    assert drawn(points, columns, height) == []


def test_a_value_that_stays_has_one_label() -> None:
    told = drawn([(0, 5.0), (10, 5.0)])
    assert sum("┤" in line for line in told) == 1
    assert any("5 ┤" in line and set(line) & set("⠒⠤⠉⣀") for line in told)


def test_a_gap_is_no_line() -> None:
    joined, apart = drawn([(0, 0.0), (5, 1.0), (10, 0.0)]), drawn([(0, 0.0), (5, None), (10, 0.0), (11, 1.0)])
    assert sum(map(cells, joined)) > 0
    assert all("⠒⠒⠒⠒⠒" not in line and "⣀⣀⣀⣀⣀" not in line for line in apart)


def test_a_few_great_values_do_not_flatten_the_curve_and_are_told() -> None:
    points: Points = [(0, 1000.0), *((step, 10.0 - step / 10) for step in range(1, 60))]
    told = drawn(points, 60, 12)
    assert told[0].lstrip().startswith("≥")
    assert "1e+03" not in told[0]


def test_the_axis_begins_at_its_floor() -> None:
    assert drawn([(0, 10.0), (1, 11.0)], floor=0.0)[5].lstrip().startswith("0 ┤")


@given(
    st.lists(st.tuples(st.floats() | st.integers(0, 10**6), st.none() | st.floats()), max_size=60),
    st.integers(0, 90),
    st.integers(0, 30),
    st.booleans(),
)
def test_a_picture_is_as_large_as_asked(points: Points, columns: int, height: int, plain: bool) -> None:
    told = drawn(points, columns, height, ascii_only() if plain else UTF8)
    assert len(told) in {0, height}
    assert all(cells(line) <= columns for line in told)


CROSSED = [
    pytest.param([(0, 1.0), (5, 0.5), (10, math.nan), (20, math.nan)], 2, id="as far as they go"),
    pytest.param([(0, 1.0), (5, 0.5), (20, math.inf)], 1, id="also those beyond every number"),
    pytest.param([(0, 1.0), (5, None), (20, 0.5)], 0, id="what is not known is not marked"),
]


@pytest.mark.parametrize(("points", "crosses"), CROSSED)
@pytest.mark.parametrize(("made_of", "cross"), [(UTF8, "\u00d7"), (ascii_only(), "x")], ids=["braille", "ascii"])
def test_values_that_are_no_numbers_are_marked(points: Points, crosses: int, made_of: Signs, cross: str) -> None:
    told = [made_of.fitting(text) for text in drawn(points, 40, 8, made_of)]
    assert sum(text.count(cross) for text in told) == crosses
    assert told[-1].endswith("step 20")
