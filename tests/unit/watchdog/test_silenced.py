"""A silenced run is watched and recorded as any other, and nobody is told."""

from datetime import timedelta
from typing import Any

from lastbeat.model.silence import SILENCES, Silence
from lastbeat.stores.port import UnreachableError
from lastbeat.watch.record.silences import Silences
from lastbeat.watch.watchdog import Watch
from support.channel import down
from support.world import RUN, World

MINUTE = 60.0


class Silent(World):
    """Every watcher of it honours silences."""

    def fresh_watch(self, run_id: str = RUN, **options: Any) -> Watch:
        return super().fresh_watch(run_id, silences=Silences(self.store), **options)

    def silence(self, runs: str = "mistral-*", *, hours: float = 2.0, why: str = "moving") -> None:
        until = self.now + timedelta(hours=hours)
        Silences(self.store).add(Silence("ab12cd34", runs, self.now, until, why, "ana@desk"), self.now)


def test_a_silenced_transition_is_recorded_with_who_and_why_and_is_not_sent() -> None:
    world = Silent()
    world.both(1)
    world.look()
    world.silence()
    world.after(11 * MINUTE)
    outcome = world.look()
    assert outcome.status.value == "TIMED_OUT"
    assert outcome.alerts == ()
    assert outcome.pending == 0
    assert world.channel.events == []
    record = world.record_after_look()
    assert [transition.silenced for transition in record.history] == [
        None,
        "moving (silence ab12cd34 of mistral-* until 2026-01-01T14:00:00Z, by ana@desk)",
    ]
    assert outcome.transition == record.history[-1]
    assert record.alerts == 0


def test_what_was_silenced_is_not_sent_afterwards_and_what_comes_then_is() -> None:
    world = Silent()
    world.both(1)
    world.look()
    world.silence(hours=1)
    world.after(30 * MINUTE)
    world.look()
    world.after(31 * MINUTE)
    assert world.look().alerts == ()
    assert world.channel.events == []
    world.both(2)
    world.look()
    assert world.channel.events == ["RECOVERED"]
    assert world.record_after_look().history[-1].silenced is None


def test_an_alert_that_was_decided_before_the_silence_still_goes_out() -> None:
    world = Silent()
    world.channel.fault = down
    world.error("boom")
    world.look()
    world.silence()
    world.channel.fault = lambda _message: None
    world.look()
    assert world.channel.events == ["FAILED"]


def test_a_healthy_pass_does_not_ask_for_silences() -> None:
    world = Silent()
    world.silence()
    world.both(1)
    world.look()
    for step in range(2, 9):
        world.after(MINUTE)
        world.both(step)
        world.store.calls.clear()
        world.look()
        assert ("read", SILENCES) not in world.store.calls


def test_that_the_watchdog_is_blind_is_never_silenced() -> None:
    world = Silent()
    world.silence("*")
    world.both(1)
    world.look()

    world.store.refuse("any", UnreachableError("503"))
    for _ in range(3):
        world.look()
        world.after(11 * MINUTE)
    assert world.channel.events == ["BLIND"]
    world.store.heal()
    world.both(2)
    world.look()
    assert world.channel.events == ["BLIND", "SIGHTED"]


def test_a_secret_in_a_reason_does_not_get_into_the_record() -> None:
    world = Silent()
    world.silence(why="see https://hooks.example/hush-hush")
    world.error("boom")
    world.fresh_watch(mask=lambda text: text.replace("hush-hush", "***")).tick()
    assert world.record_after_look().history[-1].silenced is not None
    assert "hush" not in world.store.held[f"{RUN}/_watchdog.json"].body.decode()


def test_flapping_that_nobody_was_told_of_is_told_after_the_silence() -> None:
    world = Silent()
    world.silence(hours=1)
    told = []
    for step in range(8):
        world.both(step)
        world.look()
        world.after(11 * MINUTE)
        world.look()
        told.append(list(world.channel.events))
    # Until 12:55 everything is silenced.
    assert told[:5] == [[]] * 5
    assert told[5] == ["FLAPPING"]
    assert told[-1] == ["FLAPPING"]
