"""A run that nobody may look into is itself unreadable, by its name and with its reason; all others are watched."""

import pytest

from lastbeat.model.policy import FleetPolicy
from lastbeat.model.status import Event
from lastbeat.stores.port import DeniedError, StoreError, UnreachableError
from support.fleet import FleetScene, beat, running

DENIED = DeniedError("not allowed to list it: Permission denied", "ask its owner")
STALE = UnreachableError("cannot list it now: Stale file handle", "look at the mount")
DAY_S = 86400.0


@pytest.mark.parametrize("restarted", [False, True], ids=["warm", "cold"])
@pytest.mark.parametrize("error", [DENIED, STALE], ids=["denied", "unreachable"])
@pytest.mark.parametrize(
    "closed",
    ["run-0013/", "run-0013/metadata.json", "run-0013/_error", "run-0013/_complete", "run-0013/_watchdog.json"],
)
def test_a_closed_run_costs_itself_only(closed: str, error: StoreError, restarted: bool) -> None:
    scene = running(20)
    scene.sweep()
    scene.store.closed[closed] = error
    for minute in range(15):
        scene.after(60)
        beat(scene)
        if minute == 3:
            scene.run("run-0014").error()
        report = scene.sweep(restarted=restarted)
        assert report.unreadable == {"run-0013": str(error)}
        assert report.blind is None
        assert report.complete
    assert report.exit_status == 2
    assert {line.run_id: line.status.value for line in report.lines}["run-0013"] == "UNKNOWN"
    assert report.statuses == {"RUNNING": 18, "FAILED": 1, "UNKNOWN": 1}
    assert scene.told("run-0014") == ["FAILED"]
    # It is neither gone nor silent, and people are told once who cannot see what.
    assert scene.told("run-0013") == ["BLIND"]
    assert "this run" in scene.channel.sent[-1].reason
    assert str(error) in scene.channel.sent[-1].reason
    scene.store.closed.clear()
    scene.after(60)
    beat(scene)
    assert scene.sweep(restarted=restarted).exit_status == 2
    assert scene.told("run-0013") == ["BLIND", "SIGHTED"]


@pytest.mark.parametrize("restarted", [False, True], ids=["warm", "cold"])
def test_a_run_that_fell_silent_behind_a_closed_door_is_judged_when_it_opens(restarted: bool) -> None:
    scene = running(3)
    scene.sweep()
    scene.store.closed["run-0001/"] = DENIED
    for _ in range(30):
        scene.after(60)
        beat(scene, but=("run-0001",))
        scene.sweep(restarted=restarted)
    assert "TIMED_OUT" not in scene.told("run-0001")
    scene.store.closed.clear()
    beat(scene, but=("run-0001",))
    scene.sweep(restarted=restarted)
    assert "TIMED_OUT" in scene.told("run-0001")


@pytest.mark.parametrize("folder", ["run-0001/ckpt/", "run-0001/wandb/", "run-0001/ckpt/last.pt"])
def test_what_is_none_of_a_runs_own_may_be_closed(folder: str) -> None:
    scene = running(3)
    scene.store.closed[folder] = DENIED
    for _ in range(15):
        report = scene.sweep()
        assert (report.exit_status, report.unreadable, report.notes) == (0, {}, ())
        scene.after(60)
        beat(scene)
    scene.run("run-0001").error()
    assert scene.sweep().exit_status == 2


@pytest.mark.parametrize("closed", ["run-0001/logs/", "run-0001/logs", "run-0001/logs/rank0.log"])
def test_a_run_whose_logs_are_closed_is_watched_without_them_and_that_is_said(closed: str) -> None:
    scene = running(2)
    scene.store.closed[closed] = DENIED
    report = scene.sweep()
    assert (report.exit_status, report.unreadable) == (0, {})
    assert any("logs" in note and "Permission denied" in note for note in report.notes)
    for _ in range(12):
        scene.after(60)
        beat(scene, but=("run-0001",))
        report = scene.sweep()
    assert scene.told("run-0001") == ["TIMED_OUT"]


def test_a_run_that_only_logs_tell_of_is_not_silent_while_they_are_closed() -> None:
    scene = running(1)
    by_log = scene.run("by-log")
    by_log.log("step 1/100 loss 2.5\n")
    scene.sweep()
    scene.store.closed["by-log/logs/"] = DENIED
    for _ in range(25):
        scene.after(60)
        beat(scene, but=("by-log",))
        report = scene.sweep()
    assert scene.told("by-log") == ["BLIND"]
    assert list(report.unreadable) == ["by-log"]
    assert "Permission denied" in report.unreadable["by-log"]
    scene.store.closed.clear()
    by_log.log("step 1/100 loss 2.5\nstep 2/100 loss 2.4\n")
    scene.sweep()
    assert scene.told("by-log") == ["BLIND", "SIGHTED"]


@pytest.mark.parametrize("folder", ["lost+found/", ".Trash-1000/", ".snapshot/"])
@pytest.mark.parametrize("restarted", [False, True], ids=["warm", "cold"])
def test_a_closed_folder_that_is_hardly_a_run_is_named_and_no_trouble(folder: str, restarted: bool) -> None:
    scene = running(2)
    scene.store.closed[folder] = DENIED
    for _ in range(15):
        report = scene.sweep(restarted=restarted)
        assert (report.exit_status, report.unreadable, report.statuses) == (0, {}, {"RUNNING": 2})
        assert [note for note in report.notes if folder[:-1] in note and "Permission denied" in note]
        scene.after(60)
        beat(scene)
    assert scene.channel.sent == []


def test_a_hidden_run_that_was_seen_once_is_missed_when_it_is_closed() -> None:
    scene = running(1)
    scene.run(".mine").both(1)
    assert scene.sweep().statuses == {"RUNNING": 2}
    scene.store.closed[".mine/"] = DENIED
    scene.after(60)
    beat(scene, but=(".mine",))
    report = scene.sweep()
    assert (report.exit_status, list(report.unreadable)) == (3, [".mine"])


def test_a_run_that_nobody_ever_saw_is_unreadable_and_no_history() -> None:
    scene = running(1)
    scene.store.closed["new/"] = DENIED
    for _ in range(3):
        report = scene.sweep()
        assert (report.exit_status, dict(report.unreadable)) == (3, {"new": str(DENIED)})
        scene.after(60)
        beat(scene)


@pytest.mark.parametrize("restarted", [False, True], ids=["warm", "cold"])
def test_a_run_that_ended_long_ago_may_be_closed(restarted: bool) -> None:
    scene = running(2, fleet=FleetPolicy(interval_s=3600))
    scene.run("run-0001").complete()
    for _ in range(30):
        scene.sweep()
        scene.after(3600)
        beat(scene, but=("run-0001",))
    assert scene.sweep().finished == 1
    scene.store.closed["run-0001/"] = DENIED
    for _ in range(3):
        scene.after(3600)
        beat(scene, but=("run-0001",))
        report = scene.sweep(restarted=restarted)
        assert (report.exit_status, report.finished, report.unreadable) == (0, 1, {})
        assert any("run-0001" in note for note in report.notes)
    scene.store.closed.clear()
    scene.run("run-0001").both(5)
    scene.run("run-0001").error("RuntimeError: it was begun again")
    beat(scene)
    scene.store.held.pop("run-0001/_complete")
    scene.after(60)
    assert scene.sweep(restarted=restarted).exit_status == 2


@pytest.mark.parametrize("closed", ["_watchdog/", "_watchdog/fleet.json.z", "_watchdog/groups.json"])
@pytest.mark.parametrize("restarted", [False, True], ids=["warm", "cold"])
def test_what_other_watchdogs_keep_for_themselves_blinds_nobody(closed: str, restarted: bool) -> None:
    scene = running(3)
    scene.sweep()
    scene.store.closed[closed] = DENIED
    scene.after(60)
    beat(scene)
    scene.run("run-0001").error()
    scene.run("run-0002").delete()
    report = scene.sweep(restarted=restarted)
    assert report.blind is None
    assert report.unreadable == {}
    assert scene.told("run-0001") == ["FAILED"]
    if not restarted:
        assert scene.told("run-0002") == []
    assert closed == "_watchdog/groups.json" or any("Permission denied" in note for note in report.notes)


def _away(_operation: str, _key: str) -> None:
    raise UnreachableError("503")


def _later(scene: FleetScene, minutes: int) -> None:
    for _ in range(minutes):
        scene.after(60)
        beat(scene)
        scene.sweep()


def test_many_closed_runs_are_told_of_at_once_and_hide_neither_the_others_nor_that_nothing_is_seen() -> None:
    """As where most users of a directory let nobody in, for good."""
    scene = running(15)
    scene.sweep()
    for number in range(12):
        scene.store.closed[f"run-{number:04}/"] = DENIED
    _later(scene, 15)
    (message,) = scene.channel.sent
    assert message.event is Event.BLIND
    assert "not been able to watch some runs of this fleet for " in message.reason
    assert "says nothing about those runs. " in (message.action or "")
    assert "12 runs could not be observed, run-0000 among them: not allowed" in message.reason
    scene.store.before = _away
    _later(scene, 15)
    assert [m.event for m in scene.channel.sent[1:]] == [Event.BLIND]
    assert "not been able to watch this fleet for " in scene.channel.sent[-1].reason
    scene.store.heal()
    _later(scene, 2)
    assert [m.event for m in scene.channel.sent[2:]] == [Event.SIGHTED]
    assert "can watch this fleet again" in scene.channel.sent[-1].reason
    scene.store.closed.clear()
    _later(scene, 2)
    assert [m.event for m in scene.channel.sent[3:]] == [Event.SIGHTED]
    assert "can watch some runs of this fleet again" in scene.channel.sent[-1].reason


def test_where_not_one_run_can_be_seen_it_is_the_fleet() -> None:
    scene = running(15)
    scene.sweep()
    for number in range(15):
        scene.store.closed[f"run-{number:04}/"] = DENIED
    _later(scene, 15)
    (message,) = scene.channel.sent
    assert "not been able to watch this fleet for " in message.reason
    del scene.store.closed["run-0003/"]
    _later(scene, 2)
    assert [m.event for m in scene.channel.sent[1:]] == [Event.SIGHTED]
