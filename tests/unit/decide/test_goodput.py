"""What the wall time of a run went into, and that it always adds up."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastbeat.model.codec import codec
from lastbeat.model.goodput import Goodput
from lastbeat.model.status import Status
from lastbeat.model.timesheet import AttemptTimes, EarlierTimes, Timesheet, TimeUse
from lastbeat.watch.decide.goodput import goodput, summed
from lastbeat.watch.decide.timesheet import with_step
from support.laws import examples
from support.there import there

ZERO = datetime(2026, 3, 1, tzinfo=timezone.utc)
Parts = dict[str, float]


def at(seconds: float) -> datetime:
    return ZERO + timedelta(seconds=seconds)


def attempt(  # noqa: PLR0917 - the moments of one attempt, in their order
    number: int = 1,
    submitted: float | None = None,
    started: float | None = None,
    first: tuple[int, float] | None = None,
    last: tuple[int, float] | None = None,
    died: float | None = None,
    seen: float | None = None,
    *,
    end: Status = Status.FAILED,
    resumed: int | None = None,
    no_step: float | None = None,
    told: bool = False,
    redone: int = 0,
    still: float = 0.0,
    given_up: float = 0.0,
) -> AttemptTimes:
    def when(seconds: float | None) -> datetime | None:
        return None if seconds is None else at(seconds)

    last = last or first
    return AttemptTimes(
        number,
        when(submitted),
        when(started),
        resumed,
        when(no_step),
        first[0] if first else None,
        when(first[1]) if first else None,
        told,
        last[0] if last else None,
        when(last[1]) if last else None,
        redone,
        still,
        given_up,
        when(died),
        when(seen),
        end if seen is not None else None,
    )


def parts(found: Goodput | None) -> Parts:
    """Those that took time."""
    assert found is not None
    return {str(use): round(seconds, 3) for use, seconds in found.spent.items() if seconds}


CALM = attempt(1, 0, 10, (1, 30), (71, 100), 103, 105, end=Status.SUCCEEDED, resumed=0, no_step=25)
KILLED = attempt(1, 0, 10, (1, 30), (71, 100), 103, 105, resumed=0, no_step=25)
WHERE = [
    ("a run that ended well is over then, and what it did after its last step was of use", [CALM], 500,
     {"queued": 10, "starting": 19, "productive": 74}),
    ("one that died is over when that was seen; the step that was under way is lost", [KILLED], 500,
     {"queued": 10, "starting": 19, "productive": 71, "lost": 3, "unnoticed": 2}),
    ("steps that the next attempt did again are lost, and so is the time until it steps",
     [KILLED, attempt(2, 110, 120, (51, 130), (91, 170), resumed=50, no_step=129)], 171,
     {"queued": 20, "starting": 28, "productive": 91, "lost": 24, "unnoticed": 2, "restarting": 5, "unknown": 1}),
    (
        "an attempt that resumed before the last one did makes that one's steps in vain, and more of the first one's",
        [
            KILLED,
            attempt(2, 110, 110, (51, 111), (91, 151), 151, 151, resumed=50, no_step=110),
            attempt(3, 151, 151, (41, 152), (42, 153), resumed=40, no_step=151),
        ], 153,
        {"queued": 10, "starting": 19, "productive": 40 + 2, "lost": 31 + 3 + 41, "unnoticed": 2, "restarting": 5},
    ),
    ("a job that waits for its turn", [attempt(1, 0)], 60, {"queued": 60}),
    ("a job that was cancelled in the queue", [attempt(1, 0, None, died=50, seen=60)], 90,
     {"queued": 50, "unnoticed": 10}),
    ("one that shows no steps: nobody knows what it does", [attempt(1, 0, 10, no_step=60)], 60,
     {"queued": 10, "unknown": 50}),
    ("one that shows none after an attempt that did has made none", [KILLED, attempt(2, 110, 120, no_step=150)], 160,
     {"queued": 20, "starting": 49, "productive": 71, "lost": 3, "unnoticed": 2, "restarting": 5, "unknown": 10}),
    ("a first step that was seen long after the last look, from nobody knows where",
     [attempt(1, 0, 10, (500, 600), (600, 700), no_step=20)], 700,
     {"queued": 10, "starting": 10, "unknown": 580, "productive": 100}),
    ("the same, from the beginning: how fast it is tells when that was",
     [attempt(1, 0, 10, (500, 600), (600, 700), no_step=20, resumed=0)], 700,
     {"queued": 10, "starting": 90, "productive": 600}),
    ("training that tells its first step itself needs nobody to look",
     [attempt(1, None, 0, (1, 30), (71, 100), told=True)], 100, {"starting": 29, "productive": 71}),
    ("a job that nobody saw leave the queue: waiting and start-up cannot be told apart",
     [attempt(1, 0, None, (1, 30), (71, 100), no_step=25)], 100, {"unknown": 30, "productive": 70}),
    ("steps that were saved and never told of are not lost",
     [KILLED, attempt(2, 105, 105, (73, 106), (74, 107), resumed=72, no_step=105)], 107,
     {"queued": 10, "starting": 19, "productive": 71 + 1 + 2, "lost": 2, "unnoticed": 2}),
    ("training that goes back by itself does steps again", [attempt(1, None, 0, (0, 0), (50, 100), redone=50)], 100,
     {"productive": 50, "lost": 50}),
    ("one that stood still, was given up and went on", [attempt(1, None, 0, (0, 0), (50, 100), still=20, given_up=30)],
     100, {"productive": 50, "unnoticed": 20, "restarting": 30}),
    ("nobody saw the end of an attempt: when it died is not known",
     [attempt(1, None, 0, (0, 0), (50, 100)), attempt(2, None, 130, (0, 130), (1, 131))], 131,
     {"unknown": 30, "lost": 100, "productive": 1}),
    ("one of which it is only known that it never began", [attempt(1, None, None, seen=600)], 700, {}),
]  # fmt: skip


@pytest.mark.parametrize(("attempts", "now", "told"), [row[1:] for row in WHERE], ids=[row[0] for row in WHERE])
def test_where_the_time_went(attempts: list[AttemptTimes], now: float, told: Parts) -> None:
    assert parts(goodput(Timesheet(tuple(attempts)), at(now))) == told


def test_what_nothing_tells_of_is_missing_and_not_zero() -> None:
    found = there(goodput(Timesheet((attempt(1, None, 0, no_step=50),)), at(60)))
    assert set(found.spent) == {TimeUse.UNNOTICED, TimeUse.RESTARTING, TimeUse.UNKNOWN}
    assert (found.ettr, found.ettr_most, found.lost_steps, found.mean_detect_s) == (None, None, None, None)


def test_the_ratio_has_what_is_not_known_as_its_room() -> None:
    found = there(goodput(Timesheet((attempt(1, 0, 10, (500, 600), (600, 700), no_step=20),)), at(1000)))
    assert found.ettr == pytest.approx(0.1)
    assert found.ettr_most == pytest.approx(0.98)


def test_of_a_run_that_nobody_has_seen_nothing_is_told() -> None:
    assert goodput(None, at(0)) is None
    assert goodput(Timesheet(), at(0)) is None


def test_how_long_it_took_to_detect_and_to_recover() -> None:
    again = attempt(2, 110, 120, died=125, seen=135)
    back = attempt(3, 140, 140, (51, 151), (61, 161), resumed=50, no_step=145)
    found = there(goodput(Timesheet((KILLED, again, back)), at(161)))
    # Two failures, one outage: from the first death to the step after the second one.
    assert (found.failures, found.detected, found.recovered) == (2, 2, 1)
    assert found.mean_detect_s == pytest.approx((2 + 10) / 2)
    assert found.mean_recover_s == pytest.approx(150 - 103)
    assert found.lost_steps == 21


# Steps until 100, dead at 103, seen at 105.
FIRST_LOOK: list[Any] = [
    pytest.param(105, None, (103, {}, None), id="it was dead at the first look: it was over when it died"),
    pytest.param(105, 205, (205, {"restarting": 102}, None), id="it was, and was started again later"),
    pytest.param(104, None, (105, {"restarting": 1, "unnoticed": 1}, 1), id="the second look saw it"),
    pytest.param(0, None, (105, {"unnoticed": 2}, 2), id="it was watched all the while"),
    pytest.param(None, None, (105, {"unnoticed": 2}, 2), id="since when it was watched is not known"),
]  # fmt: skip


@pytest.mark.parametrize(("watched", "again", "expected"), FIRST_LOOK)
def test_time_before_the_first_look_is_not_unnoticed(
    watched: float | None, again: float | None, expected: tuple[float, Parts, float | None]
) -> None:
    sheet = Timesheet((KILLED, *([attempt(2, again, again)] if again is not None else [])))
    watched_from = None if watched is None else at(watched)
    found = there(goodput(sheet, at(again or 1000), watched_from=watched_from))
    until, dead, detect_s = expected
    assert found.until == at(until)
    assert {use: seconds for use, seconds in parts(found).items() if use in {"restarting", "unnoticed"}} == dead
    assert found.mean_detect_s == detect_s
    assert found.failures == 1
    # What is kept of it once it is summed up tells the same.
    later = there(goodput(summed(Timesheet((*sheet.attempts, attempt(9, 2000))), 1, watched_from), at(2001)))
    assert (later.mean_detect_s, later.spent.get(TimeUse.UNNOTICED)) == (detect_s, dead.get("unnoticed", 0.0))


def test_an_attempt_that_ends_well_is_back_though_nobody_saw_a_step_of_it() -> None:
    well = attempt(2, 110, 120, died=125, seen=126, end=Status.SUCCEEDED)
    found = there(goodput(Timesheet((KILLED, well)), at(126)))
    assert (found.failures, found.recovered, found.mean_recover_s, found.down) == (1, 0, None, False)
    failed = there(goodput(Timesheet((KILLED, replace(well, end=Status.FAILED))), at(126)))
    assert (failed.recovered, failed.down) == (0, True)
    # What is kept of the attempts before tells the same.
    later = there(goodput(summed(Timesheet((KILLED, well, attempt(3, 130))), 1), at(131)))
    assert not later.down


def test_a_restart_that_waits_keeps_the_clock_running() -> None:
    found = there(goodput(Timesheet((KILLED,)), at(205), restart_waits=True))
    assert not found.over
    assert parts(found)["restarting"] == 100


def test_a_live_step_moves_the_end_of_what_is_known() -> None:
    sheet = Timesheet((replace(KILLED, died_at=None, seen_at=None, end=None),))
    assert parts(goodput(with_step(sheet, 91, at(120)), at(120)))["productive"] == 91
    # Of an attempt that is over, and from an older document, nothing is taken.
    assert with_step(Timesheet((KILLED,)), 91, at(120)).last == KILLED
    assert with_step(sheet, 60, at(90)) == sheet


numbers = st.integers(min_value=0, max_value=400)
moments = st.none() | st.integers(min_value=-50, max_value=3000).map(at)
ends = st.none() | st.sampled_from([Status.SUCCEEDED, Status.FAILED, Status.TIMED_OUT, Status.CANCELLED])
times = st.builds(
    AttemptTimes,
    number=st.integers(1, 9),
    submitted_at=moments,
    started_at=moments,
    resumed_from=st.none() | numbers,
    no_step_at=moments,
    first_step=st.none() | numbers,
    first_step_at=moments,
    first_is_told=st.booleans(),
    last_step=st.none() | numbers,
    last_step_at=moments,
    redone=numbers,
    still_s=st.floats(0, 1000),
    given_up_s=st.floats(0, 1000),
    died_at=moments,
    seen_at=moments,
    end=ends,
)


def adds_up(found: Goodput | None) -> None:
    assert found is not None
    assert all(seconds >= 0 for seconds in found.spent.values())
    assert sum(found.spent.values()) == pytest.approx(found.wall_s, abs=1e-3)
    assert found.ettr is None or 0 <= found.ettr <= (found.ettr_most or 0) <= 1


@settings(max_examples=examples(80))
@given(
    st.lists(times, min_size=1, max_size=6),
    st.integers(-100, 4000),
    st.booleans(),
    moments,
    st.integers(min_value=1, max_value=6),
)
def test_the_parts_add_up_to_the_wall_time_whatever_was_seen(
    attempts: list[AttemptTimes], now: int, waits: bool, watched_from: datetime | None, most: int
) -> None:
    sheet = Timesheet(tuple(attempts))
    whole = goodput(sheet, at(now), restart_waits=waits, watched_from=watched_from)
    if whole is None:
        return
    adds_up(whole)
    short = summed(sheet, most, watched_from)
    assert len(short.attempts) <= most
    # As it comes back from the record.
    kept = codec(Timesheet).read(codec(Timesheet).document(short))
    adds_up(goodput(kept, at(now), restart_waits=waits, watched_from=watched_from))


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 30)), min_size=3, max_size=12), st.integers(1, 3))
def test_attempts_that_are_summed_up_count_as_before(plan: list[tuple[int, int]], most: int) -> None:
    """Of attempts whose every moment is known, one step a second, each resuming up to so many steps back."""
    attempts, now, step = [], 0.0, 0
    for number, (steps, back) in enumerate(plan, 1):
        resumed = max(0, step - back)
        step = resumed + steps
        first, last = (resumed + 1, now + 6), (step, now + 5 + steps)
        died, seen = now + 5 + steps, now + 7 + steps
        attempts.append(attempt(number, now, now + 2, first, last, died, seen, resumed=resumed, told=True))
        now = seen + 3
    sheet = Timesheet(tuple(attempts))
    whole, short = goodput(sheet, at(now)), goodput(summed(sheet, most), at(now))
    assert whole is not None
    assert short is not None
    assert (short.attempts, short.first_attempt, short.failures) == (len(plan), 1, len(plan))
    assert short.detect_s == pytest.approx(whole.detect_s)
    assert short.recover_s == pytest.approx(whole.recover_s)
    adds_up(short)
    same = {use: seconds for use, seconds in whole.spent.items() if use not in {TimeUse.PRODUCTIVE, TimeUse.LOST}}
    assert {use: short.spent[use] for use in same} == pytest.approx(same)


def test_a_resume_before_what_was_summed_up_takes_its_steps_back() -> None:
    sheet = summed(Timesheet((KILLED, attempt(2, 105, 105, (72, 106), (80, 114), resumed=71))), 1)
    assert there(sheet.earlier).top_step == 71
    far = attempt(2, 105, 105, (22, 106), (23, 107), resumed=21)
    found = there(goodput(replace(sheet, attempts=(far,)), at(107)))
    assert (found.lost_steps, parts(found)["lost"]) == (50, 50 + 3)


def in_place(number: int, restarts: int, began: float) -> AttemptTimes:
    return replace(attempt(number, None, began, (10 * number, began), (10 * number + 5, began + 5)), in_place=restarts)


IN_PLACE: list[Any] = [
    pytest.param([in_place(3, 2, 0)], (3, 2, 3), id="no watcher saw the first two starts"),
    pytest.param([in_place(1, 0, 0), in_place(3, 2, 20)], (3, 1, 1), id="a watcher saw the first and the third"),
    pytest.param([in_place(1, 0, 0), in_place(2, 1, 10)], (2, 0, 1), id="a watcher saw each of them"),
    pytest.param([in_place(5, 1, 0)], (2, 1, 5), id="a second job: of the first one nothing is known"),
    pytest.param([in_place(2, 9, 0)], (2, 1, 2), id="more restarts than there can have been"),
    pytest.param([attempt(4, None, 0)], (1, 0, 4), id="not started in place: of the ones before nothing is known"),
]  # fmt: skip


@pytest.mark.parametrize(("attempts", "expected"), IN_PLACE)
@pytest.mark.parametrize("most", [16, 1])
def test_starts_in_place_that_no_watcher_saw_count(
    attempts: list[AttemptTimes], expected: tuple[int, int, int], most: int
) -> None:
    found = there(goodput(summed(Timesheet(tuple(attempts)), most), at(100)))
    assert (found.attempts, found.failures, found.first_attempt) == expected


def test_a_use_of_time_that_a_newer_version_knows_is_not_known_here() -> None:
    earlier = EarlierTimes(at(0), at(100), 3, {"productive": 60, "checkpointing": 40})
    found = there(goodput(Timesheet((attempt(4, 100),), earlier), at(110)))
    assert parts(found) == {"productive": 60, "unknown": 40, "queued": 10}
    adds_up(found)
