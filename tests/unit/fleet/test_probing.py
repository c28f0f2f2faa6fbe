"""Where a few runs live among very many that ended, the living are asked one by one, and nothing is missed."""

import time

import pytest

from lastbeat.fleet.prices import dollars
from lastbeat.model.fleet import PassReport
from lastbeat.model.raised_alert import RaisedAlert, encode_alerts
from lastbeat.stores.counting import CountingStore, Tally
from lastbeat.stores.port import DeniedError, UnreachableError
from support.fleet import FleetScene
from support.paged import PagedStore

LIVING = 20


def _scene(finished: int = 600, most: int = 50) -> FleetScene:
    """``most`` keys a page."""
    scene = FleetScene()
    # A store that takes money.
    scene.store = scene.through = PagedStore(most)
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


def test_the_first_pass_lists_and_the_next_ask_who_lives_and_list_a_part() -> None:
    scene = _scene()
    first = scene.sweep()
    assert (first.plan, first.finished, first.statuses) == ("list", 600, {"RUNNING": LIVING})
    whole = _listed(scene)
    for _ in range(3):
        parts = []
        for _ in range(5):
            scene.store.calls.clear()
            report = _pass(scene)
            assert (report.plan, report.finished, report.statuses) == ("probe", 600, {"RUNNING": LIVING})
            parts.append(_listed(scene))
        # Each part begins with what the one before saw only a part of.
        assert whole <= sum(parts) <= whole + len(parts)
        assert max(parts) <= whole // 5 + 2


def _listed(scene: FleetScene) -> int:
    return sum(operation == "list" for operation, _ in scene.store.calls)


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
    scene = _scene(300)
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
    scene = _scene(300)
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


@pytest.mark.parametrize("restarted", [False, True], ids=["warm", "cold"])
@pytest.mark.parametrize("name", ["a-new", "run-000050-new", "z-new"])
@pytest.mark.parametrize("after", [1, 2, 4])
def test_a_new_run_is_found_within_five_minutes(name: str, after: int, restarted: bool) -> None:
    scene = _scene(100)
    scene.sweep()
    for _ in range(after):
        _pass(scene, restarted=restarted)
    for _ in range(5):
        scene.run(name).both(1)
        report = _pass(scene, restarted=restarted)
    assert (report.plan, report.statuses) == ("probe", {"RUNNING": LIVING + 1})
    scene.run(name).error()
    for _ in range(3):
        _pass(scene, restarted=restarted)
    assert scene.told(name) == ["FAILED"]


def test_one_that_ended_today_and_begins_again_is_found_within_five_passes() -> None:
    scene = _scene(300)
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


@pytest.mark.parametrize("restarted", [False, True], ids=["warm", "cold"])
@pytest.mark.parametrize("name", ["run-000000", "run-000077", "run-000099"])
@pytest.mark.parametrize("after", [1, 3])
def test_an_old_one_that_begins_again_is_found_within_five_minutes(name: str, after: int, restarted: bool) -> None:
    scene = _scene(100)
    scene.sweep()
    for _ in range(after):
        _pass(scene, restarted=restarted)
    scene.run(name).beat(attempt=2, start_time=scene.now.isoformat())
    for _ in range(5):
        report = _pass(scene, restarted=restarted)
    assert (report.plan, report.statuses) == ("probe", {"RUNNING": LIVING + 1})
    # And dies without a word.
    for _ in range(12):
        _pass(scene, restarted=restarted)
    assert scene.told(name) == ["TIMED_OUT"]


def test_passes_that_were_away_for_an_hour_find_what_is_new_within_five_minutes() -> None:
    scene = _scene(200)
    scene.sweep()
    _pass(scene)
    for number in range(0, 200, 40):
        scene.run(f"run-{number:06}-new").both(1)
    scene.after(3600)
    _beat(scene)
    for _ in range(6):
        assert _pass(scene).plan == "probe"
    assert len([run for run in scene.store.held if "-new/_watchdog" in run]) == 5


def test_a_part_that_there_was_no_time_for_is_made_up_for() -> None:
    scene = _scene(100)
    scene.sweep()
    _pass(scene)

    def slow(operation: str, _key: str) -> None:
        if operation == "list":
            time.sleep(0.05)

    scene.store.before = slow
    for number in range(0, 100, 20):
        scene.run(f"run-{number:06}-new").both(1)
    for _ in range(40):
        scene.after(60)
        _beat(scene)
        scene.sweep(deadline=0.2)
    assert len([run for run in scene.store.held if "-new/_watchdog" in run]) == 5


def test_where_nobody_lives_a_store_that_does_not_answer_is_noticed() -> None:
    scene = FleetScene()
    scene.store = scene.through = PagedStore(100)
    for number in range(200):
        scene.run(f"run-{number:06}").complete(age_s=200_000)
    for _ in range(3):
        scene.sweep()
        scene.after(7)

    def away(_operation: str, _key: str) -> None:
        raise UnreachableError("503")

    scene.store.before = away
    for _ in range(70):
        assert scene.sweep().blind
        scene.after(7)


def test_a_store_that_goes_away_is_blindness_and_nothing_more() -> None:
    scene = _scene(300)
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


def test_an_alert_that_a_run_raises_is_told_by_the_next_pass_that_asks_it() -> None:
    scene = _scene()
    scene.sweep()
    assert _pass(scene).plan == "probe"
    name = f"run-{500:06}-live"
    scene.after(30)
    at = scene.now.isoformat()
    scene.store.put_text(f"{name}/_alerts.json", encode_alerts(name, [RaisedAlert("a", "Loss is high")]).decode())
    scene.after(30)
    _beat(scene, name)
    scene.run(name).beat(raised_at=at)
    assert scene.sweep().plan == "probe"
    assert [(message.event.value, message.run_id) for message in scene.channel.sent] == [("ALERT", name)]
    before = len(scene.store.calls)
    for _ in range(3):
        scene.after(60)
        _beat(scene, name)
        scene.run(name).beat(raised_at=at)
        scene.sweep()
    assert ("read", f"{name}/_alerts.json") not in scene.store.calls[before:]
    assert len(scene.channel.sent) == 1


def test_a_run_whose_own_alerts_may_not_be_read_is_watched_without_them() -> None:
    scene = _scene()
    scene.sweep()
    name = f"run-{500:06}-live"

    def refuse(_operation: str, key: str) -> None:
        if key.endswith("_alerts.json"):
            raise DeniedError("403")

    scene.store.before = refuse
    scene.after(60)
    _beat(scene, name)
    scene.run(name).beat(raised_at=scene.now.isoformat())
    report = scene.sweep()
    assert ("read", f"{name}/_alerts.json") in scene.store.calls
    assert (report.plan, report.statuses) == ("probe", {"RUNNING": LIVING})


@pytest.mark.parametrize(
    "text", ['{"raised_at": [1], "status": ["completed"]}', '{"raised_at": "9999', '{"raised_at": 1e308}']
)
def test_what_a_heartbeat_says_of_alerts_may_be_anything(text: str) -> None:
    scene = _scene()
    scene.sweep()
    name = f"run-{500:06}-live"
    scene.after(60)
    _beat(scene, name)
    scene.store.put_text(f"{name}/metadata.json", text)
    report = scene.sweep()
    assert report.plan == "probe"
    assert report.statuses == {"RUNNING": LIVING}
