"""A table that one test checks: each wrong row is named, and an empty table is told."""

import pytest

from support.row_by_row import check_each


def is_even(number: int) -> None:
    assert number % 2 == 0


def raises_nothing(number: int) -> None:
    with pytest.raises(ValueError, match="odd"):
        is_even(2 * number)


def test_each_wrong_row_is_named() -> None:
    with pytest.raises(AssertionError) as raised:
        check_each([("one", (1,)), ("two", (2,)), ("a text", ("x",)), ("three", (3,))], is_even)
    told = str(raised.value)
    assert told.startswith("rows that are wrong: 3 of 4\n")
    for named in ("one: AssertionError", "a text: TypeError", "three: AssertionError"):
        assert f"\n{named}" in told
    assert "\ntwo" not in told


def test_a_row_that_raises_nothing_where_it_has_to_is_named() -> None:
    with pytest.raises(AssertionError, match="seven: Failed: DID NOT RAISE"):
        check_each([("seven", (7,))], raises_nothing)


def test_rows_of_one_name_are_all_checked() -> None:
    with pytest.raises(AssertionError, match="rows that are wrong: 1 of 2\nsame: "):
        check_each([("same", (1,)), ("same", (2,))], is_even)


def test_a_table_without_rows_is_told() -> None:
    with pytest.raises(AssertionError, match="without rows"):
        check_each([], is_even)
