"""Groups while passes die, ledgers cannot be used and channels are down: nothing is lost, little is late."""

from datetime import timedelta

import pytest

from lastbeat.model.group import LEDGER, LEDGER_ID, Ledger
from lastbeat.stores.port import DeniedError, UnreachableError
from lastbeat.watch.effects.deferral import LONGEST_S
from lastbeat.watch.record.codec import encode
from support.groups import HOLD_S, Grouper, GroupWorld
from support.memory import Killed


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
