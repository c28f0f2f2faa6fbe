"""A run that nobody may look into is itself unreadable, by its name and with its reason; all others are watched."""

import pytest

from lastbeat.model.policy import FleetPolicy
from lastbeat.model.status import Event
from lastbeat.stores.port import DeniedError, StoreError, UnreachableError
from support.world import running

DENIED = DeniedError("not allowed to list it: Permission denied", "ask its owner")
STALE = UnreachableError("cannot list it now: Stale file handle", "look at the mount")


@pytest.mark.parametrize(
    ("closed", "error", "restarted"),
    [
        ("run-0013/", DENIED, False),
        ("run-0013/", STALE, True),
        ("run-0013/metadata.json", DENIED, True),
        ("run-0013/_error", STALE, False),
        ("run-0013/_watchdog.json", STALE, True),
    ],
)
def test_a_closed_run_costs_itself_only(closed: str, error: StoreError, restarted: bool) -> None:
    world = running(20)
    world.sweep()
    world.store.closed[closed] = error
    for minute in range(15):
        world.after(60)
        world.beat_all()
        if minute == 3:
            world.run("run-0014").error()
        report = world.sweep(restarted=restarted)
        assert report.unreadable == {"run-0013": str(error)}
        assert report.blind is None
        assert report.complete
    assert report.exit_status == 2
    assert {line.run_id: line.status.value for line in report.lines}["run-0013"] == "UNKNOWN"
    assert report.statuses == {"RUNNING": 18, "FAILED": 1, "UNKNOWN": 1}
    assert world.told("run-0014") == ["FAILED"]
    # It is neither gone nor silent, and people are told once who cannot see what.
    assert world.told("run-0013") == ["BLIND"]
    assert "this run" in world.channel.sent[-1].reason
    assert str(error) in world.channel.sent[-1].reason
    world.store.closed.clear()
    world.after(60)
    world.beat_all()
    assert world.sweep(restarted=restarted).exit_status == 2
    assert world.told("run-0013") == ["BLIND", "SIGHTED"]


def test_a_run_that_fell_silent_behind_a_closed_door_is_judged_when_it_opens() -> None:
    world = running(3)
    world.sweep()
    world.store.closed["run-0001/"] = DENIED
    world.sweeps(30, but=("run-0001",))
    assert "TIMED_OUT" not in world.told("run-0001")
    world.store.closed.clear()
    world.beat_all(but=("run-0001",))
    world.sweep()
    assert "TIMED_OUT" in world.told("run-0001")


@pytest.mark.parametrize("folder", ["run-0001/ckpt/", "run-0001/ckpt/last.pt"])
def test_what_is_none_of_a_runs_own_may_be_closed(folder: str) -> None:
    world = running(3)
    world.store.closed[folder] = DENIED
    for _ in range(15):
        report = world.sweep()
        assert (report.exit_status, report.unreadable, report.notes) == (0, {}, ())
        world.after(60)
        world.beat_all()
    world.run("run-0001").error()
    assert world.sweep().exit_status == 2


@pytest.mark.parametrize("closed", ["run-0001/logs/", "run-0001/logs/rank0.log"])
def test_a_run_whose_logs_are_closed_is_watched_without_them_and_that_is_said(closed: str) -> None:
    world = running(2)
    world.store.closed[closed] = DENIED
    report = world.sweep()
    assert (report.exit_status, report.unreadable) == (0, {})
    assert any("logs" in note and "Permission denied" in note for note in report.notes)
    report = world.sweeps(12, but=("run-0001",))
    assert world.told("run-0001") == ["TIMED_OUT"]


@pytest.mark.parametrize(("folder", "restarted"), [("lost+found/", False), (".Trash-1000/", True)])
def test_a_closed_folder_that_is_hardly_a_run_is_named_and_no_trouble(folder: str, restarted: bool) -> None:
    world = running(2)
    world.store.closed[folder] = DENIED
    for _ in range(15):
        report = world.sweep(restarted=restarted)
        assert (report.exit_status, report.unreadable, report.statuses) == (0, {}, {"RUNNING": 2})
        assert [note for note in report.notes if folder[:-1] in note and "Permission denied" in note]
        world.after(60)
        world.beat_all()
    assert world.channel.sent == []


def test_a_hidden_run_that_was_seen_once_is_missed_when_it_is_closed() -> None:
    world = running(1)
    world.run(".mine").both(1)
    assert world.sweep().statuses == {"RUNNING": 2}
    world.store.closed[".mine/"] = DENIED
    world.after(60)
    world.beat_all(but=(".mine",))
    report = world.sweep()
    assert (report.exit_status, list(report.unreadable)) == (3, [".mine"])


def test_a_run_that_nobody_ever_saw_is_unreadable_and_no_history() -> None:
    world = running(1)
    world.store.closed["new/"] = DENIED
    for _ in range(3):
        report = world.sweep()
        assert (report.exit_status, dict(report.unreadable)) == (3, {"new": str(DENIED)})
        world.after(60)
        world.beat_all()


def test_a_run_that_ended_long_ago_may_be_closed() -> None:
    world = running(2, fleet=FleetPolicy(interval_s=3600))
    world.run("run-0001").complete()
    for _ in range(30):
        world.sweep()
        world.after(3600)
        world.beat_all(but=("run-0001",))
    assert world.sweep().finished == 1
    world.store.closed["run-0001/"] = DENIED
    for _ in range(3):
        world.after(3600)
        world.beat_all(but=("run-0001",))
        report = world.sweep(restarted=True)
        assert (report.exit_status, report.finished, report.unreadable) == (0, 1, {})
        assert any("run-0001" in note for note in report.notes)
    world.store.closed.clear()
    world.run("run-0001").both(5)
    world.run("run-0001").error("RuntimeError: it was begun again")
    world.beat_all()
    world.store.held.pop("run-0001/_complete")
    world.after(60)
    assert world.sweep(restarted=True).exit_status == 2


@pytest.mark.parametrize(
    ("closed", "restarted"),
    [("_watchdog/", False), ("_watchdog/fleet.json.z", True), ("_watchdog/groups.json", False)],
)
def test_what_other_watchdogs_keep_for_themselves_blinds_nobody(closed: str, restarted: bool) -> None:
    world = running(3)
    world.sweep()
    world.store.closed[closed] = DENIED
    world.after(60)
    world.beat_all()
    world.run("run-0001").error()
    world.run("run-0002").delete()
    report = world.sweep(restarted=restarted)
    assert report.blind is None
    assert report.unreadable == {}
    assert world.told("run-0001") == ["FAILED"]
    if not restarted:
        assert world.told("run-0002") == []
    assert closed == "_watchdog/groups.json" or any("Permission denied" in note for note in report.notes)


def test_many_closed_runs_are_told_of_at_once_and_hide_neither_the_others_nor_that_nothing_is_seen() -> None:
    """As where most users of a directory let nobody in, for good."""
    world = running(15)
    world.sweep()
    for number in range(12):
        world.store.closed[f"run-{number:04}/"] = DENIED
    world.sweeps(15)
    (message,) = world.channel.sent
    assert message.event is Event.BLIND
    assert "not been able to watch some runs of this fleet for " in message.reason
    assert "says nothing about those runs. " in (message.action or "")
    assert "12 runs could not be observed, run-0000 among them: not allowed" in message.reason
    world.store.refuse("any", UnreachableError("503"))
    world.sweeps(15)
    assert [m.event for m in world.channel.sent[1:]] == [Event.BLIND]
    assert "not been able to watch this fleet for " in world.channel.sent[-1].reason
    world.store.heal()
    world.sweeps(2)
    assert [m.event for m in world.channel.sent[2:]] == [Event.SIGHTED]
    assert "can watch this fleet again" in world.channel.sent[-1].reason
    world.store.closed.clear()
    world.sweeps(2)
    assert [m.event for m in world.channel.sent[3:]] == [Event.SIGHTED]
    assert "can watch some runs of this fleet again" in world.channel.sent[-1].reason


def test_where_not_one_run_can_be_seen_it_is_the_fleet() -> None:
    world = running(15)
    world.sweep()
    for number in range(15):
        world.store.closed[f"run-{number:04}/"] = DENIED
    world.sweeps(15)
    (message,) = world.channel.sent
    assert "not been able to watch this fleet for " in message.reason
    del world.store.closed["run-0003/"]
    world.sweeps(2)
    assert [m.event for m in world.channel.sent[1:]] == [Event.SIGHTED]
