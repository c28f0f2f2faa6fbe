"""Which runs a silence covers, for how long, and which silences cannot be."""

from datetime import datetime, timedelta, timezone
from string import ascii_letters, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.silence import InvalidSilenceError, Silence, check_glob, check_why, is_pattern
from lastbeat.model.times import format_duration, parse_duration

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def silence(runs: str = "*", *, starts_s: float = 0.0, until_s: float = 7200.0) -> Silence:
    until = NOW + timedelta(seconds=until_s)
    return Silence("ab12cd34", check_glob(runs), NOW + timedelta(seconds=starts_s), until, "moving", "ana@desk")


@pytest.mark.parametrize(
    ("runs", "run_id", "covered"),
    [
        pytest.param("mistral-7b", "mistral-7b", True, id="a name is that run"),
        pytest.param("mistral-7b", "mistral-7b-2", False, id="and no other that begins so"),
        pytest.param("mistral-*", "mistral-7b-2", True, id="a star is any text"),
        pytest.param("mistral-*", "mistral-", True, id="or none"),
        pytest.param("*", "anything.at=all@x:1", True, id="a star alone is every run"),
        pytest.param("Mistral-*", "mistral-7b", False, id="upper and lower case differ"),
        pytest.param("run-?", "run-7", True, id="a question mark is one character"),
        pytest.param("run-?", "run-77", False, id="and not two"),
        pytest.param("run-[0-4]", "run-3", True, id="brackets are one of these"),
        pytest.param("run-[!0-4]", "run-7", True, id="or none of these"),
        pytest.param("a.b", "axb", False, id="a dot is a dot"),
        pytest.param("*a*a*a*a*a*a*a*a*a*a*a*b", "a" * 200, False, id="many stars take no time"),
    ],
)
def test_which_runs_a_glob_covers(runs: str, run_id: str, covered: bool) -> None:
    assert silence(runs).covers(run_id, NOW) is covered


@pytest.mark.parametrize(
    ("seconds", "covered"),
    [
        pytest.param(-60, False, id="not before it begins"),
        pytest.param(-5, True, id="whatever a watcher's idea of the time, from the moment that it is made"),
        pytest.param(0, True, id="from then on"),
        pytest.param(7199, True, id="to its end"),
        pytest.param(7200, False, id="and no longer"),
    ],
)
def test_when_a_silence_counts(seconds: float, covered: bool) -> None:
    assert silence().covers("run", NOW + timedelta(seconds=seconds)) is covered


@pytest.mark.parametrize(
    "glob",
    [
        pytest.param("", id="none"),
        pytest.param("a" * 201, id="too long"),
        pytest.param("run 7", id="with a space"),
        pytest.param("runs/run-7", id="with a slash"),
        pytest.param("run-[ab", id="with a bracket that nothing closes"),
        pytest.param("run-]", id="with a bracket that nothing opens"),
        pytest.param("run-[]", id="with nothing in brackets"),
        pytest.param("run-!", id="with what only brackets may hold"),
        pytest.param("_watchdog", id="the watchdog's own folder"),
        pytest.param("_*", id="what no run may begin with"),
        pytest.param("..", id="a folder itself"),
        pytest.param("läuft-*", id="with a letter that no run id has"),
        pytest.param("run\n", id="with a newline"),
    ],
)
def test_a_glob_that_can_match_no_run_is_a_mistake(glob: str) -> None:
    with pytest.raises(InvalidSilenceError) as refused:
        check_glob(glob)
    assert "\n" not in str(refused.value)


@given(st.text(alphabet=ascii_letters + digits + "._-+=@:", min_size=1, max_size=200))
def test_every_name_of_a_run_covers_itself_and_is_covered_by_a_star(run_id: str) -> None:
    if run_id in {".", ".."} or run_id.startswith("_"):
        return
    assert silence(run_id).covers(run_id, NOW)
    assert silence("*").covers(run_id, NOW)
    assert not is_pattern(run_id)


def test_a_reason_is_one_line_of_text() -> None:
    assert check_why(" moving\n to\tthe \x1b[31mnew\x1b[0m cluster ") == "moving to the new cluster"
    assert check_why(" \n") == "", "it may be left out"
    with pytest.raises(InvalidSilenceError):
        check_why("x" * 201)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("30m", 1800, id="minutes"),
        pytest.param("2h", 7200, id="hours"),
        pytest.param("1d", 86400, id="days"),
        pytest.param("1h30m", 5400, id="both"),
        pytest.param("1d 4h", 100800, id="as lastbeat writes it"),
        pytest.param("90s", 90, id="seconds"),
        pytest.param("0m", 0, id="nothing at all"),
        pytest.param("", None, id="empty"),
        pytest.param("2", None, id="a number alone"),
        pytest.param("30m1h", None, id="the wrong way round"),
        pytest.param("1.5h", 5400, id="a fraction"),
        pytest.param("0.5d 1.25m", 43275, id="several fractions"),
        pytest.param("1.h", None, id="a point without a fraction"),
        pytest.param("-1h", None, id="back in time"),
        pytest.param("٣h", None, id="in other digits"),
        pytest.param("9" * 4000 + "h", None, id="without end"),
    ],
)
def test_a_duration(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == (None if seconds is None else timedelta(seconds=seconds))


@given(st.integers(0, 10**7))
def test_a_duration_that_lastbeat_wrote_can_be_read(seconds: int) -> None:
    written = format_duration(seconds)
    read = parse_duration(written)
    assert read is not None
    assert format_duration(read) == written
