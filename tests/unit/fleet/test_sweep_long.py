"""What shows only over many passes: nobody starves, nothing is looked at for ever, nothing is told too late."""

import threading
import time
from threading import Thread

from lastbeat.alerts.port import DeliveryError
from lastbeat.fleet.shared_channel import SharedChannel
from lastbeat.stores.port import DeniedError, Page, UnreachableError
from support.channel import ListChannel
from support.messages import FAILED
from support.paged import PagedStore
from support.there import there
from support.waiting import LIMIT_S, until
from support.world import World


def test_a_sweep_that_was_away_learns_from_the_other_what_became_of_a_deleted_run() -> None:
    world = World()
    run, other = world.run("x"), world.run("other")
    run.both(1)
    other.both(1)
    one, two = world.fresh_sweep(), world.fresh_sweep()
    one.run()
    two.run()
    run.complete()
    world.after(60)
    one.run()
    world.after(3600)
    other.both(2)
    run.delete()
    one.run()
    for _ in range(15):
        world.after(60)
        other.both(2)
        two.run()
    assert world.told("x") == ["SUCCEEDED"]
    assert not [key for key in world.store.held if key.startswith("x/")]


def _starved(world: World, run_id: str, passes: int, deadline: float, *beating: str) -> bool:
    for _ in range(passes):
        world.after(60)
        for name in beating:
            world.run(name).both(2)
        world.sweep(deadline=deadline)
        if world.told(run_id):
            return False
    return True


def test_many_poisonous_runs_in_front_keep_nobody_from_being_looked_at() -> None:
    world = World()
    names = [f"a{number:03}" for number in range(200)]
    for name in (*names, "z"):
        world.run(name).both(1)
    world.sweep()

    def slow(operation: str, key: str) -> None:
        if operation == "read" and key.startswith("a"):
            time.sleep(0.05)
            raise UnreachableError("503")

    world.store.before = slow
    world.after(1300)
    world.run("z").error()
    assert not _starved(world, "z", 100, 0.4, *names)


def test_asking_one_by_one_comes_round_although_no_pass_can_ask_all() -> None:
    world = _probing()
    names = [f"live{number:03}" for number in range(100)]
    for name in names:
        world.run(name).both(1)
    world.sweep()

    def slow(operation: str, _key: str) -> None:
        if operation == "read":
            time.sleep(0.01)

    world.store.before = slow
    world.run("live099").error()
    assert not _starved(world, "live099", 100, 0.1, *names)


def _probing(finished: int = 300) -> World:
    world = World(store=PagedStore(50))
    for number in range(finished):
        run = world.run(f"run-{number:06}")
        run.beat(age_s=200_000)
        run.complete(age_s=200_000)
    return world


def test_one_run_that_cannot_be_asked_does_not_blind_the_fleet() -> None:
    world = _probing()
    world.run("live").both(1)
    world.sweep()
    world.store.refuse("read", DeniedError("403 for live"), under="live/")
    for _ in range(14):
        world.after(60)
        world.run("live").both(1)
        report = world.sweep()
        assert report.blind is None
        assert set(report.unreadable) == {"live"}
    assert [(m.event.value, m.run_id) for m in world.channel.sent] == [("BLIND", "live")]


def test_a_listing_that_fails_hides_nothing_that_is_known() -> None:
    world = _probing()
    for number in range(5):
        world.run(f"live{number}").both(1)
    world.sweep()
    world.store.refuse("list", UnreachableError("503 for the listing"))
    for minute in range(24):
        world.after(60)
        for number in range(5):
            world.run(f"live{number}").both(1)
        if minute == 20:
            world.run("live3").error()
        report = world.sweep()
        assert report.blind is None
    assert any("503 for the listing" in note for note in report.notes)
    assert world.told("live3") == ["FAILED"]


def test_a_page_that_cannot_be_had_hides_no_new_run_before_it() -> None:
    world = _probing()
    world.run("live").both(1)
    world.sweep()
    whole = world.store.list

    def broken(prefix: str, start_after: str = "", limit: int = 1000) -> Page:
        if start_after > "run-000150":
            raise UnreachableError("503 for that page")
        return whole(prefix, start_after, limit)

    world.store.list = broken  # type: ignore[method-assign]
    for minute in range(14):
        world.after(60)
        world.run("live").both(minute)
        if minute == 6:
            world.run("a-new").error()
        assert world.sweep().blind is None
    assert world.told("a-new") == ["FAILED"]


def test_a_folder_that_held_a_configuration_alone_is_found_with_its_first_heartbeat() -> None:
    world = _probing()
    world.run("live").both(1)
    world.sweep()
    world.run("new").put("config.yaml", "x")
    for minute in range(90):
        world.after(60)
        world.run("live").both(1)
        if minute >= 30:
            world.run("new").both(minute)
        if minute == 80:
            world.run("new").error()
        world.sweep()
    assert world.told("new") == ["FAILED"]


def test_a_run_that_could_not_be_seen_from_the_start_is_told_of_each_time() -> None:
    world = World()
    for name in ("ok", "bad"):
        world.run(name).both(1)
    for refused, told in ((True, ["BLIND"]), (False, ["BLIND", "SIGHTED"]), (True, ["BLIND", "SIGHTED", "BLIND"])):
        world.store.heal()
        if refused:
            world.store.refuse("read", DeniedError("403"), under="bad/")
        world.sweeps(40, restarted=True)
        assert world.told("bad") == told


def test_a_process_that_takes_over_knows_since_when_a_run_could_not_be_seen() -> None:
    world = World()
    # What the first process remembers is lost with it, but for the fleet's index.
    world.options["state"] = None
    for name in ("ok", "bad"):
        world.run(name).both(1)
    world.sweep()
    world.store.refuse("read", DeniedError("403"), under="bad/")
    told = []
    for minute in range(1, 14):
        world.after(60)
        for name in ("ok", "bad"):
            world.run(name).both(minute)
        world.sweep(restarted=minute == 9)
        told.append(world.told("bad"))
    assert (told[8], told[-1]) == ([], ["BLIND"])


def test_what_a_look_found_after_its_pass_outlasts_a_pass_that_cannot_see() -> None:
    world = World()
    world.run("slow").both(1)
    world.sweep()
    world.run("slow").complete()
    writes, held, ended = threading.Event(), threading.Event(), threading.Event()

    def slow(operation: str, key: str) -> None:
        if (operation, key) == ("write", "slow/_watchdog.json"):
            writes.set()
            held.wait(LIMIT_S)

    def noted(operation: str, key: str) -> None:
        if (operation, key) == ("write", "slow/_watchdog.json"):
            ended.set()

    world.store.before, world.store.after = slow, noted
    world.after(60)

    def looks_on() -> bool:
        """A pass whose look goes on. On a busy machine the pass may end before the look comes to the write."""
        assert world.sweep(deadline=0.3).transitions == ()
        return writes.is_set()

    until(looks_on)
    held.set()
    assert ended.wait(LIMIT_S)
    looks = there(world.sweeper._context.pool)
    until(lambda: not looks.is_busy("slow"))
    world.store.refuse("any", UnreachableError("503"))
    assert world.sweep().blind
    world.store.heal()
    assert [run_id for run_id, _ in world.sweep().transitions] == ["slow"]


def test_without_channels_a_decision_that_could_not_be_written_is_made_again() -> None:
    world = World()
    world.channels = []
    world.run("x").both(1)
    world.sweep()
    world.after(700)
    world.store.refuse("write", UnreachableError("503"), under="x/")
    assert world.sweep().unrecorded == 1
    world.store.heal()
    world.after(60)
    report = world.sweep()
    record = there(world.run("x").record)
    assert record.status is not None
    assert (record.status.value, len(report.transitions)) == ("TIMED_OUT", 1)


def test_an_alert_that_had_to_wait_too_long_for_its_turn_is_not_sent_behind_the_back_of_who_gave_up() -> None:
    slow = ListChannel()

    def takes_long(_message: object) -> None:
        time.sleep(0.3)

    slow.fault = takes_long
    paced = SharedChannel(slow, wait_s=0.05)
    failures = 0

    def send() -> None:
        nonlocal failures
        try:
            paced.send(FAILED)
        except DeliveryError as error:
            failures += error.retryable

    threads = [Thread(target=send) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(slow.sent) + failures == 5
    assert paced.sent == len(slow.sent)
