"""The values of options: spans, and patterns of run ids."""

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.times import format_duration
from lastbeat_cli import options, values

DAY_S = 86400.0
SPANS = [
    pytest.param("30", 30.0, id="a bare number is in the option's unit"),
    pytest.param("0.5", 0.5, id="also a part of it"),
    pytest.param("1e2", 100.0, id="also with an exponent"),
    pytest.param("30s", 30.0, id="seconds"),
    pytest.param("5m", 300.0, id="minutes"),
    pytest.param(" 2 h ", 7200.0, id="with spaces"),
]


@pytest.mark.parametrize(("text", "seconds"), SPANS)
def test_a_span(text: str, seconds: float) -> None:
    faults: list[str] = []
    assert values.span("--grace", text, faults, least_s=0.0, most_s=DAY_S, like="30s") == seconds
    assert faults == []


WRONG = [
    pytest.param("soon", id="a word"),
    pytest.param("-5", id="a time in the past"),
    pytest.param("nan", id="no number"),
    pytest.param("25h", id="too long"),
    pytest.param("1_0", id="Python's underscore"),
    pytest.param("5 minutes", id="a unit in words"),
]


@pytest.mark.parametrize("text", WRONG)
def test_no_span(text: str) -> None:
    faults: list[str] = []
    assert values.span("--grace", text, faults, least_s=1.0, most_s=DAY_S, like="30s") == 1.0
    assert faults == [f"--grace={text!r} is not a time from 1s to 1d; use for example 30s"]


def test_where_the_option_names_no_unit_a_bare_number_is_no_span() -> None:
    faults: list[str] = []
    values.since("24", faults)
    assert faults == ["--since='24' is not a time from 1m to 3660d; use for example 24h or 7d"]


@given(st.integers(0, 10**6))
def test_what_is_shown_as_a_duration_is_read_as_one(seconds: int) -> None:
    faults: list[str] = []
    shown = format_duration(seconds)
    assert abs(values.span("--for", shown, faults, least_s=0.0, most_s=1e9, like="2h") - seconds) < 3600
    assert faults == []


UNITS = [
    pytest.param({"stale_minutes": "2h"}, {"STALE_MINUTES": "120.0"}, id="minutes"),
    pytest.param({"interval": "5m"}, {"LASTBEAT_INTERVAL_SECONDS": "300.0"}, id="seconds"),
    pytest.param({"stale_minutes": "20"}, {"STALE_MINUTES": "20"}, id="a bare number stays"),
    pytest.param({"stale_minutes": "ten"}, {"STALE_MINUTES": "ten"}, id="what is wrong is left to the setting"),
    pytest.param({"owner": "1h"}, {"LASTBEAT_OWNER": "1h"}, id="a name is no span"),
]


@pytest.mark.parametrize(("given_options", "settings"), UNITS)
def test_a_span_for_a_setting_is_in_the_settings_unit(
    given_options: dict[str, str | None], settings: dict[str, str]
) -> None:
    assert options.arguments(given_options) == settings


def test_a_span_of_an_option_with_bounds() -> None:
    kind = options.DurationRange(1, 600)
    assert [kind.convert(text, None, None) for text in ("2", "2s", "5m", 30.0)] == [2.0, 2.0, 300.0, 30.0]
    for text in ("11m", "0", "soon"):
        with pytest.raises(click.BadParameter):
            kind.convert(text, None, None)


def test_every_fault_of_patterns_is_told() -> None:
    faults: list[str] = []
    values.check_globs(["mistral-*", "", "a/b"], faults)
    assert len(faults) == 2
