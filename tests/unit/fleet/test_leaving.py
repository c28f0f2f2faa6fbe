"""Runs that somebody archives or forgets: every watcher and every view leaves them out, and they come back."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from lastbeat.fleet.leaving import Leaving
from lastbeat.model.group import LEDGER, Ledger
from lastbeat.model.status import Status
from lastbeat.stores.port import StoreError, UnreachableError
from lastbeat.views.one_run import RunWatch
from lastbeat.views.watching import FleetWatch
from lastbeat.watch.record.codec import decode
from support.channel import down
from support.row_by_row import labelled
from support.there import there
from support.world import World

Take = Callable[[Leaving, str], object]
TAKEN: list[tuple[str, Take]] = [
    ("archived", lambda leaving, run_id: leaving.archive(run_id)),
    ("forgotten", lambda leaving, run_id: leaving.forget(run_id)),
]
taken = pytest.mark.parametrize("take", labelled(TAKEN))


def fleet() -> World:
    """One lives, one has failed, one fell silent; people know."""
    world = World()
    for run_id in ("lives", "failed", "silent"):
        world.run(run_id).both(1)
    world.sweep()
    world.after(900)
    world.run("lives").both(2)
    world.run("failed").error("boom")
    world.sweep()
    world.channel.sent.clear()
    return world


def leaving(world: World) -> Leaving:
    return Leaving(world.store, "ana@desk", world.state)


def shown(world: World) -> list[str]:
    return sorted(row.run_id for row in FleetWatch(world.store, world.policy, threads=1).open().rows)


@taken
@pytest.mark.parametrize(
    ("lost", "restarted"),
    [pytest.param(False, False, id="loop"), pytest.param(True, True, id="--once, and the index is lost")],
)
def test_passes_and_the_fleet_leave_it_out(take: Take, lost: bool, restarted: bool) -> None:
    world = fleet()
    for run_id in ("failed", "silent"):
        take(leaving(world), run_id)
    if lost:
        world.store.held.pop("_watchdog/fleet.json.z")
    for _ in range(4):
        world.after(60)
        world.run("lives").both(3)
        report = world.sweep(restarted=restarted)
    assert report.statuses == {"RUNNING": 1}
    assert report.exit_status == 0
    assert world.channel.sent == []
    assert shown(world) == ["lives"]
    looked = FleetWatch(world.store, world.policy, threads=1)
    looked.open()
    assert [row.run_id for row in looked.round().rows] == ["lives"]


@taken
def test_a_watch_of_that_run_alone_shows_it_and_writes_nothing(take: Take) -> None:
    world = fleet()
    take(leaving(world), "failed")
    before = dict(world.store.held)
    watch = world.fresh_watch("failed", state=None)
    outcome = watch.tick()
    assert outcome.status is Status.FAILED
    assert any("by ana@desk" in note for note in outcome.notes)
    assert dict(world.store.held) == before
    assert world.channel.sent == []


def test_an_archived_run_stays_readable_and_a_forgotten_one_has_no_history() -> None:
    world = fleet()
    leaving(world).archive("failed")
    leaving(world).forget("silent")
    for run_id, history, word in (("failed", 2, "archived"), ("silent", 0, "forgotten")):
        view = there(RunWatch(world.store, world.policy, run_id).look())
        assert len(view.history) == history
        assert any(f"It was {word} by ana@desk" in note for note in view.notes)


@taken
def test_it_comes_back_when_training_writes_again(take: Take) -> None:
    world = fleet()
    take(leaving(world), "failed")
    world.after(60)
    world.sweep()
    run = world.run("failed")
    run.delete("_error")
    run.beat(start_time=world.now.isoformat())
    world.after(60)
    report = world.sweep()
    run.beat(start_time=world.now.isoformat())
    run.error("again")
    world.after(60)
    world.sweep(restarted=True)
    assert "failed" in shown(world)
    assert report.statuses["RUNNING"] >= 1
    assert world.told("failed") == ["FAILED"]
    assert there(run.record).left_out is None


def test_one_that_is_alive_stays_out_until_its_next_attempt() -> None:
    world = fleet()
    world.run("lives").beat(start_time="2026-01-01T12:00:00Z")
    world.sweep()
    leaving(world).archive("lives", alive=True)
    for _ in range(30):
        world.after(120)
        world.run("lives").beat(start_time="2026-01-01T12:00:00Z")
        assert "RUNNING" not in world.sweep().statuses
    assert "lives" not in shown(world)
    world.run("lives").beat(start_time=world.now.isoformat(), attempt=2)
    for _ in range(12):
        world.after(120)
        world.run("lives").beat(start_time=world.now.isoformat(), attempt=2)
        report = world.sweep()
    assert report.statuses["RUNNING"] == 1


def test_undo_takes_it_back() -> None:
    world = fleet()
    leaving(world).archive("failed")
    world.after(60)
    world.sweep()
    assert leaving(world).undo("failed")
    assert not leaving(world).undo("failed")
    world.after(60)
    assert world.sweep().statuses["FAILED"] == 1
    assert "failed" in shown(world)
    assert world.channel.sent == []


def test_what_waited_to_be_sent_is_not_sent_any_more() -> None:
    world = fleet()
    world.channel.fault = down
    world.run("lives").error("boom")
    world.sweep()
    assert leaving(world).archive("lives") == 1
    world.channel.fault = lambda _message: None
    for _ in range(5):
        world.after(60)
        world.sweep(restarted=True)
    assert world.channel.sent == []


def test_a_run_that_is_deleted_while_it_lives_is_no_news() -> None:
    world = fleet()
    removed = leaving(world).forget("lives", alive=True, delete=True)
    assert removed.count == 2
    for _ in range(5):
        world.after(400)
        world.sweep()
    assert world.channel.sent == []
    assert not [key for key in world.store.held if key.startswith("lives/")]
    world.run("lives").both(1)
    assert "RUNNING" in world.sweep().statuses, "what is written from then on is a new run"
    record = there(world.run("lives").record)
    assert (record.transitions, record.left_out) == (1, None)


def test_a_look_that_is_under_way_does_not_bring_it_back() -> None:
    world = fleet()
    world.run("lives").error("boom")

    def forget(operation: str, key: str) -> None:
        if operation == "write" and key == "lives/_watchdog.json":
            world.store.heal()
            leaving(world).forget("lives", alive=True, delete=True)

    world.store.before = forget
    world.sweep()
    world.after(60)
    world.sweep()
    assert world.channel.sent == []
    assert not [key for key in world.store.held if key.startswith("lives/")]


def test_a_name_that_was_mistyped_is_gone() -> None:
    world = World()
    world.fresh_watch("typo", state=None).tick()
    assert "_watchdog/unseen/typo/_watchdog.json" in world.store.held
    leaving(world).forget("typo")
    assert not [key for key in world.store.held if "typo" in key]


def test_index_and_ledger_know_it_no_more() -> None:
    world = World()
    for number in range(6):
        world.run(f"run-{number}").both(1)
    world.sweep()
    world.after(900)
    world.sweep()
    leaving(world).forget("run-0", delete=True)
    leaving(world).tidy(["run-0"])
    ledger = decode(world.store.held[LEDGER].body, Ledger)
    assert "run-0" not in ledger.groups[0].members
    assert len(ledger.groups[0].members) == 5
    assert "run-0" not in world.fresh_sweep()._context.index_store.load().runs


@pytest.mark.parametrize("operation", ["clear", "delete", "write"])
def test_who_dies_in_between_leaves_it_out_or_as_it_was(operation: str) -> None:
    for number in range(4):
        world, calls = fleet(), [0]

        def die(what: str, _key: str, calls: list[int] = calls, number: int = number) -> None:
            if what == operation:
                calls[0] += 1
                if calls[0] > number:
                    raise UnreachableError("gone")

        world.store.before = die
        with suppress(StoreError):
            leaving(world).forget("failed", delete=True)
        world.store.heal()
        for _ in range(3):
            world.after(60)
            world.sweep(restarted=True)
        assert world.channel.sent == []
        leaving(world).forget("failed", delete=True)
        assert not [key for key in world.store.held if key.startswith("failed/")], "and it can be done again"
