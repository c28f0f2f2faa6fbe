"""Where the record lies, and what happens when it cannot lie there."""

import pytest

from lastbeat.stores.port import DeniedError, UnreachableError
from support.scene import RUN, Scene

KEY = f"{RUN}/_watchdog.json"


def refuse_writes(scene: Scene) -> None:
    def hook(operation: str, _key: str) -> None:
        if operation in {"write", "delete"}:
            raise DeniedError("PUT denied")

    scene.store.before = hook


@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
def test_without_write_permission_watching_works_with_the_record_in_the_state_directory(restarted: bool) -> None:
    scene = Scene()
    refuse_writes(scene)
    scene.both(1)
    outcome = scene.look(restarted=restarted)
    assert outcome.status.value == "RUNNING"
    assert [note for note in outcome.notes if "the record is kept in memory://runs" in note]
    scene.after(700)
    for _ in range(3):
        outcome = scene.look(restarted=restarted)
        assert [note for note in outcome.notes if "the record is kept in" in note]
        scene.after(60)
    assert KEY not in scene.store.held
    assert scene.channel.events == ["TIMED_OUT"]


def test_once_the_store_takes_it_the_record_goes_back_there() -> None:
    scene = Scene()
    refuse_writes(scene)
    scene.both(1)
    scene.look()
    scene.store.before = lambda _operation, _key: None
    scene.after(700)
    outcome = scene.look()
    assert KEY in scene.store.held
    assert scene.state.held == {}
    assert outcome.notes == ()
    scene.after(60)
    scene.look()
    assert scene.channel.events == ["TIMED_OUT"]


def test_permission_that_is_taken_away_later_loses_no_history() -> None:
    scene = Scene()
    scene.both(1)
    scene.look()
    refuse_writes(scene)
    scene.after(700)
    scene.look()
    scene.after(60)
    outcome = scene.look()
    assert scene.channel.events == ["TIMED_OUT"]
    assert outcome.record is not None
    assert [t.after.value for t in outcome.record.history] == ["RUNNING", "TIMED_OUT"]


def test_a_decision_that_cannot_be_written_is_not_told_and_comes_again() -> None:
    scene = Scene()
    scene.put("_error", "boom")

    def hook(operation: str, _key: str) -> None:
        if operation == "write":
            raise UnreachableError("503")

    scene.store.before = hook
    outcome = scene.look()
    assert outcome.status.value == "FAILED"
    assert scene.channel.events == []
    assert any("could not be recorded" in note for note in outcome.notes)
    scene.store.before = lambda _operation, _key: None
    scene.look()
    assert scene.channel.events == ["FAILED"]


@pytest.mark.parametrize("body", ["", "{", "[]", '{"schema": 1}', '{"schema": "x"}', "\x00\xff" * 10, "[" * 100_000])
def test_a_damaged_record_is_replaced_and_said_so(body: str) -> None:
    scene = Scene()
    scene.put("_watchdog.json", body)
    scene.put("_error", "boom")
    outcome = scene.look()
    assert outcome.status.value == "FAILED"
    assert any("was damaged" in note for note in outcome.notes)
    assert scene.channel.events == ["FAILED"]
    assert scene.look().notes == ()


def test_a_record_of_a_newer_lastbeat_is_left_alone() -> None:
    scene = Scene()
    scene.put("_watchdog.json", '{"schema": 99}')
    scene.put("_error", "boom")
    outcome = scene.look()
    assert outcome.status.value == "UNKNOWN"
    assert "newer lastbeat" in outcome.reason
    assert outcome.action == "upgrade lastbeat on this machine"
    assert scene.store.held[KEY].body == b'{"schema": 99}'


def test_a_record_that_is_deleted_under_a_loop_is_written_again() -> None:
    scene = Scene()
    scene.both(1)
    scene.look()
    scene.after(700)
    scene.look(restarted=False)
    scene.delete("_watchdog.json")
    scene.after(60)
    scene.look(restarted=False)
    scene.both(2)
    scene.look(restarted=False)
    assert scene.channel.events == ["TIMED_OUT", "RECOVERED"]
    assert KEY in scene.store.held


@pytest.mark.parametrize(
    "secret",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "hf_abcdefghijklmnopqrstuvwxyz0123",
        "xoxb-1234567890-abcdefghij",
        "https://hooks.slack.com/services/T000/B000/XXXXXXXX",
        "ghp_0123456789abcdefghij0123456789abcdef",
    ],
)
def test_secrets_in_training_output_reach_neither_record_nor_alert(secret: str) -> None:
    scene = Scene()
    scene.put("_error", f"login failed with {secret}")
    scene.put("logs/training_log_latest.txt", f"using {secret}\nAuthorization: Bearer {secret}\n")
    scene.look()
    assert secret.encode() not in scene.store.held[KEY].body
    assert secret not in repr(scene.channel.sent)
    assert "login failed with" in scene.channel.sent[0].reason
