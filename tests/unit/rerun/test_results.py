"""Which results are bad, which are the same, by how much they vary, and the batches of a step."""

import math
import statistics
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastbeat.rerun import RerunDataIterator
from lastbeat.rerun.results import LATEST, LEAST, UsualMagnitude, not_finite, relative_difference
from lastbeat.rerun.variation import Variation, combined
from support.laws import examples

NAN, INF = math.nan, math.inf
NUMBERS = st.floats(allow_nan=True, allow_infinity=True)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(NAN, NAN, 0.0, id="NaN twice"),
        pytest.param(INF, -INF, INF, id="infinite with different signs"),
        pytest.param(NAN, 2.5, INF, id="NaN once"),
        pytest.param(99.0, 101.0, 0.02, id="relative to their mean"),
        pytest.param(-1.0, 1.0, 2.0, id="as far apart as it gets"),
        pytest.param(0.0, 1e-300, 2.0, id="from zero"),
        pytest.param(1.7e308, 1.6e308, 0.1 / 1.65, id="too large to be added"),
    ],
)
def test_how_far_two_results_are_apart(one: float, other: float, expected: float) -> None:
    assert relative_difference(one, other) == pytest.approx(expected)


@given(NUMBERS, NUMBERS)
def test_it_does_not_matter_which_came_first(one: float, other: float) -> None:
    there, back = relative_difference(one, other), relative_difference(other, one)
    assert there == back
    assert 0.0 <= there <= 2.0 or there == INF
    assert relative_difference(one, one) == 0.0


def test_what_is_not_finite() -> None:
    assert [not_finite(each) for each in (2.5, NAN, INF, -INF)] == [None, "NaN", "Inf", "Inf"]


@given(st.lists(NUMBERS, max_size=200))
@settings(max_examples=examples(100))
def test_what_is_usual_is_the_median_of_the_latest_good_ones(values: list[float]) -> None:
    usual = UsualMagnitude()
    for each in values:
        usual.add(each)
    known = [abs(each) for each in values if math.isfinite(each)][-LATEST:]
    assert usual.latest == known
    expected = statistics.median(known) if len(known) >= LEAST and max(known) < 1e307 else usual.median
    assert usual.median == (pytest.approx(expected) if expected is not None else None)
    assert UsualMagnitude(usual.latest).median == usual.median


def test_a_spike_is_more_than_a_factor_above_what_is_usual() -> None:
    usual = UsualMagnitude([2.0] * LEAST)
    assert usual.spike(20.0, 10.0) is None
    assert usual.spike(-20.1, 10.0) == "unexpectedly large: -20.1, more than 10 times the usual 2"
    assert UsualMagnitude([2.0] * (LEAST - 1)).spike(1e9, 10.0) is None, "too little is known"


def test_variation_is_summed_up() -> None:
    variation = Variation()
    for each in [0.0] * 97 + [1e-6, 3e-6, INF]:
        variation.add(each)
    found = variation.summary()
    assert (found.samples, found.identical, found.unequal) == (100, 97, 1)
    assert (found.median, found.percentile_99, found.largest) == (0.0, 3e-6, 3e-6)
    assert found.tolerance == 6e-6
    assert "1 not finite in one of two runs" in str(found)
    assert str(Variation().summary()) == "0 samples, all identical: tolerance=0"


def test_ranks_are_summed_up_by_name() -> None:
    one = {"samples": 4, "identical": 4, "unequal": 0, "median": 0.0, "percentile_99": 0.0, "largest": 0.0}
    other = {**one, "identical": 3, "percentile_99": 2e-7, "largest": 2e-7}
    found = combined([{"loss": one}, {"loss": other, "norm": one}])
    assert (found["loss"].samples, found["loss"].identical, found["loss"].largest) == (8, 7, 2e-7)
    assert found["norm"].samples == 4


class Loader:
    """One that knows where it is, as torchdata's do."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> "Loader":
        return self

    def __next__(self) -> int:
        self.at += 1
        return self.at - 1

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at = state["at"]


def test_a_re_run_that_takes_fewer_batches_loses_none() -> None:
    batches = RerunDataIterator(range(4))
    next(batches), next(batches)
    batches.rewind()
    next(batches)
    batches.advance()
    assert list(batches) == [1, 2, 3]


def test_batches_and_the_place_of_a_loader_go_through_a_checkpoint() -> None:
    batches = RerunDataIterator(Loader())
    next(batches)
    batches.advance()
    next(batches), next(batches)
    batches.rewind()
    saved = batches.state_dict()
    assert saved == {"batches": [1, 2], "random": [None, None], "wrapped": {"at": 3}}
    resumed = RerunDataIterator(Loader())
    resumed.load_state_dict(saved)
    assert [next(resumed) for _ in range(4)] == [1, 2, 3, 4]
