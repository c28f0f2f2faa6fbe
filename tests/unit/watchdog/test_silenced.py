"""A silenced run is watched and recorded as any other, and nobody is told."""

import logging
from datetime import timedelta
from typing import Any

import pytest

from lastbeat.model.record import Record
from lastbeat.model.silence import SILENCES, Silence
from lastbeat.record.silences import Silences
from lastbeat.stores.port import UnreachableError
from support.channel import down
from support.scene import RUN, Scene

MINUTE = 60.0


class Silent(Scene):
    """Every watcher of it honours silences."""

    def fresh_watch(self, **options: Any) -> Any:
        return super().fresh_watch(silences=Silences(self.store), **options)

    def silence(self, runs: str = "mistral-*", *, hours: float = 2.0, why: str = "moving") -> None:
        until = self.now + timedelta(hours=hours)
        Silences(self.store).add(Silence("ab12cd34", runs, self.now, until, why, "ana@desk"), self.now)

    def record(self) -> Record:
        record = self.look().record
        assert record is not None
        return record


def test_a_silenced_transition_is_recorded_with_who_and_why_and_is_not_sent() -> None:
    scene = Silent()
    scene.both(1)
    scene.look()
    scene.silence()
    scene.after(11 * MINUTE)
    outcome = scene.look()
    assert outcome.status.value == "TIMED_OUT"
    assert outcome.alerts == ()
    assert outcome.pending == 0
    assert scene.channel.events == []
    record = scene.record()
    assert [transition.silenced for transition in record.history] == [
        None,
        "moving (silence ab12cd34 of mistral-* until 2026-01-01T14:00:00Z, by ana@desk)",
    ]
    assert outcome.transition == record.history[-1]
    assert record.alerts == 0


def test_what_was_silenced_is_not_sent_afterwards_and_what_comes_then_is() -> None:
    scene = Silent()
    scene.both(1)
    scene.look()
    scene.silence(hours=1)
    scene.after(30 * MINUTE)
    scene.look()
    scene.after(31 * MINUTE)
    assert scene.look().alerts == ()
    assert scene.channel.events == []
    scene.both(2)
    scene.look()
    assert scene.channel.events == ["RECOVERED"]
    assert scene.record().history[-1].silenced is None


def test_other_runs_are_told_of() -> None:
    scene = Silent()
    scene.silence("llama-*")
    scene.both(1)
    scene.look()
    scene.after(11 * MINUTE)
    scene.look()
    assert scene.channel.events == ["TIMED_OUT"]


def test_warnings_are_silenced_too() -> None:
    scene = Silent()
    scene.silence()
    scene.beat()
    scene.progress(1, loss="nan")
    assert set(scene.look().conditions) == {"loss_nan"}
    assert scene.channel.events == []
    assert set(scene.record().conditions) == {"loss_nan"}


def test_an_alert_that_was_decided_before_the_silence_still_goes_out() -> None:
    scene = Silent()
    scene.channel.fault = down
    scene.put("_error", "boom")
    scene.look()
    scene.silence()
    scene.channel.fault = lambda _message: None
    scene.look()
    assert scene.channel.events == ["FAILED"]


def test_a_healthy_pass_does_not_ask_for_silences() -> None:
    scene = Silent()
    scene.silence()
    scene.both(1)
    scene.look()
    for step in range(2, 9):
        scene.after(MINUTE)
        scene.both(step)
        scene.store.calls.clear()
        scene.look()
        assert ("read", SILENCES) not in scene.store.calls


def test_where_silences_cannot_be_read_people_are_told(caplog: pytest.LogCaptureFixture) -> None:
    scene = Silent()
    scene.silence()
    scene.both(1)
    scene.look()
    scene.after(11 * MINUTE)

    def unreachable(_operation: str, key: str) -> None:
        if key == SILENCES:
            raise UnreachableError("503 for silences.json")

    scene.store.before = unreachable
    scene.look()
    assert scene.channel.events == ["TIMED_OUT"]
    assert any(r.levelno == logging.WARNING and "503" in r.getMessage() for r in caplog.records)


def test_that_the_watchdog_is_blind_is_never_silenced() -> None:
    scene = Silent()
    scene.silence("*")
    scene.both(1)
    scene.look()

    def unreachable(_operation: str, _key: str) -> None:
        raise UnreachableError("503")

    scene.store.before = unreachable
    for _ in range(3):
        scene.look()
        scene.after(11 * MINUTE)
    assert scene.channel.events == ["BLIND"]
    scene.store.heal()
    scene.both(2)
    scene.look()
    assert scene.channel.events == ["BLIND", "SIGHTED"]


def test_a_dry_run_shows_what_would_be_silenced_as_nothing() -> None:
    scene = Silent()
    scene.silence()
    scene.put("_error", "boom")
    outcome = scene.fresh_watch(dry_run=True).tick()
    assert outcome.status.value == "FAILED"
    assert outcome.alerts == ()
    assert scene.record_writes() == 0


def test_a_secret_in_a_reason_does_not_get_into_the_record() -> None:
    scene = Silent()
    scene.silence(why="see https://hooks.example/hush-hush")
    scene.put("_error", "boom")
    scene.fresh_watch(mask=lambda text: text.replace("hush-hush", "***")).tick()
    assert scene.record().history[-1].silenced is not None
    assert "hush" not in scene.store.held[f"{RUN}/_watchdog.json"].body.decode()


def test_flapping_that_nobody_was_told_of_is_told_after_the_silence() -> None:
    scene = Silent()
    scene.silence(hours=1)
    told = []
    for step in range(8):
        scene.both(step)
        scene.look()
        scene.after(11 * MINUTE)
        scene.look()
        told.append(list(scene.channel.events))
    # Until 12:55 everything is silenced.
    assert told[:5] == [[]] * 5
    assert told[5] == ["FLAPPING"]
    assert told[-1] == ["FLAPPING"]


def test_an_end_of_flapping_that_was_silenced_is_an_end_all_the_same() -> None:
    scene = Silent()
    for step in range(3):
        scene.both(step)
        scene.look()
        scene.after(11 * MINUTE)
        scene.look()
    assert scene.channel.events[-1] == "FLAPPING"
    scene.silence(hours=2)
    scene.after(61 * MINUTE)
    scene.look()
    assert scene.record().flapping_since is None
    scene.after(61 * MINUTE)
    scene.both(9)
    scene.look()
    assert scene.channel.events[-2:] == ["FLAPPING", "RECOVERED"]
