"""A store or a call that hangs, wholly or for one run: what is known is told in time, and nothing is begun twice."""

import logging
import threading
import time

import pytest

from lastbeat.fleet.deadlines import BoundedCalls
from lastbeat.model.alert import Message
from lastbeat.stores.port import DeniedError
from support.world import World


@pytest.mark.parametrize(("silent", "told"), [(1, ["TIMED_OUT"]), (6, ["TIMED_OUT"])], ids=["alone", "in a group"])
def test_a_look_that_never_ends_delays_no_other_run_s_alert(
    silent: int, told: list[str], released: threading.Event
) -> None:
    world = World()
    names = [f"r{number}" for number in range(silent)]
    for name in (*names, "hangs"):
        world.run(name).both(1)
    world.sweep()

    def hang(operation: str, key: str) -> None:
        if operation == "read" and key.startswith("hangs/"):
            released.wait(60)

    world.store.before = hang
    for _ in range(14):
        world.after(60)
        world.run("hangs").both(2)
        world.sweep(deadline=1.0)
    assert [world.told(name) for name in names] == [told] * silent
    assert len(world.channel.sent) == 1
    assert all(record is not None and not _held(record) for record in (world.run(name).record for name in names))


def _held(record: object) -> bool:
    outbox = getattr(record, "outbox", ())
    return any(not delivery.settled for alert in outbox for delivery in alert.deliveries.values())


def test_a_store_that_answers_no_read_is_not_seen(released: threading.Event) -> None:
    world = World()
    world.store.in_s3()
    for number in range(6000):
        world.run(f"old-{number:06}").both(1, age_s=200_000)
    for number in range(30):
        world.run(f"r{number:02}").both(1)
    world.sweep()
    world.after(60)
    assert world.sweep().plan == "probe"

    def hang(operation: str, _key: str) -> None:
        if operation == "read":
            released.wait(60)

    world.store.before = hang
    world.after(60)
    # Time enough for the part that is listed before, on a busy machine.
    report = world.sweep(deadline=3.0)
    assert report.blind is not None
    assert report.exit_status == 3


def test_a_channel_that_hangs_while_it_is_told_who_cannot_be_seen_is_told_later_who_can_be_again(
    released: threading.Event,
) -> None:
    world = World()
    for name in ("ok", "bad"):
        world.run(name).both(1)
    world.sweep()

    def hang(_message: Message) -> None:
        released.wait(60)

    world.store.refuse("read", DeniedError("403 for bad"), under="bad/")
    world.channel.fault = hang
    for _ in range(14):
        world.after(60)
        for name in ("ok", "bad"):
            world.run(name).both(2)
        world.sweep(deadline=0.4)
    assert world.channel.events == [], "it hangs at the first"
    world.store.heal()
    world.after(60)
    world.sweep(deadline=0.4)
    released.set()
    until = time.monotonic() + 60
    while world.channel.events != ["BLIND", "SIGHTED"]:
        assert time.monotonic() < until, world.channel.events
        world.after(60)
        for name in ("ok", "bad"):
            world.run(name).both(2)
        world.sweep(deadline=0.4)
        time.sleep(0.05)


def test_one_that_hangs_is_left_alone_and_not_begun_again_before_it_has_ended() -> None:
    calls, held, begun = BoundedCalls(), threading.Event(), []

    def hang() -> str:
        begun.append(1)
        held.wait(60)
        return "done"

    assert calls.call("call", hang, time.monotonic() + 0.05) is None
    assert calls.call("call", hang, time.monotonic() + 0.05) is None
    assert len(begun) == 1
    assert calls.call("another", lambda: "meanwhile", time.monotonic() + 60) == "meanwhile"
    held.set()
    assert calls.call("call", hang, time.monotonic() + 60) == "done"
    assert len(begun) == 2


def test_a_fault_of_ours_is_logged_and_breaks_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> str:
        raise ZeroDivisionError

    with caplog.at_level(logging.ERROR):
        assert BoundedCalls().call("the ledger", broken, time.monotonic() + 60) is None
    assert "the ledger broke" in caplog.text
