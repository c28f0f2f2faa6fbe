"""Where a few runs live among very many that ended, the living are asked one by one, and nothing is missed."""

import time
from dataclasses import replace

import pytest

from lastbeat.model import runid
from lastbeat.model.fleet import PassReport
from lastbeat.model.raised_alert import RaisedAlert, encode_alerts
from lastbeat.stores.port import UnreachableError
from support.paged import PagedStore
from support.world import World

LIVING = 8


def _world(finished: int = 300, most: int = 50) -> World:
    """``most`` keys a page."""
    # A store that takes money.
    world = World(store=PagedStore(most))
    for number in range(finished):
        run = world.run(f"run-{number:06}")
        run.beat(age_s=200_000)
        run.complete(age_s=200_000)
    for number in range(LIVING):
        world.run(f"run-{number * 500:06}-live").both(1)
    return world


def _beat(world: World, *but: str) -> None:
    for number in range(LIVING):
        name = f"run-{number * 500:06}-live"
        if name not in but:
            world.run(name).both(2)


def _pass(world: World, *but: str, restarted: bool = False) -> PassReport:
    world.after(60)
    _beat(world, *but)
    return world.sweep(restarted=restarted)


def _passes(world: World, count: int, *but: str, restarted: bool = False) -> PassReport:
    """The report of the last of them."""
    return [_pass(world, *but, restarted=restarted) for _ in range(count)][-1]


@pytest.mark.parametrize("restarted", [False, True], ids=["warm", "cold"])
def test_a_pass_lists_everything_each_five_minutes_and_the_others_ask_who_lives(restarted: bool) -> None:
    world = _world()
    world.sweep(restarted=restarted)
    for minute in range(1, 16):
        world.store.calls.clear()
        report = _pass(world, restarted=restarted)
        plan = "list" if minute % 5 == 0 else "probe"
        assert (report.plan, report.finished, report.statuses) == (plan, 300, {"RUNNING": LIVING})
        assert (_listed(world) > 0) is (plan == "list")


def _listed(world: World) -> int:
    return sum(operation == "list" for operation, _ in world.store.calls)


@pytest.mark.parametrize(("name", "restarted"), [("_error", True), ("_complete", False)])
def test_an_end_is_found_within_three_passes(name: str, restarted: bool) -> None:
    world = _world()
    world.sweep()
    _pass(world)
    ended = "run-003000-live"
    world.run(ended).put(name, "RuntimeError: boom" if name == "_error" else "")
    _passes(world, 3, ended, restarted=restarted)
    assert world.told(ended) == ["FAILED" if name == "_error" else "SUCCEEDED"]
    report = _passes(world, 10, ended, restarted=restarted)
    assert report.plan == "probe"
    assert len(world.channel.sent) == 1


def _rarely_listed() -> World:
    """The same after its first pass; it is listed each hour."""
    world = _world()
    world.fleet = replace(world.fleet, discover_s=3600.0)
    world.sweep()
    return world


@pytest.mark.parametrize(("after", "restarted"), [(1, True), (2, False), (3, True)])
def test_a_rank_that_failed_is_found_within_three_passes_though_its_run_beats(after: int, restarted: bool) -> None:
    world = _rarely_listed()
    _passes(world, after, restarted=restarted)
    failed = "run-003000-live"
    world.run(failed).error()
    _passes(world, 3, restarted=restarted)
    assert world.told(failed) == ["FAILED"]


def test_a_run_that_timed_out_and_has_logs_alone_is_back_with_the_next_pass() -> None:
    world = _rarely_listed()
    alone = world.run("run-000007-log")
    for _ in range(75):
        alone.put(runid.LOG, f"step 1 at {world.now}\n")
        _pass(world)
    _passes(world, 75)
    assert world.told("run-000007-log") == ["TIMED_OUT"]
    alone.put(runid.LOG, "step 2\n")
    report = _pass(world)
    assert world.told("run-000007-log") == ["TIMED_OUT", "RECOVERED"], report


def test_the_only_run_may_time_out_and_be_tidied_away_without_blindness() -> None:
    world = World(store=PagedStore(50))
    run = world.run("run-1")
    run.both(1)
    world.sweep()
    for _ in range(13):
        world.after(60)
        world.sweep()
    assert world.told("run-1") == ["TIMED_OUT"]
    run.delete()
    for _ in range(3):
        world.after(60)
        assert world.sweep().blind is None


def test_silence_return_and_deletion_are_found() -> None:
    world = _world()
    world.sweep()
    silent, deleted = "run-001000-live", "run-002000-live"
    _passes(world, 3)
    world.run(deleted).delete()
    report = _passes(world, 13, silent, deleted)
    assert report.plan == "probe"
    assert world.told(silent) == ["TIMED_OUT"]
    assert world.told(deleted) == ["TIMED_OUT"]
    _pass(world, deleted)
    assert world.told(silent) == ["TIMED_OUT", "RECOVERED"]


def test_a_listing_that_no_pass_has_the_time_for_goes_on_in_every_second_pass() -> None:
    world = _world(100)
    world.sweep()
    _pass(world)

    def slow(operation: str, _key: str) -> None:
        if operation == "list":
            time.sleep(0.05)

    world.store.before = slow
    for number in range(0, 100, 20):
        world.run(f"run-{number:06}-new").both(1)
    plans: list[str] = []

    def found() -> int:
        return len([run for run in world.store.held if "-new/_watchdog" in run])

    # On a busy machine a pass may have no time at all.
    while len(plans) < 40 or (found() < 5 and len(plans) < 1_000):
        world.after(60)
        _beat(world)
        plans.append(world.sweep(deadline=0.2).plan)
    assert found() == 5
    # Each listing that breaks off is followed by a pass that asks. On a busy machine some have no time for their runs.
    assert plans.count("probe") >= len(plans) / 4, "the live runs do not wait for it"


def test_where_nobody_lives_a_store_that_does_not_answer_is_noticed() -> None:
    world = World(store=PagedStore(100))
    for number in range(200):
        world.run(f"run-{number:06}").complete(age_s=200_000)
    for _ in range(3):
        world.sweep()
        world.after(7)
    world.store.refuse("any", UnreachableError("503"))
    for _ in range(30):
        assert world.sweep().blind
        world.after(7)


def test_a_store_that_goes_away_is_blindness_and_nothing_more() -> None:
    world = _world()
    world.sweep()
    _pass(world)
    world.store.refuse("any", UnreachableError("503"))
    for _ in range(15):
        assert _pass(world).blind
    assert world.channel.events == ["BLIND"]
    world.store.heal()
    assert _pass(world).statuses == {"RUNNING": LIVING}
    assert world.channel.events == ["BLIND", "SIGHTED"]


def test_an_alert_that_a_run_raises_is_told_by_the_next_pass_that_asks_it() -> None:
    world = _world()
    world.sweep()
    assert _pass(world).plan == "probe"
    name = f"run-{500:06}-live"
    world.after(30)
    at = world.now.isoformat()
    world.store.put_text(f"{name}/_alerts.json", encode_alerts(name, [RaisedAlert("a", "Loss is high")]).decode())
    world.after(30)
    _beat(world, name)
    world.run(name).beat(raised_at=at)
    assert world.sweep().plan == "probe"
    assert [(message.event.value, message.run_id) for message in world.channel.sent] == [("ALERT", name)]
    before = len(world.store.calls)
    for _ in range(3):
        world.after(60)
        _beat(world, name)
        world.run(name).beat(raised_at=at)
        world.sweep()
    assert ("read", f"{name}/_alerts.json") not in world.store.calls[before:]
    assert len(world.channel.sent) == 1


@pytest.mark.parametrize(
    "text", ['{"raised_at": [1], "status": ["completed"]}', '{"raised_at": "9999', '{"raised_at": 1e308}']
)
def test_what_a_heartbeat_says_of_alerts_may_be_anything(text: str) -> None:
    world = _world()
    world.sweep()
    name = f"run-{500:06}-live"
    world.after(60)
    _beat(world, name)
    world.store.put_text(f"{name}/metadata.json", text)
    report = world.sweep()
    assert report.plan == "probe"
    assert report.statuses == {"RUNNING": LIVING}
