"""Where the record lies, and what happens when it cannot lie there."""

import re

import pytest

from lastbeat.model.redact import Redactor
from lastbeat.stores.port import DeniedError, StoreError, UnreachableError
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
    assert [note for note in outcome.notes if "cannot be written: the record is kept in memory://runs" in note]
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


@pytest.mark.parametrize("code", ["ENOSPC", "EDQUOT", "EISDIR"])
def test_a_full_disk_is_no_reason_to_be_silent(code: str) -> None:
    scene = Scene()

    def hook(operation: str, _key: str) -> None:
        if operation == "write":
            raise StoreError(f"the disk is full ({code})")

    scene.store.before = hook
    scene.put("_error", "OSError: No space left on device")
    assert scene.look().pending == 0
    assert scene.channel.events == ["FAILED"]


def test_a_watch_is_not_done_before_what_it_sent_is_written_down() -> None:
    scene = Scene()
    scene.put("_error", "boom")

    def full(operation: str, _key: str) -> None:
        if operation == "write" and scene.channel.sent:
            raise StoreError("the disk is full")

    scene.store.before = scene.state.before = full
    assert scene.look().pending == 1
    assert scene.look(restarted=False).pending == 1
    scene.store.heal()
    assert scene.look(restarted=False).pending == 0
    scene.after(scene.policy.lease_s + 1)
    scene.look()
    assert scene.channel.events == ["FAILED"]


def test_one_refused_write_does_not_split_a_watcher_off_for_good() -> None:
    scene = Scene()
    scene.both(1)
    scene.look()
    refuse_writes(scene)
    scene.after(700)
    scene.look()
    assert scene.channel.events == ["TIMED_OUT"]
    scene.store.before = lambda _operation, _key: None
    scene.both(2)
    assert scene.look().notes == ()
    assert scene.state.held == {}
    assert scene.channel.events == ["TIMED_OUT", "RECOVERED"]
    record = scene.look().record
    assert record is not None
    assert record.transitions == 3


def test_a_copy_that_was_left_behind_is_not_taken_for_the_record() -> None:
    scene = Scene()
    scene.both(1)
    scene.look()
    refuse_writes(scene)
    scene.after(700)
    scene.look()
    left_behind = dict(scene.state.held)
    scene.store.before = lambda _operation, _key: None
    scene.both(2)
    scene.look()
    scene.put("_error", "boom")
    scene.look()
    scene.state.held.update(left_behind)
    outcome = scene.look()
    assert outcome.status.value == "FAILED"
    assert scene.channel.events == ["TIMED_OUT", "RECOVERED", "FAILED"]


def test_a_state_directory_that_cannot_be_used_does_not_matter_while_the_store_can() -> None:
    scene = Scene()

    def broken(_operation: str, _key: str) -> None:
        raise DeniedError("read-only file system")

    scene.state.before = broken
    scene.put("_error", "boom")
    scene.look()
    assert scene.channel.events == ["FAILED"]


def test_a_watcher_that_can_record_nothing_says_that_it_is_blind_and_is_not_done() -> None:
    scene = Scene()

    def hook(operation: str, _key: str) -> None:
        if operation == "write":
            raise UnreachableError("503 for PUT alone")

    scene.store.before = hook
    scene.put("_error", "boom")
    for _ in range(15):
        outcome = scene.look()
        assert (outcome.status.value, outcome.recorded) == ("FAILED", False)
        scene.after(60)
    assert scene.channel.events == ["BLIND"]
    assert "cannot be recorded" in scene.channel.sent[0].reason
    scene.store.before = lambda _operation, _key: None
    assert scene.look().recorded
    assert "FAILED" in scene.channel.events


@pytest.mark.parametrize("field", ["declared", "spent", "sentinels", "transitions", "cause", "skew_s"])
@pytest.mark.parametrize("value", ["[[1]]", "1e999", "NaN", '{"a": 1}'])
def test_a_tampered_record_is_replaced(field: str, value: str) -> None:
    scene = Scene()
    scene.both(1)
    scene.look()
    body = scene.store.held[KEY].body.decode()
    tampered = re.sub(rf'"{field}": (\[\]|[^,\n]+)', f'"{field}": {value}', body, count=1)
    assert tampered != body
    scene.put("_watchdog.json", tampered)
    outcome = scene.look()
    assert outcome.status.value == "RUNNING"
    assert any("was damaged" in note for note in outcome.notes)


def test_a_file_that_goes_between_listing_and_reading_is_looked_for_again() -> None:
    scene = Scene()
    scene.both(1)
    gone = False

    def rewrite(operation: str, key: str) -> None:
        nonlocal gone
        if operation == "read" and key.endswith("metadata.json") and not gone:
            gone = True
            scene.delete("metadata.json")
            scene.store.before = lambda _operation, _key: None
            scene.store.after = lambda _operation, _key: (scene.beat(), setattr(scene.store, "after", nothing))[0]

    def nothing(_operation: str, _key: str) -> None:
        pass

    scene.store.before = rewrite
    assert scene.look().status.value == "RUNNING"
    assert gone
    assert scene.channel.events == []


def test_the_secrets_of_the_settings_are_masked_before_anything_is_judged_or_cut() -> None:
    scene = Scene()
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    mask = Redactor([secret])
    scene.beat(phase=f"login {secret}")
    scene.put("_error", "x" * 285 + secret)
    scene.put("logs/training_log_latest.txt", f"{secret}\n")
    scene.watch = scene.fresh_watch(mask=mask)
    outcome = scene.watch.tick()
    everywhere = scene.store.held[KEY].body.decode() + repr(scene.channel.sent) + repr(outcome)
    assert [part for part in (secret, secret[:12]) if part in everywhere] == []
