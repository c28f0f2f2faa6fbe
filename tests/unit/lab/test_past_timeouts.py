"""What learned limits would have told of a run's past: a table of pasts, and what holds for any."""

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.lab.past_timeouts import KeptTimes, PastTimeouts, StepPoint, past_timeouts
from lastbeat.model.heartbeat import OpenSection
from lastbeat.model.learned_limits import LearnedLimit, LearnedState, SpanKey, Taken
from lastbeat.model.record import Attempt, ExceededLimit, LimitName, Record, Transition
from lastbeat.model.state import State
from lastbeat.model.status import Status

START = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
NOW = START + timedelta(days=2)
SAVING = SpanKey("section", "checkpointing")
RUNNING, DONE, FAILED, SILENT = Status.RUNNING, Status.SUCCEEDED, Status.FAILED, Status.TIMED_OUT


def steady(steps: int, each: int = 1, step_s: float = 60.0, first: int = 0, began: float = 0.0) -> list[StepPoint]:
    """Points of a training whose steps take ``step_s``, one in ``each`` kept, from ``began`` seconds on."""
    return [
        StepPoint(START + timedelta(seconds=began + (number - first) * step_s), number)
        for number in range(first, first + steps + 1, each)
    ]


def record(status: Status = RUNNING, hours: float = 0.0, cause: str | None = None, limit: LimitName | None = None,
           stopped_by: str | None = None) -> Record:  # fmt: skip
    history = [Transition(1, START, None, RUNNING, "began", 1)]
    if status is not RUNNING:
        history.append(Transition(2, START + timedelta(hours=hours), RUNNING, status, "over", 1, cause))
    exceeded = ExceededLimit(limit, 600.0) if limit is not None else None
    return Record("r", State(status), attempt=Attempt(1), history=tuple(history), transitions=len(history),
                  exceeded=exceeded, stopped_by=stopped_by)  # fmt: skip


def told(found: PastTimeouts) -> list[str]:
    """``step wrong: 3600s of 1800s``, and of a hang how much earlier."""
    return [
        f"{each.name} {each.came}: {each.lasted_s:.0f}s of {each.limit_s:.0f}s"
        + ("" if each.earlier_s is None else f", {each.earlier_s:.0f}s earlier")
        for each in found.told
    ]


LATE = steady(100) + steady(100, first=101, began=6000 + 3600)
"""The step after the hundredth took an hour."""
LATE_BETWEEN = steady(100, 5) + steady(100, 5, first=105, began=6000 + 240 + 3600)
SLOWER = steady(2000, 40) + steady(2000, 40, 180.0, first=2040, began=122_400)
PASTS = [
    pytest.param(record(DONE, 3.4), steady(200), [], id="steps that take as long as ever"),
    pytest.param(record(DONE, 5.0), LATE, ["step wrong: 3600s of 1800s"], id="one that took an hour, and then went on"),
    pytest.param(record(DONE, 5.0), LATE_BETWEEN, ["step wrong: 3600s of 1800s"],
                 id="the same, where one step in five is kept"),
    pytest.param(record(DONE, 134.0), SLOWER, [], id="many steps that all became slower are no long one"),
    pytest.param(record(FAILED, 3.0, "nccl_timeout"), steady(100), ["step hang: 4800s of 1800s, 3000s earlier"],
                 id="one that hung until a collective timed out"),
    pytest.param(record(SILENT, 1.9, limit=LimitName.STALL), steady(100), [], id="one that was told sooner"),
    pytest.param(record(SILENT, 3.0, limit=LimitName.STALE), steady(100), ["step unknown: 4800s of 1800s"],
                 id="one that died without a word: nobody knows whether it hung"),
    pytest.param(record(SILENT, 3.0, "hang", LimitName.STALL, stopped_by="ann@here"), steady(100),
                 ["step unknown: 4800s of 1800s"], id="one that a person ended"),
    pytest.param(record(DONE, 3.0), steady(100), ["step wrong: 4800s of 1800s"], id="one that was done after all"),
    pytest.param(record(DONE, 3.3), steady(100) + steady(100, first=50, began=6000 + 3600), [],
                 id="a step back to a checkpoint is no step"),
    pytest.param(record(DONE, 9.0), [steady(0)[0], *steady(100, first=2, began=5000)], ["step wrong: 21400s of 1800s"],
                 id="the first steps compile; what was not told is the end"),
]  # fmt: skip


@pytest.mark.parametrize(("recorded", "points", "expected"), PASTS)
def test_what_would_have_been_told_of_steps(recorded: Record, points: Sequence[StepPoint], expected: list[str]) -> None:
    found = past_timeouts(recorded, KeptTimes(points), NOW)
    assert (told(found), found.why_not) == (expected, None)
    hung = recorded.exceeded is not None and recorded.exceeded.name is LimitName.STALL
    assert found.missed == (hung and recorded.stopped_by is None and not expected)


def test_when_it_would_have_been_told_is_by_the_stores_clock() -> None:
    (one,) = past_timeouts(record(DONE, 5.0), KeptTimes(LATE, skew_s=100.0), NOW).told
    assert one.at == LATE[100].at + timedelta(seconds=1800 + 100)
    assert one.usual_s == 60.0


@pytest.mark.parametrize(
    ("points", "why"),
    [((), "no points of steps"), (steady(9), "7 steps in the points")],
    ids=["none", "few"],
)
def test_too_little_to_judge_is_said(points: Sequence[StepPoint], why: str) -> None:
    found = past_timeouts(record(SILENT, 3.0, limit=LimitName.STALL), KeptTimes(points), NOW)
    assert found.why_not is not None
    assert why in found.why_not
    assert not found.missed


def state(longest_s: float, before_s: float = 130.0, start: datetime = START) -> LearnedState:
    """Saves took ``before_s`` at most until the attempt began, and ``longest_s`` in it."""
    before = {SAVING: LearnedLimit(Taken(64, before_s), 5 * before_s)}
    now = {SAVING: LearnedLimit(Taken(96, longest_s), (5 * longest_s + 5 * before_s) / 2)}
    return LearnedState(start.isoformat(), before, now)


def test_a_save_that_took_longer_than_its_limit_and_ended_would_have_been_told_wrongly() -> None:
    for longest_s, expected in ((640.0, []), (700.0, ["checkpointing wrong: 700s of 650s"])):
        kept = KeptTimes(start=START, state=state(longest_s))
        assert told(past_timeouts(record(DONE, 9.0), kept, NOW)) == expected
    another = KeptTimes(start=START + timedelta(days=1), state=state(700.0))
    assert past_timeouts(record(DONE, 9.0), another, NOW).why_not is not None, "it says nothing of this attempt"


def test_a_run_that_hung_in_a_save_would_have_been_told_by_what_saves_usually_take() -> None:
    saving = OpenSection("checkpointing", 60.0)
    kept = KeptTimes(LATE, 0.0, START, START + timedelta(hours=2), (saving,), state(130.0))
    found = past_timeouts(record(SILENT, 3.0, limit=LimitName.STALL), kept, NOW)
    assert told(found) == ["checkpointing hang: 3660s of 650s, 3010s earlier"]
    by_hand = KeptTimes(start=START, open_at=START, open_sections=(OpenSection("eval", 60.0, 90.0),), state=state(99.0))
    assert past_timeouts(record(SILENT, 3.0, limit=LimitName.STALL), by_hand, NOW).missed, "that limit is by hand"


@given(st.integers(1, 50), st.floats(0.01, 300.0), st.integers(2, 100))
def test_an_even_pace_is_never_told_however_few_points_are_kept(each: int, step_s: float, points: int) -> None:
    found = past_timeouts(
        record(DONE, each * points * step_s / 3600), KeptTimes(steady(each * points, each, step_s)), NOW
    )
    assert (found.told, found.unclear) == ((), 0)
