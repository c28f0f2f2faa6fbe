"""An alert waits until its channel takes it, and no channel waits for another."""

import threading
import time
from itertools import pairwise

import pytest

from lastbeat.deliver.port import Channel, DeliveryError, Receipt
from lastbeat.effects.dispatch import dispatch
from lastbeat.effects.outbox import DeliveryClaim
from lastbeat.model.alert import Message
from lastbeat.model.status import Event, Status
from support.channel import ListChannel, down, refusing
from support.memory import START
from support.scene import Scene


def message() -> Message:
    return Message("run", Event.FAILED, Status.FAILED, "boom", START)


class TwoChannels(Scene):
    def __init__(self) -> None:
        self.other = ListChannel("other:2")
        super().__init__()

    @property
    def channels(self) -> list[Channel]:
        return [self.channel, self.other]


def test_the_next_pass_tries_again_at_once_and_then_less_and_less_often() -> None:
    scene = Scene()
    scene.put("_error", "boom")
    tries: list[float] = []

    def note(message: Message) -> DeliveryError:
        tries.append(scene.now.timestamp())
        return down(message)

    scene.channel.fault = note
    for _ in range(4000):
        outcome = scene.look(restarted=len(tries) % 2 == 0)
        assert outcome.pending == 1
        scene.after(1)
    waits = [round(later - earlier) for earlier, later in pairwise(tries)]
    assert waits[:5] == [1, 5, 10, 20, 40]
    assert max(waits) == 900
    assert any("503" in line for line in outcome.failures)
    scene.channel.fault = lambda _message: None
    scene.after(900)
    done = scene.look()
    assert (done.pending, done.delivered, done.failures) == (0, 1, ())
    assert scene.channel.events == ["FAILED"]


def test_retry_after_is_obeyed_by_every_alert_of_the_channel() -> None:
    scene = Scene()
    scene.channel.fault = lambda _message: DeliveryError("429", retryable=True, retry_after_s=300)
    scene.put("_complete")
    scene.look()
    scene.channel.fault = lambda _message: None
    scene.put("_error", "late")
    scene.after(100)
    scene.look()
    assert scene.channel.events == []
    scene.after(201)
    scene.look()
    assert scene.channel.events == ["SUCCEEDED", "FAILED"]


def test_a_refusal_is_final_and_shown() -> None:
    scene = Scene()
    scene.channel.fault = refusing
    scene.put("_error", "boom")
    first = scene.look()
    assert (first.pending, first.delivered) == (0, 0)
    scene.channel.fault = lambda _message: None
    scene.after(3600)
    later = scene.look()
    assert scene.channel.events == []
    assert later.failures == ("alert 1 (FAILED) was refused by list: 404 no_service",)


def test_of_two_alerts_in_one_pass_the_second_does_not_overtake_the_first() -> None:
    scene = Scene()
    scene.both(1)
    scene.look()
    scene.channel.fault = down
    scene.after(1200)
    scene.look()
    scene.put("_error", "boom")
    scene.after(60)
    # The first try of this pass fails, a second one would not.
    tries = iter([down])

    def once(message: Message) -> DeliveryError | None:
        return next((fault(message) for fault in tries), None)

    scene.channel.fault = once
    for _ in range(3):
        scene.look()
        scene.after(60)
    assert scene.channel.events == ["TIMED_OUT", "FAILED"]


@pytest.mark.parametrize("fault", [down, refusing])
def test_one_channel_that_fails_holds_up_none(fault: object) -> None:
    scene = TwoChannels()
    scene.channel.fault = fault  # type: ignore[assignment]
    scene.put("_error", "boom")
    scene.look()
    assert (scene.channel.events, scene.other.events) == ([], ["FAILED"])


def test_a_channel_that_breaks_in_an_unforeseen_way_is_one_that_is_down() -> None:
    scene = TwoChannels()

    def break_down(_message: Message) -> DeliveryError:
        raise ZeroDivisionError("https://hooks.example/secret")

    scene.channel.fault = break_down
    scene.put("_error", "boom")
    outcome = scene.look()
    assert scene.other.events == ["FAILED"]
    assert outcome.failures == ("alert 1 (FAILED) waits for list: the channel broke: ZeroDivisionError",)


def test_a_watcher_without_channels_loses_nothing_for_one_that_has_them() -> None:
    scene = TwoChannels()
    lonely = scene.fresh_watch(channels=[])
    scene.put("_error", "boom")
    assert lonely.tick().status.value == "FAILED"
    scene.after(60)
    scene.look()
    assert (scene.channel.events, scene.other.events) == (["FAILED"], ["FAILED"])


def test_a_channel_added_later_gets_todays_news_and_not_last_weeks() -> None:
    scene = Scene()
    scene.put("_complete")
    scene.look()
    scene.after(3600)
    scene.channel = ListChannel("new:1")
    scene.look()
    assert scene.channel.events == ["SUCCEEDED"]
    scene.after(25 * 3600)
    scene.channel = ListChannel("newer:1")
    assert scene.look().pending == 0
    assert scene.channel.events == []


def test_a_full_outbox_gives_up_its_oldest_and_says_so() -> None:
    scene = Scene()
    scene.channel.fault = down
    for step in range(28):
        scene.both(step)
        scene.look()
        scene.after(700)
        scene.look()
        # At most three flips an hour: more of them would be flapping.
        scene.after(2200)
    scene.channel.fault = lambda _message: None
    scene.after(900)
    outcome = scene.look()
    assert outcome.pending == 0
    assert len(scene.channel.sent) == 50
    assert outcome.record is not None
    assert outcome.record.dropped == outcome.record.alerts - 50
    assert "earlier alerts were given up" in scene.channel.sent[-1].notes[0]


def test_a_dry_run_shows_the_alert_and_does_nothing() -> None:
    scene = Scene()
    scene.put("_error", "CUDA out of memory")
    scene.watch = scene.fresh_watch(dry_run=True)
    outcome = scene.watch.tick()
    assert [message.event.value for message in outcome.alerts] == ["FAILED"]
    assert outcome.status.value == "FAILED"
    assert scene.record_writes() == 0
    assert scene.state.held == {}
    assert scene.channel.events == []
    assert scene.look().alerts == outcome.alerts


def test_an_alert_decided_while_a_channel_is_in_back_off_waits_for_it_too() -> None:
    scene = TwoChannels()
    scene.channel.fault = down
    for step in range(6):
        scene.both(step)
        scene.look()
        scene.after(700)
        scene.look()
        # At most three flips an hour: more of them would be flapping.
        scene.after(2200)
    assert len(scene.other.sent) == 11
    scene.channel.fault = lambda _message: None
    scene.after(30 * 3600)
    for _ in range(3):
        scene.look()
        scene.after(61)
    assert scene.channel.events == scene.other.events


def test_channels_that_hang_take_no_longer_together_than_one() -> None:
    release = threading.Event()

    class Hanging(ListChannel):
        def send(self, message: Message, receipt: Receipt | None = None) -> None:
            release.wait(30)

    claims = [DeliveryClaim(n, identity, message()) for identity in ("a:1", "b:2", "c:3") for n in (1, 2)]
    began = time.monotonic()
    try:
        results = dispatch(claims, [Hanging("a:1"), Hanging("b:2"), Hanging("c:3")], 0.5)
    finally:
        release.set()
    assert time.monotonic() - began < 10
    assert set(results) == {(1, "a:1"), (1, "b:2"), (1, "c:3")}, "what was not begun has no result"
    assert all(isinstance(result, DeliveryError) and result.retryable for result in results.values())


def test_a_slow_look_does_not_make_a_claim_that_has_run_out() -> None:
    scene = Scene()
    scene.put("_error", "boom")
    other = scene.fresh_watch()

    class Slow(ListChannel):
        def send(self, message: Message, receipt: Receipt | None = None) -> None:
            other.tick()
            super().send(message)

    scene.channel = Slow()

    def slow_once(operation: str, _key: str) -> None:
        scene.store.after = lambda _operation, _key: None
        scene.after(100)

    scene.store.after = slow_once
    scene.watch = scene.fresh_watch()
    other._runner.channels = [scene.channel]
    scene.watch.tick()
    assert scene.channel.events == ["FAILED"]
