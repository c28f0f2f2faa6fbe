"""Runs that time out together are told of together, as people know it from Alertmanager."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from lastbeat.alerts.document import document
from lastbeat.alerts.plain import render
from lastbeat.model.group import LEDGER, LEDGER_ID, Ledger
from lastbeat.model.policy import FleetPolicy
from lastbeat.stores.port import DeniedError, UnreachableError
from lastbeat.watch.effects.deferral import LONGEST_S
from lastbeat.watch.record.codec import encode
from support.channel import ListChannel, down
from support.groups import HOLD_S, Grouper, GroupWorld
from support.memory import Killed
from support.row_by_row import labelled

MINUTE = 60.0
Act = Callable[[GroupWorld], object]
Step = tuple[float, Act]


def nothing(_world: GroupWorld) -> None:
    pass


def silence(*numbers: int) -> Act:
    return lambda s: s.silence([s.run_ids[number] for number in numbers])


def wake(*numbers: int) -> Act:
    return lambda s: s.wake([s.run_ids[number] for number in numbers])


def fail(number: int) -> Act:
    return lambda s: s.run(s.run_ids[number]).error("boom")


HISTORIES: list[tuple[str, list[Step], list[str]]] = [
    ("fewer than the threshold are told of one by one, at once", [(60, silence(0, 1))],
     ["TIMED_OUT run-00", "TIMED_OUT run-01"]),
    ("from the threshold on one alert tells of all of them, at once", [(60, silence(0, 1, 2, 3)), (60, nothing)],
     ["TIMED_OUT 4: run-00 run-01 run-02 run-03"]),
    ("those that were told of one by one count, and are not told of again", [(60, silence(0, 1)), (60, silence(2, 3))],
     ["TIMED_OUT run-00", "TIMED_OUT run-01", "TIMED_OUT 2: run-02 run-03"]),
    ("those that timed out longer ago than the window do not count", [(60, silence(0, 1)), (6 * MINUTE, silence(2))],
     ["TIMED_OUT run-00", "TIMED_OUT run-01", "TIMED_OUT run-02"]),
    ("one that times out soon after joins, and is told of with the next notice",
     [(60, silence(0, 1, 2)), (60, silence(3)), (60, silence(4)), (60, nothing), (60, nothing), (60, nothing)],
     ["TIMED_OUT 3: run-00 run-01 run-02", "TIMED_OUT 2: run-03 run-04"]),
    ("one that times out long after is told of by itself", [(60, silence(0, 1, 2)), (6 * MINUTE, silence(3))],
     ["TIMED_OUT 3: run-00 run-01 run-02", "TIMED_OUT run-03"]),
    ("those that come back are told of together",
     [(60, silence(0, 1, 2)), (6 * MINUTE, wake(0, 1)), (60, wake(2)), (6 * MINUTE, nothing)],
     ["TIMED_OUT 3: run-00 run-01 run-02", "RECOVERED 2: run-00 run-01", "RECOVERED 1: run-02"]),
    ("those that come back soon after are told of no sooner than after the interval",
     [(60, silence(0, 1, 2)), (60, wake(0)), (60, wake(1, 2)), (60, nothing), (60, nothing), (60, nothing)],
     ["TIMED_OUT 3: run-00 run-01 run-02", "RECOVERED 3: run-00 run-01 run-02"]),
    ("the return of those that were told of one by one is told with the others'",
     [(60, silence(0, 1)), (60, silence(2, 3)), (6 * MINUTE, wake(0, 1, 2, 3))],
     ["TIMED_OUT run-00", "TIMED_OUT run-01", "TIMED_OUT 2: run-02 run-03",
      "RECOVERED 4: run-00 run-01 run-02 run-03"]),
    ("a member that fails is told of by itself and leaves",
     [(60, silence(0, 1, 2)), (60, fail(0)), (6 * MINUTE, wake(1, 2))],
     ["TIMED_OUT 3: run-00 run-01 run-02", "FAILED run-00", "RECOVERED 2: run-01 run-02"]),
    ("one that came back and failed before the notice of its return is told of in that order, and at once",
     [(60, silence(0, 1, 2)), (60, wake(0)), (60, fail(0)), (6 * MINUTE, wake(1, 2))],
     ["TIMED_OUT 3: run-00 run-01 run-02", "RECOVERED run-00", "FAILED run-00", "RECOVERED 2: run-01 run-02"]),
    ("one that joined late and failed before the next notice is told of in that order, and at once",
     [(60, silence(0, 1, 2)), (60, silence(3)), (60, fail(3)), (6 * MINUTE, nothing)],
     ["TIMED_OUT 3: run-00 run-01 run-02", "TIMED_OUT run-03", "FAILED run-03"]),
    ("a group that is over is over: who times out then is counted anew",
     [(60, silence(0, 1, 2)), (6 * MINUTE, wake(0, 1, 2)), (60, silence(0))],
     ["TIMED_OUT 3: run-00 run-01 run-02", "RECOVERED 3: run-00 run-01 run-02", "TIMED_OUT run-00"]),
    ("a member that times out again is told of with the next notice",
     [(60, silence(0, 1, 2)), (6 * MINUTE, wake(0)), (60, silence(0)), (6 * MINUTE, nothing)],
     ["TIMED_OUT 3: run-00 run-01 run-02", "RECOVERED 1: run-00", "TIMED_OUT 1: run-00"]),
    ("one for whose notice no pass came in time went out alone, and the notice does not tell of it again",
     [(60, silence(0, 1, 2)), (60, silence(3)), (60 * MINUTE, nothing), (60, nothing)],
     ["TIMED_OUT 3: run-00 run-01 run-02", "TIMED_OUT run-03"]),
    ("a group that lasts is told of once", [(60, silence(0, 1, 2)), *[(3600, nothing)] * 12],
     ["TIMED_OUT 3: run-00 run-01 run-02"]),
]  # fmt: skip


@pytest.mark.parametrize("restarted", [pytest.param(True, id="--once"), pytest.param(False, id="loop")])
@pytest.mark.parametrize(("steps", "told"), labelled(HISTORIES))
def test_history(steps: list[Step], told: list[str], restarted: bool) -> None:
    world = GroupWorld(6)
    world.grouper.sweep()
    for seconds, act in steps:
        world.after(seconds)
        act(world)
        (Grouper(world) if restarted else world.grouper).sweep()
    assert world.alerts() == told
    assert world.unsettled() == set()


def test_a_notice_says_what_they_share_and_how_many_are_watched() -> None:
    world = GroupWorld(10, FleetPolicy(group_runs=5))
    for run_id in world.run_ids[:6]:
        world.facts[run_id] = {"zone": "us-east-1a", "instance_type": "p5.48xlarge", "host": f"ip-{run_id}"}
    world.facts["run-00"]["zone"] = "us-east-1b"
    world.grouper.sweep()
    world.after(60)
    world.silence(world.run_ids[:6])
    world.grouper.sweep()
    (notice,) = world.channel.sent
    assert notice.shared == {
        "Instance type": "p5.48xlarge (all 6)",
        "Zone": "us-east-1a (5 of 6)",
        "Phase": "train (all 6)",
        "Reason": "Both heartbeats stale (>10m); no progress.json was ever written (all 6)",
    }
    assert notice.reason == "6 of the 10 runs being watched timed out together"


def test_a_group_that_lasts_is_told_again_only_where_asked_for() -> None:
    world = GroupWorld(3, FleetPolicy(group_runs=3, repeat_s=3600.0))
    world.silence(world.run_ids)
    for _ in range(125):
        world.grouper.sweep()
        world.after(60)
    assert world.alerts() == ["TIMED_OUT 3: run-00 run-01 run-02"] * 3
    assert "still are, after 1h" in world.channel.sent[1].reason
    assert len({message.key for message in world.channel.sent}) == 3


def test_a_large_group_names_all_to_programs_and_fifty_to_people() -> None:
    world = GroupWorld(60)
    world.silence(world.run_ids)
    world.grouper.sweep()
    (notice,) = world.channel.sent
    assert (notice.members, notice.member_count) == (world.run_ids, 60)
    assert document(notice)["members_left_out"] == 0
    assert render(notice).endswith("run-49\n│   and 10 more")
    assert world.unsettled() == set()


@pytest.mark.parametrize("delivered", [True, False])
def test_a_changed_address_gets_the_notice_only_if_nobody_did(delivered: bool) -> None:
    world = GroupWorld(4)
    world.grouper.sweep()
    world.after(60)
    world.silence(world.run_ids)
    if not delivered:
        world.channel.fault = down
    world.grouper.sweep()
    world.channel = ListChannel("list:changed")
    for _ in range(5):
        world.after(60)
        Grouper(world).sweep()
    assert world.alerts() == ([] if delivered else ["TIMED_OUT 4: run-00 run-01 run-02 run-03"])
    world.after(360)
    world.wake(world.run_ids)
    Grouper(world).sweep()
    assert world.alerts()[-1] == "RECOVERED 4: run-00 run-01 run-02 run-03", "what is new goes to the new address"


def test_what_a_pass_that_died_left_held_goes_out_when_the_hold_has_run_out_whoever_comes() -> None:
    world = GroupWorld(3)
    world.silence(["run-00"])
    world.store.after = lambda operation, key: _die_of(operation == "write" and key == "run-00/_watchdog.json")
    with pytest.raises(Killed):
        world.grouper.sweep()
    world.store.heal()
    single = world.fresh_watch("run-00")
    single.tick()
    assert world.alerts() == [], "a sweep may still come for it"
    world.after(HOLD_S + 1)
    single.tick()
    assert world.alerts() == ["TIMED_OUT run-00"]


def _die_of(it: bool) -> None:
    if it:
        raise Killed


@pytest.mark.parametrize("operation", ["read", "write"])
def test_without_a_ledger_everything_is_told_one_by_one(operation: str) -> None:
    world = GroupWorld(4)
    world.silence(world.run_ids[:3])
    world.grouper.sweep()
    world.after(60)
    world.silence(["run-03"])
    world.store.refuse(operation, DeniedError("access denied"), under=LEDGER)
    decision = Grouper(world).sweep()
    assert "access denied" in (decision.note or "")
    assert world.alerts()[1:] == ["TIMED_OUT run-03"]


@pytest.mark.parametrize("operation", ["read", "write"])
def test_while_the_ledger_does_not_answer_alerts_stay_held_and_are_told_together_later(operation: str) -> None:
    world = GroupWorld(4)
    world.store.put_text(LEDGER, encode(Ledger(LEDGER_ID)).decode())
    world.silence(world.run_ids)
    world.store.refuse(operation, UnreachableError("503"), under=LEDGER)
    world.grouper.sweep()
    assert world.alerts() == []
    world.store.heal()
    world.after(60)
    world.grouper.sweep()
    assert world.alerts() == ["TIMED_OUT 4: run-00 run-01 run-02 run-03"]


def test_a_ledger_that_never_answers_delays_alerts_and_keeps_none() -> None:
    world = GroupWorld(4)
    world.silence(world.run_ids)
    world.store.refuse("any", UnreachableError("503"), under=LEDGER)
    for _ in range(int(LONGEST_S // 60)):
        world.grouper.sweep()
        assert world.alerts() == []
        world.after(60)
    world.after(HOLD_S)
    world.grouper.sweep()
    assert sorted(world.alerts()) == [f"TIMED_OUT {run_id}" for run_id in world.run_ids]


def test_a_damaged_ledger_is_begun_anew_and_said_so() -> None:
    world = GroupWorld(4)
    world.store.put_text(LEDGER, '{"schema": 1')
    world.silence(world.run_ids[:3])
    decision = world.grouper.sweep()
    assert "damaged" in (decision.note or "")
    assert world.alerts() == ["TIMED_OUT 3: run-00 run-01 run-02"]


def test_passes_without_news_ask_the_ledger_nothing() -> None:
    world = GroupWorld(4)
    world.grouper.sweep()
    assert not [key for _, key in world.store.calls if key == LEDGER], "none was ever needed"
    world.silence(world.run_ids)
    world.grouper.sweep()
    world.store.calls.clear()
    for _ in range(10):
        world.after(60)
        world.grouper.sweep()
    assert not [key for _, key in world.store.calls if key == LEDGER], "known already, and unchanged"


def test_a_pass_that_listed_nothing_asks_for_the_ledger_once_and_while_there_is_something_to_decide() -> None:
    world = GroupWorld(4)
    for _ in range(3):
        world.grouper.sweep(listed=False)
    assert [operation for operation, key in world.store.calls if key == LEDGER] == ["read"]
    world.silence(world.run_ids)
    world.grouper.sweep(listed=False)
    world.after(400)
    world.wake(world.run_ids)
    Grouper(world).sweep(listed=False)
    names = " ".join(world.run_ids)
    assert world.alerts() == [f"TIMED_OUT 4: {names}", f"RECOVERED 4: {names}"]


def test_a_record_that_is_deleted_in_the_middle_of_a_pass_loses_no_alert() -> None:
    world = GroupWorld(1)
    world.silence(["run-00"])

    def meanwhile(operation: str, key: str) -> None:
        if (operation, key) == ("write", LEDGER):
            world.store.held.pop("run-00/_watchdog.json", None)

    world.store.before = meanwhile
    world.grouper.sweep()
    assert world.alerts() == ["TIMED_OUT run-00"]


def test_a_group_that_stays_out_is_let_go_of_after_a_quiet_day() -> None:
    world = GroupWorld(3)
    world.silence(world.run_ids)
    world.grouper.sweep()
    world.after(timedelta(hours=25).total_seconds())
    world.grouper.sweep()
    world.wake(world.run_ids)
    world.grouper.sweep()
    assert world.alerts()[1:] == [f"RECOVERED run-{number:02d}" for number in range(3)]
