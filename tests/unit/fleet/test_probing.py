"""Where a few runs live among very many that ended, the living are asked one by one, and nothing is missed."""

import pytest

from lastbeat.fleet.prices import dollars
from lastbeat.model.fleet import PassReport
from lastbeat.stores.counting import CountingStore, Tally
from lastbeat.stores.port import UnreachableError
from support.fleet import FleetScene

LIVING = 20


def _scene(finished: int = 12_000) -> FleetScene:
    scene = FleetScene()
    # A store that takes money.
    scene.store.url = "s3://bucket/training-runs"
    for number in range(finished):
        run = scene.run(f"run-{number:06}")
        run.beat(age_s=200_000)
        run.complete(age_s=200_000)
    for number in range(LIVING):
        scene.run(f"run-{number * 500:06}-live").both(1)
    return scene


def _beat(scene: FleetScene, *but: str) -> None:
    for number in range(LIVING):
        name = f"run-{number * 500:06}-live"
        if name not in but:
            scene.run(name).both(2)


def _pass(scene: FleetScene, *but: str, restarted: bool = False) -> PassReport:
    scene.after(60)
    _beat(scene, *but)
    return scene.sweep(restarted=restarted)


def test_the_first_pass_lists_and_the_next_ask_only_who_lives() -> None:
    scene = _scene()
    first = scene.sweep()
    assert (first.plan, first.finished, first.statuses) == ("list", 12_000, {"RUNNING": LIVING})
    scene.store.calls.clear()
    report = _pass(scene)
    assert (report.plan, report.finished, report.statuses) == ("probe", 12_000, {"RUNNING": LIVING})
    assert not [call for call in scene.store.calls if call[0] == "list"]


def test_it_costs_no_more_than_a_poller_that_knows_whom_to_ask() -> None:
    scene = _scene()
    scene.sweep()
    tally = Tally()
    scene.through = CountingStore(scene.store, tally)
    sweep = scene.fresh_sweep(tally=tally)
    for _ in range(60):
        scene.after(60)
        _beat(scene)
        sweep.run()
    poller = 60 * LIVING * dollars({"GET": 4})
    # Without the search for new runs and the memory's own request, which do not grow with those that live.
    assert dollars({"GET": tally.counts["GET"]}) < 0.8 * poller


@pytest.mark.parametrize("restarted", [False, True], ids=["warm", "cold"])
@pytest.mark.parametrize("name", ["_error", "_complete"])
def test_an_end_is_found_within_three_passes(name: str, restarted: bool) -> None:
    scene = _scene(6_000)
    scene.sweep()
    _pass(scene)
    ended = "run-003000-live"
    scene.run(ended).put(name, "RuntimeError: boom" if name == "_error" else "")
    for _ in range(3):
        _pass(scene, ended, restarted=restarted)
    assert scene.told(ended) == ["FAILED" if name == "_error" else "SUCCEEDED"]
    for _ in range(10):
        report = _pass(scene, ended, restarted=restarted)
    assert report.plan == "probe"
    assert len(scene.channel.sent) == 1


def test_silence_return_and_deletion_are_found() -> None:
    scene = _scene(6_000)
    scene.sweep()
    silent, deleted = "run-001000-live", "run-002000-live"
    for _ in range(3):
        _pass(scene)
    scene.run(deleted).delete()
    for _ in range(13):
        report = _pass(scene, silent, deleted)
    assert report.plan == "probe"
    assert scene.told(silent) == ["TIMED_OUT"]
    assert scene.told(deleted) == ["TIMED_OUT"]
    _pass(scene, deleted)
    assert scene.told(silent) == ["TIMED_OUT", "RECOVERED"]


def test_a_new_run_is_found_by_the_next_search() -> None:
    scene = _scene(6_000)
    scene.sweep()
    _pass(scene)
    scene.run("brand-new").both(1)
    for _ in range(16):
        scene.run("brand-new").both(1)
        report = _pass(scene)
    assert report.statuses == {"RUNNING": LIVING + 1}
    scene.run("brand-new").error()
    for _ in range(3):
        _pass(scene)
    assert scene.told("brand-new") == ["FAILED"]


def test_one_that_ended_today_and_begins_again_is_found_within_five_passes() -> None:
    scene = _scene(6_000)
    again = "run-001000-live"
    scene.sweep()
    scene.run(again).complete()
    for _ in range(4):
        _pass(scene, again)
    assert scene.told(again) == ["SUCCEEDED"]
    for _ in range(5):
        scene.run(again).beat(attempt=2, start_time=scene.now.isoformat())
        report = _pass(scene, again)
    assert report.statuses == {"RUNNING": LIVING}


def test_an_old_one_that_begins_again_is_found_by_the_listing_of_everything() -> None:
    scene = _scene(6_000)
    scene.sweep()
    _pass(scene)
    scene.run("run-000007").beat(attempt=2, start_time=scene.now.isoformat())
    scene.after(6 * 3600)
    _beat(scene)
    scene.run("run-000007").beat(attempt=2, start_time=scene.now.isoformat())
    assert scene.sweep().statuses == {"RUNNING": LIVING + 1}


def test_a_store_that_goes_away_is_blindness_and_nothing_more() -> None:
    scene = _scene(6_000)
    scene.sweep()
    _pass(scene)

    def away(_operation: str, _key: str) -> None:
        raise UnreachableError("503")

    scene.store.before = away
    for _ in range(15):
        assert _pass(scene).blind
    assert scene.channel.events == ["BLIND"]
    scene.store.before = lambda _operation, _key: None
    assert _pass(scene).statuses == {"RUNNING": LIVING}
    assert scene.channel.events == ["BLIND", "SIGHTED"]
