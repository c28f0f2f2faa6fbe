"""Whatever training says is a number, becomes one that JSON can hold, or nothing."""

import json
import math
import threading
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.training.sdk.values import ValueReader, as_int, as_number, as_text
from support.waiting import until


class Raises:
    """A tensor on a device that was lost."""

    def __float__(self) -> float:
        raise RuntimeError("CUDA error: device-side assert triggered")

    __int__ = __str__ = __float__  # type: ignore[assignment]


class Tensor:
    """What frameworks have in common."""

    def __init__(self, value: float) -> None:
        self.value = value

    def item(self) -> float:
        return self.value


class Hangs:
    """A tensor behind a collective that never ends."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.read = 0

    def item(self) -> float:
        self.read += 1
        self.released.wait(60)
        return 1.0


NUMBERS = [
    pytest.param(1, 1.0, id="an int"),
    pytest.param(np.float32(0.5), 0.5, id="a numpy scalar"),
    pytest.param(np.array(0.5), 0.5, id="a numpy array without dimensions"),
    pytest.param(np.array([0.5, 1.0]), None, id="a numpy array of two is none"),
    pytest.param(Tensor(0.5), 0.5, id="a tensor"),
    pytest.param(Decimal("0.5"), 0.5, id="a Decimal"),
    pytest.param(math.nan, "NaN", id="NaN is kept as such"),
    pytest.param(math.inf, "Infinity", id="so is infinity"),
    pytest.param(Tensor(math.inf), "Infinity", id="and a tensor's infinity"),
    pytest.param(10**400, None, id="an int beyond all floats is none"),
    pytest.param(Raises(), None, id="an object whose __float__ raises is none"),
    pytest.param(None, None, id="None is none"),
    pytest.param(True, None, id="a bool is no number"),
    pytest.param("0.5", 0.5, id="a text of a number"),
    pytest.param("low", None, id="any other text is none"),
    pytest.param("0" * 100 + "1", None, id="nor is one that goes on and on"),
    pytest.param(b"0.5", None, id="bytes are none"),
    pytest.param(np.longdouble("1e4000"), "Infinity", id="one beyond all floats"),
]


def numbers(reader: ValueReader, values: Sequence[object]) -> list[Any]:
    return reader.read([("", value, as_number) for value in values])


@pytest.mark.parametrize(("value", "expected"), NUMBERS)
def test_numbers(value: object, expected: object) -> None:
    assert as_number(value) == expected
    assert numbers(ValueReader(), [value]) == [expected]


WHOLES = [
    pytest.param(7, 7, id="an int"),
    pytest.param(math.nan, None, id="NaN is none"),
    pytest.param(Raises(), None, id="an object whose __int__ raises is none"),
    pytest.param("7", 7, id="a text of digits"),
    pytest.param("9007199254740993", 9007199254740993, id="to the last of them"),
    pytest.param("5e3", 5000, id="a text of a number"),
    pytest.param(True, None, id="a bool is none"),
    pytest.param(2**64, None, id="what no count reaches is none"),
    pytest.param(np.uint64(2**64 - 1), 2**64 - 1, id="numpy's largest"),
    pytest.param(np.array([7, 8]), None, id="an array of two is none"),
]


@pytest.mark.parametrize(("value", "expected"), WHOLES)
def test_whole_numbers(value: object, expected: int | None) -> None:
    assert as_int(value) == expected


@given(st.one_of(st.floats(), st.integers(), st.complex_numbers(), st.text(), st.binary(), st.none(), st.booleans()))
def test_any_value_becomes_json(value: Any) -> None:
    json.dumps([as_number(value), as_int(value), as_text(value)], allow_nan=False)


def test_text_is_bounded_and_never_raises() -> None:
    assert as_text("x" * 1000) == "x" * 200
    assert as_text(Raises()) is None


def test_a_tensor_that_hangs_does_not_hold_up_the_beat() -> None:
    reader, hanging, later = ValueReader(limit_s=0.05), Hangs(), Tensor(3.0)
    try:
        assert numbers(reader, [Tensor(1.0), hanging, 2.0, np.float32(4.0), later]) == [1.0, None, 2.0, 4.0, None]
        # One thread waits, and no second one joins it.
        threads = threading.active_count()
        assert numbers(reader, [hanging, 2.0, later]) == [None, 2.0, None]
        assert (threading.active_count(), hanging.read) == (threads, 1)
    finally:
        hanging.released.set()
    until(lambda: numbers(reader, [later]) == [3.0])


def test_its_thread_ends_with_the_reader() -> None:
    def readers() -> int:
        return sum(thread.name == "lastbeat-numbers" for thread in threading.enumerate())

    before, kept, dropped = readers(), ValueReader(), ValueReader()
    assert [numbers(kept, [Tensor(1.0)]), numbers(dropped, [Tensor(2.0)])] == [[1.0], [2.0]]
    kept.close()
    del dropped
    until(lambda: readers() <= before)
