"""Which runs belong together: the bounds, and what they share. Histories are in unit/fleet/test_groups.py."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from lastbeat.model.alert import Message
from lastbeat.model.group import LEDGER_ID, DeferredAlert, Group, Ledger, Member
from lastbeat.model.policy import FleetPolicy
from lastbeat.model.status import Event, Status
from lastbeat.watch.decide.groups import (
    MEMBER_LIMIT,
    OPEN_LIMIT,
    GroupDecision,
    count_facts,
    decide_groups,
    idle,
    shared_facts,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
POLICY = FleetPolicy(group_runs=3)


def held(
    runs: Iterable[object], event: Event = Event.TIMED_OUT, number: int = 1, facts: Mapping[str, str] | None = None
) -> list[DeferredAlert]:
    message = Message("run", event, Status.TIMED_OUT, "silent", NOW)
    return [DeferredAlert(f"run-{run}", number, event, message, facts or {}) for run in runs]


def planned(
    ledger: Ledger, news: list[DeferredAlert], after_s: float = 0.0, known: Mapping[str, Status] | None = None
) -> GroupDecision:
    decided = decide_groups(ledger, news, (known or {}).get, NOW + timedelta(seconds=after_s), POLICY)
    return replace(decided, ledger=replace(decided.ledger, alerts=ledger.alerts + len(decided.notices)))


def test_every_held_alert_is_given_away_in_exactly_one_way() -> None:
    first = planned(Ledger(LEDGER_ID), held("abc"))
    second = planned(first.ledger, [*held("de"), *held("a", Event.RECOVERED, 2), *held("x", Event.RECOVERED)], 60)
    assert (set(first.told), first.release, first.wait) == ({"run-a", "run-b", "run-c"}, {}, {})
    assert (set(second.wait), second.release, second.told) == ({"run-a", "run-d", "run-e"}, {"run-x": (1,)}, {})


def test_what_was_given_away_stays_so_whoever_asks_again() -> None:
    ledger = planned(Ledger(LEDGER_ID), held("ab")).ledger
    again = planned(ledger, held("ab"))
    assert (set(again.release), again.changed) == ({"run-a", "run-b"}, False)
    ledger = planned(ledger, held("cd"), 30).ledger
    again = planned(ledger, [*held("a"), *held("cd")], 60)
    assert (set(again.release), set(again.told), again.changed) == ({"run-a"}, {"run-c", "run-d"}, False)


def test_a_pass_without_news_changes_nothing() -> None:
    ledger = planned(Ledger(LEDGER_ID), held("abc")).ledger
    assert not idle(ledger)
    for after_s in (0, 60, 301, 3600):
        assert not planned(ledger, [], after_s, {"run-a": Status.TIMED_OUT, "run-b": Status.UNKNOWN}).changed


@pytest.mark.parametrize(
    ("status", "closed"),
    [
        pytest.param(Status.FAILED, True, id="that failed"),
        pytest.param(Status.SUCCEEDED, True, id="that succeeded"),
        pytest.param(Status.RUNNING, True, id="that runs again, of which nobody wanted to be told"),
        pytest.param(Status.TIMED_OUT, False, id="but none that still is out"),
        pytest.param(Status.UNKNOWN, False, id="nor one that could not be seen"),
        pytest.param(None, False, id="nor one that nothing is known of"),
    ],
)
def test_members_leave(status: Status | None, closed: bool) -> None:
    ledger = planned(Ledger(LEDGER_ID), held("abc")).ledger
    after = planned(ledger, [], 60, {f"run-{run}": status for run in "abc"} if status else {})
    assert idle(after.ledger) == closed
    assert after.notices == ()


def test_a_run_that_came_back_before_the_next_notice_is_told_of_twice_in_it() -> None:
    ledger = planned(Ledger(LEDGER_ID), held("abc")).ledger
    ledger = planned(ledger, held("d"), 60).ledger
    ledger = planned(ledger, held("d", Event.RECOVERED, 2), 120).ledger
    after = planned(ledger, [], 301)
    assert [(notice.event, notice.runs) for notice in after.notices] == [
        (Event.TIMED_OUT, ("run-d",)),
        (Event.RECOVERED, ("run-d",)),
    ]
    assert after.told == {"run-d": {2: (1,), 3: (2,)}}


def test_no_more_than_twenty_groups_are_open() -> None:
    ledger = Ledger(LEDGER_ID)
    for number in range(OPEN_LIMIT + 3):
        ledger = planned(ledger, held(f"{number}-{run}" for run in "abc"), number * 400).ledger
    assert len(ledger.groups) == OPEN_LIMIT
    assert len(ledger.groups[-1].members) == 12, "the others join the youngest"


def test_what_a_full_group_cannot_take_is_told_alone() -> None:
    everybody = {f"other-{run}": Member() for run in range(MEMBER_LIMIT - 1)}
    ledger = Ledger(LEDGER_ID, opened=1, groups=(Group(1, NOW, NOW, told_at=NOW, members=everybody),))
    after = planned(ledger, held("abc"))
    assert len(after.ledger.groups[0].members) == MEMBER_LIMIT
    assert (sum(run.startswith("run-") for run in after.wait), len(after.release)) == (1, 2)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param([{"Zone": "a"}] * 5, {"Zone": "a (all 5)"}, id="all of them"),
        pytest.param([{"Zone": "a"}] * 4 + [{"Zone": "b"}], {"Zone": "a (4 of 5)"}, id="four of five"),
        pytest.param([{"Zone": "a"}] * 3 + [{"Zone": "b"}] * 2, {}, id="three of five are too few"),
        pytest.param([{"Zone": "a"}] * 2 + [{}] * 3, {"Zone": "a (all 2 where it is known)"}, id="where it is known"),
        pytest.param([{"Zone": "a"}] + [{}] * 4, {}, id="one alone shares nothing"),
        pytest.param([{"Host": str(n)} for n in range(400)] + [{"Host": "x"}] * 3600, {"Host": "x (3600 of 4000)"},
                     id="beside many that occur once"),
        pytest.param([{"Zone": "a", "Phase": "train", "Odd": "x"}] * 2, {"Zone": "a (all 2)", "Phase": "train (all 2)"},
                     id="several things"),
    ],
)  # fmt: skip
def test_what_they_share(facts: list[dict[str, str]], expected: dict[str, str]) -> None:
    group = count_facts(Group(1, NOW, NOW, members={str(n): Member() for n in range(len(facts))}), facts)
    assert shared_facts(group) == expected
    assert all(len(values) <= 50 for values in group.facts.values())
