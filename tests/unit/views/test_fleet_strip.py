"""The statuses of the last day."""

from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.record import Transition
from lastbeat.model.status import Status
from lastbeat.model.view import Span
from lastbeat.views.standing import SPANS_LIMIT, spans_of, strip

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=timezone.utc)
R, T, F, S = Status.RUNNING, Status.TIMED_OUT, Status.FAILED, Status.SUCCEEDED


def ago(hours: float) -> datetime:
    return NOW - timedelta(hours=hours)


def turn(hours: float, after: Status, attempt: int = 1) -> Transition:
    return Transition(1, ago(hours), None, after, "", attempt)


@pytest.mark.parametrize(
    ("history", "now_is", "expected"),
    [
        pytest.param([], (R, 30), [(30, R)], id="a run that has lived for longer than a day is one span"),
        pytest.param([(90, R), (40, T), (30, R)], (R, 30), [(30, R)], id="what happened before is not"),
        pytest.param([(90, R), (23, T)], (T, 23), [(90, R), (23, T)], id="what it was when the day began is there"),
        pytest.param([(24, R), (1, S)], (S, 1), [(24, R), (1, S)], id="exactly a day ago is within the day"),
        pytest.param([(5, R), (4, R), (2, F)], (F, 2), [(5, R), (2, F)], id="the same again is no span of its own"),
        pytest.param([(5, R)], (F, 2), [(5, R), (2, F)], id="what nobody wrote the history of is there all the same"),
    ],
)  # fmt: skip
def test_a_strip_shows(
    history: list[tuple[float, Status]], now_is: tuple[Status, float], expected: list[tuple[float, Status]]
) -> None:
    status, since = now_is
    spans = spans_of([turn(hours, after) for hours, after in history], status, ago(since), 1)
    assert [(span.since, span.status) for span in strip(spans, NOW)] == [(ago(h), s) for h, s in expected]


def test_another_attempt_is_another_span() -> None:
    spans = spans_of([turn(5, R), turn(3, R, attempt=2)], R, ago(3), 2)
    assert strip(spans, NOW) == (Span(ago(5), R, 1), Span(ago(3), R, 2))


def test_a_run_of_which_nothing_is_known_has_none() -> None:
    assert spans_of([], Status.UNKNOWN, None, 1) == []
    assert spans_of([], None, None, 1) == []


@given(st.lists(st.tuples(st.floats(0, 100), st.sampled_from([R, T, F, S])), max_size=120), st.floats(0, 60))
def test_what_is_shown_of_a_day_is_what_was_so(turns: list[tuple[float, Status]], hours: float) -> None:
    history = sorted((turn(when, after) for when, after in turns), key=lambda each: each.at)
    spans = spans_of(history, None, None, 1)
    shown = strip(spans, NOW)
    assert len(shown) <= SPANS_LIMIT
    assert all(one.since <= other.since and one != other for one, other in pairwise(shown))
    moment = ago(min(hours, 24))

    def status_at(known: list[Span]) -> Status | None:
        return next((span.status for span in reversed(known) if span.since <= moment), None)

    if len(shown) < SPANS_LIMIT:
        assert status_at(list(shown)) == status_at(spans)
