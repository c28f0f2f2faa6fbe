"""Runs that somebody archives or forgets: every watcher and every view leaves them out, and they come back."""

import json
from collections.abc import Callable
from contextlib import suppress

import pytest

from lastbeat.fleet.leaving import Leaving
from lastbeat.model.group import LEDGER
from lastbeat.model.status import Status
from lastbeat.record.codec import decode_ledger
from lastbeat.stores.port import StoreError, UnreachableError
from lastbeat.views.one_run import RunWatch
from lastbeat.views.watching import FleetWatch
from lastbeat.watchdog import Watch, WatchContext
from support.channel import down
from support.fleet import FleetScene

Take = Callable[[Leaving, str], object]
TAKEN: list[tuple[str, Take]] = [
    ("archived", lambda leaving, run_id: leaving.archive(run_id)),
    ("forgotten", lambda leaving, run_id: leaving.forget(run_id)),
]
taken = pytest.mark.parametrize("take", [pytest.param(take, id=name) for name, take in TAKEN])


def fleet() -> FleetScene:
    """One lives, one has failed, one fell silent; people know."""
    scene = FleetScene()
    for run_id in ("lives", "failed", "silent"):
        scene.run(run_id).both(1)
    scene.sweep()
    scene.after(900)
    scene.run("lives").both(2)
    scene.run("failed").error("boom")
    scene.sweep()
    scene.channel.sent.clear()
    return scene


def leaving(scene: FleetScene) -> Leaving:
    return Leaving(scene.store, "ana@desk", scene.state)


def shown(scene: FleetScene) -> list[str]:
    return sorted(row.run_id for row in FleetWatch(scene.store, scene.policy, threads=1).open().rows)


@taken
@pytest.mark.parametrize("lost", [False, True], ids=["", "and the index is lost"])
@pytest.mark.parametrize("restarted", [False, True], ids=["loop", "--once"])
def test_passes_and_the_fleet_leave_it_out(take: Take, lost: bool, restarted: bool) -> None:
    scene = fleet()
    for run_id in ("failed", "silent"):
        take(leaving(scene), run_id)
    if lost:
        scene.store.held.pop("_watchdog/fleet.json.z")
    for _ in range(4):
        scene.after(60)
        scene.run("lives").both(3)
        report = scene.sweep(restarted=restarted)
    assert report.statuses == {"RUNNING": 1}
    assert report.exit_status == 0
    assert scene.channel.sent == []
    assert shown(scene) == ["lives"]
    looked = FleetWatch(scene.store, scene.policy, threads=1)
    looked.open()
    assert [row.run_id for row in looked.round().rows] == ["lives"]


@taken
def test_a_watch_of_that_run_alone_shows_it_and_writes_nothing(take: Take) -> None:
    scene = fleet()
    take(leaving(scene), "failed")
    before = dict(scene.store.held)
    watch = Watch("failed", WatchContext(scene.store, [scene.channel], scene.policy, lambda: scene.now))
    outcome = watch.tick()
    assert outcome.status is Status.FAILED
    assert any("by ana@desk" in note for note in outcome.notes)
    assert dict(scene.store.held) == before
    assert scene.channel.sent == []


def test_an_archived_run_stays_readable_and_a_forgotten_one_has_no_history() -> None:
    scene = fleet()
    leaving(scene).archive("failed")
    leaving(scene).forget("silent")
    for run_id, history, word in (("failed", 2, "archived"), ("silent", 0, "forgotten")):
        view = RunWatch(scene.store, scene.policy, run_id).look()
        assert view is not None
        assert len(view.history) == history
        assert any(f"It was {word} by ana@desk" in note for note in view.notes)


@taken
def test_it_comes_back_when_training_writes_again(take: Take) -> None:
    scene = fleet()
    take(leaving(scene), "failed")
    scene.after(60)
    scene.sweep()
    run = scene.run("failed")
    run.delete("_error")
    run.beat(start_time=scene.now.isoformat())
    scene.after(60)
    report = scene.sweep()
    run.beat(start_time=scene.now.isoformat())
    run.error("again")
    scene.after(60)
    scene.sweep(restarted=True)
    assert "failed" in shown(scene)
    assert report.statuses["RUNNING"] >= 1
    assert scene.told("failed") == ["FAILED"]
    record = run.record
    assert record is not None
    assert record.left_out is None


def test_one_that_is_alive_stays_out_until_its_next_attempt() -> None:
    scene = fleet()
    scene.run("lives").beat(start_time="2026-01-01T12:00:00Z")
    scene.sweep()
    leaving(scene).archive("lives", alive=True)
    for _ in range(30):
        scene.after(120)
        scene.run("lives").beat(start_time="2026-01-01T12:00:00Z")
        assert "RUNNING" not in scene.sweep().statuses
    assert "lives" not in shown(scene)
    scene.run("lives").beat(start_time=scene.now.isoformat(), attempt=2)
    for _ in range(12):
        scene.after(120)
        scene.run("lives").beat(start_time=scene.now.isoformat(), attempt=2)
        report = scene.sweep()
    assert report.statuses["RUNNING"] == 1


def test_undo_takes_it_back() -> None:
    scene = fleet()
    leaving(scene).archive("failed")
    scene.after(60)
    scene.sweep()
    assert leaving(scene).undo("failed")
    assert not leaving(scene).undo("failed")
    scene.after(60)
    assert scene.sweep().statuses["FAILED"] == 1
    assert "failed" in shown(scene)
    assert scene.channel.sent == []


def test_what_waited_to_be_sent_is_not_sent_any_more() -> None:
    scene = fleet()
    scene.channel.fault = down
    scene.run("lives").error("boom")
    scene.sweep()
    assert leaving(scene).archive("lives") == 1
    scene.channel.fault = lambda _message: None
    for _ in range(5):
        scene.after(60)
        scene.sweep(restarted=True)
    assert scene.channel.sent == []


@pytest.mark.parametrize("restarted", [False, True], ids=["loop", "--once"])
def test_a_run_that_is_deleted_while_it_lives_is_no_news(restarted: bool) -> None:
    scene = fleet()
    removed = leaving(scene).forget("lives", alive=True, delete=True)
    assert removed.count == 2
    for _ in range(5):
        scene.after(400)
        scene.sweep(restarted=restarted)
    assert scene.channel.sent == []
    assert not [key for key in scene.store.held if key.startswith("lives/")]
    scene.run("lives").both(1)
    assert "RUNNING" in scene.sweep().statuses, "what is written from then on is a new run"
    record = scene.run("lives").record
    assert record is not None
    assert (record.transitions, record.left_out) == (1, None)


def test_a_look_that_is_under_way_does_not_bring_it_back() -> None:
    scene = fleet()
    scene.run("lives").error("boom")

    def forget(operation: str, key: str) -> None:
        if operation == "write" and key == "lives/_watchdog.json":
            scene.store.heal()
            leaving(scene).forget("lives", alive=True, delete=True)

    scene.store.before = forget
    scene.sweep()
    scene.after(60)
    scene.sweep()
    assert scene.channel.sent == []
    assert not [key for key in scene.store.held if key.startswith("lives/")]


def test_a_name_that_was_mistyped_is_gone() -> None:
    scene = FleetScene()
    context = WatchContext(scene.store, [scene.channel], scene.policy, lambda: scene.now)
    Watch("typo", context).tick()
    assert "_watchdog/unseen/typo/_watchdog.json" in scene.store.held
    leaving(scene).forget("typo")
    assert not [key for key in scene.store.held if "typo" in key]


def test_a_folder_that_holds_nothing_but_a_record_goes() -> None:
    scene = fleet()
    scene.run("silent").delete("metadata.json", "progress.json")
    leaving(scene).forget("silent")
    assert not [key for key in scene.store.held if key.startswith("silent/")]


def test_index_and_ledger_know_it_no_more() -> None:
    scene = FleetScene()
    for number in range(6):
        scene.run(f"run-{number}").both(1)
    scene.sweep()
    scene.after(900)
    scene.sweep()
    leaving(scene).forget("run-0", delete=True)
    leaving(scene).tidy(["run-0"])
    ledger = decode_ledger(scene.store.held[LEDGER].body)
    assert "run-0" not in ledger.groups[0].members
    assert len(ledger.groups[0].members) == 5
    assert "run-0" not in scene.fresh_sweep()._context.index_store.load().runs


@pytest.mark.parametrize("operation", ["clear", "delete", "write"])
def test_who_dies_in_between_leaves_it_out_or_as_it_was(operation: str) -> None:
    for number in range(4):
        scene, calls = fleet(), [0]

        def die(what: str, _key: str, calls: list[int] = calls, number: int = number) -> None:
            if what == operation:
                calls[0] += 1
                if calls[0] > number:
                    raise UnreachableError("gone")

        scene.store.before = die
        with suppress(StoreError):
            leaving(scene).forget("failed", delete=True)
        scene.store.heal()
        for _ in range(3):
            scene.after(60)
            scene.sweep(restarted=True)
        assert scene.channel.sent == []
        leaving(scene).forget("failed", delete=True)
        assert not [key for key in scene.store.held if key.startswith("failed/")], "and it can be done again"


def test_what_a_newer_version_wrote_survives() -> None:
    scene = fleet()
    key = "failed/_watchdog.json"
    document = json.loads(scene.store.held[key].body)
    scene.store.put_text(key, json.dumps({**document, "from_the_future": {"a": 1}}))
    leaving(scene).archive("failed")
    leaving(scene).undo("failed")
    assert json.loads(scene.store.held[key].body)["from_the_future"] == {"a": 1}
