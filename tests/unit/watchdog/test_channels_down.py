"""An alert waits until its channel takes it, and no channel waits for another."""

import threading
from itertools import pairwise

from lastbeat.alerts.port import DeliveryError, Receipt
from lastbeat.model.alert import Message
from lastbeat.model.status import Event, Status
from lastbeat.watch.effects.outbox import DeliveryClaim
from lastbeat.watch.effects.runner import dispatch
from support.channel import ListChannel, down
from support.memory import START
from support.world import World


def message() -> Message:
    return Message("run", Event.FAILED, Status.FAILED, "boom", START)


class TwoChannels(World):
    def __init__(self) -> None:
        super().__init__()
        self.other = ListChannel("other:2")
        self.channels.append(self.other)


def test_the_next_pass_tries_again_at_once_and_then_less_and_less_often() -> None:
    world = World()
    world.error("boom")
    tries: list[float] = []

    def note(message: Message) -> DeliveryError:
        tries.append(world.now.timestamp())
        return down(message)

    world.channel.fault = note
    for number in range(480):
        outcome = world.look(restarted=len(tries) % 2 == 0)
        assert outcome.pending == 1
        world.after(1 if number < 80 else 10)
    waits = [round(later - earlier) for earlier, later in pairwise(tries)]
    assert waits[:5] == [1, 5, 10, 20, 40]
    assert max(waits) == 900
    assert any("503" in line for line in outcome.failures)
    world.channel.fault = lambda _message: None
    world.after(900)
    done = world.look()
    assert (done.pending, done.delivered, done.failures) == (0, 1, ())
    assert world.channel.events == ["FAILED"]


def test_retry_after_is_obeyed_by_every_alert_of_the_channel() -> None:
    world = World()
    world.channel.fault = lambda _message: DeliveryError("429", retryable=True, retry_after_s=300)
    world.complete()
    world.look()
    world.channel.fault = lambda _message: None
    world.error("late")
    world.after(100)
    world.look()
    assert world.channel.events == []
    world.after(201)
    world.look()
    assert world.channel.events == ["SUCCEEDED", "FAILED"]


def test_a_channel_that_breaks_in_an_unforeseen_way_is_one_that_is_down() -> None:
    world = TwoChannels()

    def break_down(_message: Message) -> DeliveryError:
        raise ZeroDivisionError("https://hooks.example/secret")

    world.channel.fault = break_down
    world.error("boom")
    outcome = world.look()
    assert world.other.events == ["FAILED"]
    assert outcome.failures == ("alert 1 (FAILED) waits for list: the channel broke: ZeroDivisionError",)


def test_a_full_outbox_gives_up_its_oldest_and_says_so() -> None:
    world = World()
    world.channel.fault = down
    for step in range(28):
        world.both(step)
        world.look()
        world.after(700)
        world.look()
        # At most three flips an hour: more of them would be flapping.
        world.after(2200)
    world.channel.fault = lambda _message: None
    world.after(900)
    outcome = world.look()
    assert outcome.pending == 0
    assert len(world.channel.sent) == 50
    assert outcome.record is not None
    assert outcome.record.dropped == outcome.record.alerts - 50
    assert "earlier alerts were given up" in world.channel.sent[-1].notes[0]


def test_channels_that_hang_take_no_longer_together_than_one() -> None:
    release, waited = threading.Event(), list[bool]()

    class Hanging(ListChannel):
        def send(self, message: Message, receipt: Receipt | None = None) -> None:
            waited.append(release.wait(200))

    claims = [DeliveryClaim(n, identity, message()) for identity in ("a:1", "b:2", "c:3") for n in (1, 2)]
    try:
        results = dispatch(claims, [Hanging("a:1"), Hanging("b:2"), Hanging("c:3")], 0.5)
        assert not waited, "none has been waited for to its end"
    finally:
        release.set()
    assert set(results) == {(1, "a:1"), (1, "b:2"), (1, "c:3")}, "what was not begun has no result"
    assert all(isinstance(result, DeliveryError) and result.retryable for result in results.values())


def test_a_slow_look_does_not_make_a_claim_that_has_run_out() -> None:
    world = World()
    world.error("boom")
    other = world.fresh_watch()

    class Slow(ListChannel):
        def send(self, message: Message, receipt: Receipt | None = None) -> None:
            other.tick()
            super().send(message)

    world.channel = Slow()

    def slow_once(operation: str, _key: str) -> None:
        world.store.after = lambda _operation, _key: None
        world.after(100)

    world.store.after = slow_once
    world.watch = world.fresh_watch()
    other._runner.channels = [world.channel]
    world.watch.tick()
    assert world.channel.events == ["FAILED"]
