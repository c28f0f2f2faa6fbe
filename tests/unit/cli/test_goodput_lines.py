"""The bar of a run's time."""

import io
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastbeat.model.goodput import Goodput, TimeSpent
from lastbeat.model.timesheet import TimeUse
from lastbeat.views.goodput import FleetGoodput, RunGoodput
from lastbeat.views.lines import signs
from lastbeat.views.lines.paint import rendered
from lastbeat_cli.goodput import bar, ettr, fleet_lines, run_lines
from support.laws import examples

ZERO = datetime(2026, 3, 1, tzinfo=timezone.utc)
spent = st.dictionaries(st.sampled_from(TimeUse), st.floats(0, 1e7), min_size=1)


@settings(max_examples=examples(200))
@given(spent, st.integers(7, 200))
def test_a_bar_is_as_wide_as_it_shall_be_and_shows_whatever_took_time(
    spent: dict[TimeUse, float], columns: int
) -> None:
    drawn = rendered(bar(TimeSpent(spent), columns, signs.UTF8), colours=False)
    used = sum(seconds > 0 for seconds in spent.values())
    assert len(drawn) == (columns if used else 0)
    assert len(set(drawn)) == used


def test_signs_tell_uses_apart_without_colours_and_without_utf8() -> None:
    every = TimeSpent(dict.fromkeys(TimeUse, 1.0))
    for made_of in (signs.UTF8, signs.of(io.StringIO())):
        assert len(set(rendered(bar(every, 70, made_of), colours=False))) == len(TimeUse)


def test_the_ratio_is_a_span_only_where_what_is_not_known_matters() -> None:
    def said(unknown: float) -> str:
        return ettr(TimeSpent({TimeUse.PRODUCTIVE: 900.0, TimeUse.LOST: 100.0, TimeUse.UNKNOWN: unknown}))

    assert said(0) == "ETTR 90.0%"
    assert said(1) == "ETTR 89.9%"
    assert said(1000) == "ETTR 45.0% at least, 95.0% at most: the rest is not known"
    assert ettr(TimeSpent({TimeUse.UNKNOWN: 10.0})) == "ETTR not known: no step of it is"


@pytest.mark.parametrize(
    ("down", "recovered", "said"),
    [
        (True, 0, "1 failure: mean time to detect not known, to recover it has not come back"),
        (False, 0, "1 failure: mean time to detect not known, to recover not known"),
        (False, 1, "1 failure: mean time to detect not known, to recover 30s"),
    ],
)
def test_whether_it_has_come_back_is_one_thing_and_how_long_that_took_another(
    down: bool, recovered: int, said: str
) -> None:
    found = Goodput(
        {TimeUse.LOST: 60.0},
        2,
        lost_steps=1,
        failures=1,
        recovered=recovered,
        recover_s=30.0 * recovered,
        since=ZERO,
        until=ZERO + timedelta(seconds=60),
        down=down,
    )
    lines = [rendered(each, colours=False) for each in run_lines("llama", found, (), 80, signs.UTF8)]
    assert said in lines
    assert any(line.endswith("steps done again, or cut off: 1 step") for line in lines)


def test_a_run_whose_first_attempts_nobody_knows_says_so() -> None:
    found = Goodput(
        {TimeUse.QUEUED: 60.0}, 1, since=ZERO, until=ZERO + timedelta(seconds=60), first_attempt=4, over=False
    )
    text = "\n".join(rendered(each, colours=False) for each in run_lines("llama", found, (), 80, signs.UTF8))
    assert "Of the attempts before number 4 nothing is known." in text
    counted = replace(found, attempts=4, failures=3)
    text = "\n".join(rendered(each, colours=False) for each in run_lines("llama", counted, (), 80, signs.UTF8))
    assert ", 4 attempts" in text
    assert "When the attempts before number 4 ran is not known." in text
    assert "steps that count" in text


def test_no_run_id_is_cut_in_the_table_of_a_fleet() -> None:
    spent = Goodput({TimeUse.PRODUCTIVE: 60.0}, 1, since=ZERO, until=ZERO + timedelta(seconds=60))
    ids = [f"qwen2.5-14b-{'x' * 60}-lr{rate}-seed1" for rate in ("1e-5", "2e-5")]
    found = FleetGoodput(tuple(RunGoodput(run_id, goodput=spent) for run_id in ids), total=TimeSpent(spent.spent))
    text = "\n".join(rendered(each, colours=False) for each in fleet_lines("/runs", found, (), 80, signs.UTF8))
    assert all(run_id in text for run_id in ids)
