"""What each failure cost: training thrown away, and the time that the run lay dead. What is not known is not zero."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastbeat.model.action import Action
from lastbeat.model.losses import CountedFailure, Dimension, Loss, by_loss, grouped, step_range
from lastbeat.model.record import Attempt, HeartbeatMemory, Record, Transition
from lastbeat.model.restart import RESTART_KIND, FoundCheckpoint, Mode, RestartEntry
from lastbeat.model.state import State
from lastbeat.model.status import Status
from lastbeat.model.timesheet import AttemptTimes, Timesheet
from lastbeat.watch.decide.losses import counted_failures
from support.laws import examples
from support.states import with_state

ZERO = datetime(2026, 3, 1, tzinfo=timezone.utc)
RUNNING, FAILED, TIMED_OUT = Status.RUNNING, Status.FAILED, Status.TIMED_OUT
SUCCEEDED, CANCELLED = Status.SUCCEEDED, Status.CANCELLED
Told = tuple[float, Status, int]


def at(hours: float | None) -> datetime:
    return ZERO + timedelta(hours=hours or 0.0)


def times(
    number: int, began: float, *steps: tuple[int, float], died: float | None = None, seen: float | None = None,
    resumed: int | None = None, told: bool = False, still: float = 0.0, given_up: float = 0.0,
) -> AttemptTimes:  # fmt: skip
    """Hours since zero; ``steps``: the first and the last one with their times. ``still``, ``given_up`` in hours."""
    first, last = (steps[0], steps[-1]) if steps else (None, None)
    return AttemptTimes(
        number, None, at(began), resumed, None,
        first[0] if first else None, at(first[1]) if first else None, told,
        last[0] if last else None, at(last[1]) if last else None,
        0, still * 3600, given_up * 3600,
        at(died) if died is not None else None, at(seen) if seen is not None else None,
        FAILED if seen is not None else None,
    )  # fmt: skip


def record(*told: Told, sheet: tuple[AttemptTimes, ...] = (), cause: str = "nccl", **more: object) -> Record:
    """Its transitions: hours since zero, status, attempt."""
    history = tuple(
        Transition(
            number, at(hours), None, after, "boom", attempt, cause=cause if after is FAILED else None,
            signal="nccl_timeout", fingerprint="aa" if after is FAILED else None, node="node-1",
        )
        for number, (hours, after, attempt) in enumerate(told, 1)
    )  # fmt: skip
    last = max((attempt for _, _, attempt in told), default=1)
    whole = Record(
        "run", State(told[-1][1]) if told else None, attempt=Attempt(last), history=history,
        transitions=len(history), timesheet=Timesheet(sheet) if sheet else None,
    )  # fmt: skip
    return replace(whole, **more)  # type: ignore[arg-type]


def failures(held: Record, now: float = 100.0) -> list[CountedFailure]:
    return list(counted_failures(held, at(now)))


def hours(loss: Loss) -> tuple[float | None, float | None]:
    thrown, dead = loss.thrown_away_s, loss.dead_s
    return None if thrown is None else round(thrown / 3600, 3), None if dead is None else round(dead / 3600, 3)


BEGUN, BROKE, AGAIN = (0.0, RUNNING, 1), (11.5, FAILED, 1), (15.0, RUNNING, 2)
# 100 steps in ten hours, dead at 11, seen half an hour later.
FIRST = times(1, 0, (1, 0.1), (100, 10.0), died=11, seen=11.5, told=True)
RESUMED = times(2, 15, (61, 15.1), told=True)
COSTS = [
    pytest.param(record(BEGUN, BROKE, AGAIN, sheet=(FIRST, RESUMED)), (5.0, 4.0),
                 id="the next attempt began at step 61: 40 steps, the hour after the last, and four hours dead"),
    pytest.param(record(BEGUN, BROKE, AGAIN, sheet=(FIRST, times(2, 15))), (None, 4.0),
                 id="nobody knows from where it went on: what was thrown away is not known"),
    pytest.param(record(BEGUN, BROKE, sheet=(FIRST,)), (None, 0.5),
                 id="nobody has started it again, and no checkpoint is known"),
    pytest.param(record(BEGUN, BROKE, sheet=(FIRST,), checkpoint=FoundCheckpoint("/c", 80, at(8), at(11))), (3.0, 0.5),
                 id="nobody has, and the last checkpoint is of step 80"),
    pytest.param(record(BEGUN, (2.5, FAILED, 1), (3.0, RUNNING, 2), sheet=(times(1, 0, died=2, seen=2.5), RESUMED)),
                 (2.0, 13.0), id="it died before its first step: all of it"),
    pytest.param(record(BEGUN, (2.5, FAILED, 1), sheet=(times(1, 0, died=2, seen=2.5),)), (None, 0.5),
                 id="of a run that never shows steps nobody knows whether it made some"),
    pytest.param(
        record(BEGUN, BROKE, AGAIN), (None, 3.5), id="its times are no longer kept: from the look that saw it"),
    pytest.param(record(BEGUN, BROKE), (None, None), id="the same, and nobody has started it again: nothing is known"),
    pytest.param(
        record(BEGUN, BROKE, sheet=(replace(FIRST, died_at=None),)), (None, None), id="nobody knows when it died"),
]  # fmt: skip


@pytest.mark.parametrize(("held", "cost"), COSTS)
def test_what_the_first_failure_cost(held: Record, cost: tuple[float | None, float | None]) -> None:
    (failure,) = [each for each in failures(held) if each.attempt == 1]
    thrown, dead = hours(failure.loss)
    assert (thrown if thrown is None else round(thrown, 1), dead) == cost
    assert (failure.error_type, failure.signal, failure.fingerprint, failure.node) == (
        "nccl",
        "nccl_timeout",
        "aa",
        "node-1",
    )


WATCHED: list[Any] = [
    pytest.param({"first_looked_at": at(11.5)}, 3.5, id="it was dead when a watcher first looked: from that look on"),
    pytest.param({"first_looked_at": at(11.2)}, 3.8, id="the first look came after its death, and a later one saw it"),
    pytest.param({"first_looked_at": at(0.0)}, 4.0, id="it was watched all the while"),
    pytest.param({"first_looked_at": at(11.5), "fleet_watched": True}, 4.0, id="its fleet was watched before it"),
    pytest.param({"first_looked_at": at(11.5), "sheet": ()}, 3.5, id="the same where its times are no longer kept"),
]  # fmt: skip


@pytest.mark.parametrize(("more", "dead"), WATCHED)
def test_dead_time_counts_from_the_first_look(more: dict[str, Any], dead: float) -> None:
    held = record(BEGUN, BROKE, AGAIN, **{"sheet": (FIRST, RESUMED), **more})
    first = next(each for each in failures(held) if each.attempt == 1)
    assert hours(first.loss)[1] == pytest.approx(dead)


def test_a_run_that_was_dead_at_the_first_look_and_stays_so_has_lost_no_hour() -> None:
    held = record(BROKE, sheet=(FIRST,), first_looked_at=at(11.5))
    (failure,) = failures(held)
    assert hours(failure.loss)[1] == 0.0
    assert (failure.happened_at, failure.at) == (at(11), at(11.5))


LEFT_DOWN: list[Any] = [
    pytest.param({"cause": "oom"}, 0.5, id="no restart helps: from its alert on, people mend it in their own time"),
    pytest.param({"cause": "nccl"}, 4.0, id="a restart helps, and came late"),
    pytest.param({"cause": "a type of their own catalogue"}, 4.0, id="whether a restart helps is not known"),
    pytest.param({"cause": "oom", "sheet": ()}, None, id="no restart helps, and when it died is not known"),
    pytest.param(
        {"cause": "oom", "restarts": (RestartEntry(at(11.6), Mode.CRASH, "oom"),)}, 4.0,
        id="no restart helps, and the policy decided one"),
]  # fmt: skip


@pytest.mark.parametrize(("more", "dead"), LEFT_DOWN)
def test_what_is_not_to_be_restarted_is_dead_until_its_alert(more: dict[str, Any], dead: float | None) -> None:
    held = record(BEGUN, BROKE, AGAIN, **{"sheet": (FIRST, RESUMED), **more})
    first = next(each for each in failures(held) if each.attempt == 1)
    assert hours(first.loss)[1] == dead


def test_a_restart_that_waits_keeps_the_hours_growing() -> None:
    action = Action("run-r1", RESTART_KIND, at(12), "", "")
    held = record(BEGUN, BROKE, sheet=(FIRST,), cause="oom", actions=(action,))
    (failure,) = failures(held, now=20.0)
    assert hours(failure.loss)[1] == 9.0


NONE = [
    pytest.param(record(BEGUN, (5, SUCCEEDED, 1)), id="it ended well"),
    pytest.param(record(BEGUN, (5, CANCELLED, 1)), id="somebody asked for its end"),
    pytest.param(record(BEGUN, (5, TIMED_OUT, 1), (6, RUNNING, 1)), id="it was merely silent, and lived on"),
    pytest.param(record(), id="nothing is recorded"),
]


@pytest.mark.parametrize("held", NONE)
def test_what_is_no_failure(held: Record) -> None:
    assert failures(held) == []


def test_the_time_in_which_it_stood_still_is_lost_though_it_went_on_by_itself() -> None:
    sheet = (times(1, 0, (1, 1), (50, 20), told=True, still=2, given_up=3),)
    stood = with_state(record(BEGUN, (5, TIMED_OUT, 1), (8, RUNNING, 1), sheet=sheet), status=RUNNING)
    (failure,) = failures(stood)
    assert hours(failure.loss) == (0.0, 5.0)
    assert failure.started_again


def test_the_cause_is_told_that_came_after_the_silence() -> None:
    held = record(BEGUN, (5, TIMED_OUT, 1), (6, FAILED, 1))
    (failure,) = failures(held)
    assert (failure.at, failure.status, failure.error_type) == (at(5), TIMED_OUT, "nccl")


def test_whose_run_it_is_and_where_its_steps_were() -> None:
    held = record(
        BEGUN, BROKE, AGAIN, sheet=(FIRST, RESUMED), metadata=HeartbeatMemory(ZERO, owner="alice")
    )  # fmt: skip
    (failure,) = failures(held)
    assert (failure.user, failure.step, failure.early, failure.started_again) == ("alice", 100, False, True)


@pytest.mark.parametrize(
    ("step", "early", "told"),
    [(None, True, "before the first step"), (None, False, ""), (0, False, "0 to 9"), (9, False, "0 to 9"),
     (10, False, "10 to 99"), (4711, False, "1,000 to 9,999"), (100_000, False, "100,000 to 999,999")],
)  # fmt: skip
def test_ranges_of_steps(step: int | None, early: bool, told: str) -> None:
    assert step_range(step, early=early) == told


def failed(run: str, thrown: float | None, dead: float | None, **more: object) -> CountedFailure:
    whole = CountedFailure(run, 1, ZERO, FAILED, "oom", loss=Loss(thrown, dead))
    return replace(whole, **more)  # type: ignore[arg-type]


def test_what_lost_most_comes_first_and_what_is_not_known_last() -> None:
    some = [
        failed("a", 100, 50, fingerprint="small"),
        failed("b", 3600, None, fingerprint="large"),
        failed("c", None, None, fingerprint="unknown"),
        failed("d", None, None, fingerprint="unknown"),
        failed("a", 3600, 0, fingerprint="large"),
    ]
    (cause,) = grouped(some, Dimension.CAUSE)
    assert (cause.name, cause.lost_s, cause.at_least, cause.failures, len(cause.runs)) == (
        "oom FAILED",
        7350,
        True,
        5,
        4,
    )
    groups = by_loss(cause.fingerprints.values())
    assert [(each.name, each.lost_s, each.at_least, each.failures, len(each.runs)) for each in groups] == [
        ("large", 7200, True, 2, 2),
        ("small", 150, False, 1, 1),
        ("unknown", None, True, 2, 2),
    ]


def test_one_cause_in_other_words_is_one_cause() -> None:
    some = [
        failed("a", 10, 0, fingerprint="short", signal="x", said="timed out"),
        failed("b", 30, 0, fingerprint="long", signal="x", said="timed out after 600042 ms"),
        failed("c", 5, 0, fingerprint="other", signal="y"),
    ]
    groups = grouped(some, Dimension.CAUSE)
    assert [(each.name, each.failures, list(each.fingerprints)) for each in groups] == [
        ("oom x", 2, ["short", "long"]),
        ("oom y", 1, ["other"]),
    ]


def test_the_latest_failure_is_the_one_that_happened_last_not_the_one_that_was_seen_last() -> None:
    old = failed("old", 1, 1, at=at(50), died_at=at(2))
    new = failed("new", 1, 1, at=at(49), died_at=at(48))
    unknown = failed("unknown", 1, 1, at=at(40))
    for some in ([old, new, unknown], [new, unknown, old]):
        (group,) = grouped(some, Dimension.CAUSE)
        assert group.latest is not None
        assert (group.latest.run_id, group.latest.happened_at) == ("new", at(48))


moments = st.lists(st.floats(0, 200, allow_nan=False), min_size=2, max_size=8).map(sorted)


@settings(max_examples=examples(80))
@given(moments, st.integers(1, 500), st.integers(0, 500), st.floats(-5, 300), st.booleans())
def test_law_no_failure_costs_less_than_nothing_or_more_than_the_wall_time(
    marks: list[float], top: int, resumed: int, now: float, told: bool
) -> None:
    first = times(1, marks[0], (1, marks[0]), (top, marks[-2]), died=marks[-1], seen=marks[-1] + 1, told=told)
    second = times(2, marks[-1] + 3, (resumed, marks[-1] + 4), told=True)
    held = record((0, RUNNING, 1), (marks[-1] + 1, FAILED, 1), (marks[-1] + 3, RUNNING, 2), sheet=(first, second))
    for each in failures(held, now):
        thrown, dead = each.loss.thrown_away_s or 0.0, each.loss.dead_s or 0.0
        assert thrown >= 0
        assert dead >= 0
        assert thrown + dead <= 3600 * (marks[-1] + 3 - marks[0]) + 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.floats(0, 1e6), st.none() | st.floats(0, 1e6))))
def test_law_each_grouping_counts_every_failure_and_every_hour_once(
    told: list[tuple[str, float | None, float | None]],
) -> None:
    some = [failed(run, thrown, dead, fingerprint=run, node=run or None) for run, thrown, dead in told]
    for by in Dimension:
        groups = grouped(some, by)
        if by is Dimension.CAUSE:
            groups = [each for group in groups for each in group.fingerprints.values()]
        assert sum(each.failures for each in groups) == len(some)
        lost = sum(each.lost_s or 0.0 for each in groups)
        assert lost == pytest.approx(sum((thrown or 0.0) + (dead or 0.0) for _, thrown, dead in told))
