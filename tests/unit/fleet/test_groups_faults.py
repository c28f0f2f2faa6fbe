"""Groups while passes die, ledgers cannot be used and channels are down: nothing is lost, little is late."""

from datetime import timedelta

import pytest

from lastbeat.deliver.port import DeliveryError
from lastbeat.effects.deferral import LONGEST_S
from lastbeat.model.group import LEDGER, LEDGER_ID, Ledger
from lastbeat.record.codec import encode
from lastbeat.stores.port import DeniedError, UnreachableError
from lastbeat.watchdog import Watch, WatchContext
from support.channel import down
from support.groups import HOLD_S, GroupScene, Sweeper
from support.memory import Killed

MINUTE = 60.0


def test_what_a_pass_that_died_left_held_goes_out_when_the_hold_has_run_out_whoever_comes() -> None:
    scene = GroupScene(3)
    scene.silence(["run-00"])
    scene.store.after = lambda operation, key: _die_of(operation == "write" and key == "run-00/_watchdog.json")
    with pytest.raises(Killed):
        scene.sweeper.sweep()
    scene.store.heal()
    single = Watch("run-00", WatchContext(scene.store, [scene.channel], scene.policy, scene.store.clock))
    single.tick()
    assert scene.told() == [], "a sweep may still come for it"
    scene.after(HOLD_S + 1)
    single.tick()
    assert scene.told() == ["TIMED_OUT run-00"]


def _die_of(it: bool) -> None:
    if it:
        raise Killed


def test_a_watch_of_one_run_holds_nothing() -> None:
    scene = GroupScene(1)
    scene.silence(["run-00"])
    Watch("run-00", WatchContext(scene.store, [scene.channel], scene.policy, scene.store.clock)).tick()
    assert scene.told() == ["TIMED_OUT run-00"]


def test_a_held_alert_goes_out_as_soon_as_a_newer_one_of_its_run_waits_for_it() -> None:
    scene = GroupScene(6)
    scene.silence(scene.run_ids[:3])
    scene.sweeper.sweep()
    scene.after(60)
    scene.silence(["run-03"])
    scene.sweeper.sweep()
    scene.after(60)
    scene.store.put_text(f"{scene.run_ids[3]}/_error", "boom")
    scene.sweeper.sweep()
    assert scene.told()[1:] == ["TIMED_OUT run-03", "FAILED run-03"]
    scene.after(300)
    scene.sweeper.sweep()
    assert scene.told()[3:] == [], "and the group does not repeat it"


@pytest.mark.parametrize("operation", ["read", "write"])
def test_without_a_ledger_everything_is_told_one_by_one(operation: str) -> None:
    scene = GroupScene(4)
    scene.silence(scene.run_ids[:3])
    scene.sweeper.sweep()
    scene.after(60)
    scene.silence(["run-03"])

    def deny(asked: str, key: str) -> None:
        if (asked, key) == (operation, LEDGER):
            raise DeniedError("access denied")

    scene.store.before = deny
    decision = Sweeper(scene).sweep()
    assert "access denied" in (decision.note or "")
    assert scene.told()[1:] == ["TIMED_OUT run-03"]


@pytest.mark.parametrize("operation", ["read", "write"])
def test_while_the_ledger_does_not_answer_alerts_stay_held_and_are_told_together_later(operation: str) -> None:
    scene = GroupScene(4)
    scene.store.put_text(LEDGER, encode(Ledger(LEDGER_ID)).decode())
    scene.silence(scene.run_ids)

    def fail(asked: str, key: str) -> None:
        if (asked, key) == (operation, LEDGER):
            raise UnreachableError("503")

    scene.store.before = fail
    scene.sweeper.sweep()
    assert scene.told() == []
    scene.store.heal()
    scene.after(60)
    scene.sweeper.sweep()
    assert scene.told() == ["TIMED_OUT 4: run-00 run-01 run-02 run-03"]


def test_a_ledger_that_never_answers_delays_alerts_and_keeps_none() -> None:
    scene = GroupScene(4)
    scene.silence(scene.run_ids)

    def fail(_asked: str, key: str) -> None:
        if key == LEDGER:
            raise UnreachableError("503")

    scene.store.before = fail
    for _ in range(int(LONGEST_S // 60)):
        scene.sweeper.sweep()
        assert scene.told() == []
        scene.after(60)
    scene.after(HOLD_S)
    scene.sweeper.sweep()
    assert sorted(scene.told()) == [f"TIMED_OUT {run_id}" for run_id in scene.run_ids]


def test_a_damaged_ledger_is_begun_anew_and_said_so() -> None:
    scene = GroupScene(4)
    scene.store.put_text(LEDGER, '{"schema": 1')
    scene.silence(scene.run_ids[:3])
    decision = scene.sweeper.sweep()
    assert "damaged" in (decision.note or "")
    assert scene.told() == ["TIMED_OUT 3: run-00 run-01 run-02"]


def test_a_notice_waits_for_its_channel_as_any_alert_does() -> None:
    scene = GroupScene(3)
    scene.silence(scene.run_ids)
    scene.channel.fault = down
    decision = scene.sweeper.sweep()
    assert (decision.counts.sent, decision.counts.failed, decision.counts.pending) == (0, 1, 1)
    scene.channel.fault = lambda _message: None
    scene.after(60)
    assert scene.sweeper.sweep().counts.sent == 1
    assert scene.told() == ["TIMED_OUT 3: run-00 run-01 run-02"]


def test_what_is_released_while_the_channel_is_down_goes_out_later_alone() -> None:
    scene = GroupScene(6)
    scene.channel.fault = lambda _message: DeliveryError("503", retryable=True, retry_after_s=1800)
    for number in range(4):
        scene.silence([scene.run_ids[number]])
        scene.sweeper.sweep()
        scene.after(400)
    scene.channel.fault = lambda _message: None
    scene.after(1800)
    scene.sweeper.sweep()
    assert sorted(scene.told()) == [f"TIMED_OUT run-{number:02d}" for number in range(4)]


def test_passes_without_news_ask_the_ledger_nothing() -> None:
    scene = GroupScene(4)
    scene.sweeper.sweep()
    assert not [key for _, key in scene.store.calls if key == LEDGER], "none was ever needed"
    scene.silence(scene.run_ids)
    scene.sweeper.sweep()
    scene.store.calls.clear()
    for _ in range(10):
        scene.after(60)
        scene.sweeper.sweep()
    assert not [key for _, key in scene.store.calls if key == LEDGER], "known already, and unchanged"


def test_a_pass_that_listed_nothing_asks_for_the_ledger_once_and_while_there_is_something_to_decide() -> None:
    scene = GroupScene(4)
    for _ in range(3):
        scene.sweeper.sweep(listed=False)
    assert [operation for operation, key in scene.store.calls if key == LEDGER] == ["read"]
    scene.silence(scene.run_ids)
    scene.sweeper.sweep(listed=False)
    scene.after(400)
    scene.wake(scene.run_ids)
    Sweeper(scene).sweep(listed=False)
    names = " ".join(scene.run_ids)
    assert scene.told() == [f"TIMED_OUT 4: {names}", f"RECOVERED 4: {names}"]


def test_a_record_that_is_deleted_in_the_middle_of_a_pass_loses_no_alert() -> None:
    scene = GroupScene(1)
    scene.silence(["run-00"])

    def meanwhile(operation: str, key: str) -> None:
        if (operation, key) == ("write", LEDGER):
            scene.store.held.pop("run-00/_watchdog.json", None)

    scene.store.before = meanwhile
    scene.sweeper.sweep()
    assert scene.told() == ["TIMED_OUT run-00"]


def test_a_group_that_stays_out_is_let_go_of_after_a_quiet_day() -> None:
    scene = GroupScene(3)
    scene.silence(scene.run_ids)
    scene.sweeper.sweep()
    scene.after(timedelta(hours=25).total_seconds())
    scene.sweeper.sweep()
    scene.wake(scene.run_ids)
    scene.sweeper.sweep()
    assert scene.told()[1:] == [f"RECOVERED run-{number:02d}" for number in range(3)]
