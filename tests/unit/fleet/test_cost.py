"""What a month costs, from what was measured."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.fleet.cost import beating, polling, watching, writing
from lastbeat.fleet.mark import PassMark, ShortPass
from support.memory import START
from support.there import there

MINUTES = 30 * 24 * 60


def mark(*passes: tuple[dict[str, int], int], interval_s: float = 60.0) -> PassMark:
    recent = [
        ShortPass(START + timedelta(minutes=n), asked, active, active + 9) for n, (asked, active) in enumerate(passes)
    ]
    return PassMark(START, 1200.0, interval_s, tuple(recent))


def test_a_mark_without_passes_measures_nothing() -> None:
    assert watching(mark()) is None


def test_passes_cost_what_they_cost_on_average_as_often_as_they_are_made() -> None:
    found = there(watching(mark(({"LIST": 1, "GET": 10}, 20), ({"LIST": 3, "GET": 0}, 30))))
    assert found.fleet is not None
    assert found.fleet.requests == pytest.approx({"LIST": 2 * MINUTES, "GET": 5 * MINUTES})
    assert (found.passes, found.active, found.runs) == (2, 25, 34)
    assert found.run is not None
    assert found.run.requests == pytest.approx({"LIST": 2 * MINUTES / 25, "GET": 5 * MINUTES / 25})


def test_nothing_can_be_said_of_one_run_where_none_was_active() -> None:
    found = there(watching(mark(({"LIST": 1}, 0))))
    assert found.run is None
    assert found.fleet is not None
    assert found.fleet.count == pytest.approx(MINUTES)


def test_passes_over_parts_tell_what_a_run_costs_and_not_the_fleet() -> None:
    whole = mark(({"GET": 10}, 20), ({"GET": 30}, 60))
    parts = replace(whole, recent=tuple(replace(short, part=True) for short in whole.recent))
    found, same = watching(parts), watching(whole)
    assert found is not None
    assert same is not None
    assert found.fleet is None
    assert found.run == same.run


def test_a_beat_is_two_documents_and_a_poll_four_questions() -> None:
    assert beating(30.0).requests == pytest.approx({"PUT": 4 * MINUTES, "GET": MINUTES / 5})
    assert writing(60.0).requests == pytest.approx({"PUT": MINUTES})
    assert polling().requests == pytest.approx({"HEAD": 2 * MINUTES, "GET": 2 * MINUTES})
    assert polling().dollars == pytest.approx(0.06912)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**5)), min_size=1, max_size=60))
def test_the_runs_together_cost_what_the_fleet_does(passes: list[tuple[int, int]]) -> None:
    found = there(watching(mark(*(({"GET": asked}, active) for asked, active in passes))))
    assert found.fleet is not None
    if found.run is not None:
        assert found.run.dollars * found.active == pytest.approx(found.fleet.dollars)
