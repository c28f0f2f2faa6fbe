"""Where the record lies, and what happens when it cannot lie there."""

import re

import pytest

from lastbeat.model.secrets import Redactor
from lastbeat.stores.port import DeniedError, StoreError, UnreachableError
from support.world import RUN, World

KEY = f"{RUN}/_watchdog.json"


def refuse_writes(world: World) -> None:
    world.store.refuse(("write", "delete"), DeniedError("PUT denied"))


@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
def test_without_write_permission_watching_works_with_the_record_in_the_state_directory(restarted: bool) -> None:
    world = World()
    refuse_writes(world)
    world.both(1)
    outcome = world.look(restarted=restarted)
    assert outcome.status.value == "RUNNING"
    assert [note for note in outcome.notes if "cannot be written: the record is kept in memory://runs" in note]
    world.after(700)
    for _ in range(3):
        outcome = world.look(restarted=restarted)
        assert [note for note in outcome.notes if "the record is kept in" in note]
        world.after(60)
    assert KEY not in world.store.held
    assert world.channel.events == ["TIMED_OUT"]


def test_once_the_store_takes_it_the_record_goes_back_there() -> None:
    world = World()
    refuse_writes(world)
    world.both(1)
    world.look()
    world.store.before = lambda _operation, _key: None
    world.after(700)
    outcome = world.look()
    assert KEY in world.store.held
    assert world.state.held == {}
    assert outcome.notes == ()
    world.after(60)
    world.look()
    assert world.channel.events == ["TIMED_OUT"]


def test_a_decision_that_cannot_be_written_is_not_told_and_comes_again() -> None:
    world = World()
    world.error("boom")

    world.store.refuse("write", UnreachableError("503"))
    outcome = world.look()
    assert outcome.status.value == "FAILED"
    assert world.channel.events == []
    assert any("could not be recorded" in note for note in outcome.notes)
    world.store.before = lambda _operation, _key: None
    world.look()
    assert world.channel.events == ["FAILED"]


@pytest.mark.parametrize("body", ["", '{"schema": 1}', "\x00\xff" * 10, "[" * 100_000])
def test_a_damaged_record_is_replaced_and_said_so(body: str) -> None:
    world = World()
    world.put("_watchdog.json", body)
    world.error("boom")
    outcome = world.look()
    assert outcome.status.value == "FAILED"
    assert any("was damaged" in note for note in outcome.notes)
    assert world.channel.events == ["FAILED"]
    assert world.look().notes == ()


@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
def test_a_record_of_a_newer_lastbeat_is_left_alone(restarted: bool) -> None:
    world = World()
    world.both(1)
    world.look()
    world.put("_watchdog.json", '{"schema": 99}')
    world.error("boom")
    for _ in range(3):
        outcome = world.look(restarted=restarted)
        assert outcome.status.value == "UNKNOWN"
        assert "newer lastbeat" in outcome.reason
        assert outcome.action == "upgrade lastbeat on this machine"
    assert world.store.held[KEY].body == b'{"schema": 99}'


@pytest.mark.parametrize("secret", ["AKIAIOSFODNN7EXAMPLE", "https://hooks.slack.com/services/T000/B000/XXXXXXXX"])
def test_secrets_in_training_output_reach_neither_record_nor_alert(secret: str) -> None:
    world = World()
    world.error(f"login failed with {secret}")
    world.log(f"using {secret}\nAuthorization: Bearer {secret}\n")
    world.look()
    assert secret.encode() not in world.store.held[KEY].body
    assert secret not in repr(world.channel.sent)
    assert "login failed with" in world.channel.sent[0].reason


def test_a_watch_is_not_done_before_what_it_sent_is_written_down() -> None:
    world = World()
    world.error("boom")

    def full(operation: str, _key: str) -> None:
        if operation == "write" and world.channel.sent:
            raise StoreError("the disk is full")

    world.store.before = world.state.before = full
    assert world.look().pending == 1
    assert world.look(restarted=False).pending == 1
    world.store.heal()
    assert world.look(restarted=False).pending == 0
    world.after(world.policy.lease_s + 1)
    world.look()
    assert world.channel.events == ["FAILED"]


def test_a_copy_that_was_left_behind_is_not_taken_for_the_record() -> None:
    world = World()
    world.both(1)
    world.look()
    refuse_writes(world)
    world.after(700)
    world.look()
    left_behind = dict(world.state.held)
    world.store.before = lambda _operation, _key: None
    world.both(2)
    world.look()
    world.error("boom")
    world.look()
    world.state.held.update(left_behind)
    outcome = world.look()
    assert outcome.status.value == "FAILED"
    assert world.channel.events == ["TIMED_OUT", "RECOVERED", "FAILED"]


def test_a_state_directory_that_cannot_be_used_does_not_matter_while_the_store_can() -> None:
    world = World()

    world.state.refuse("any", DeniedError("read-only file system"))
    world.error("boom")
    world.look()
    assert world.channel.events == ["FAILED"]


def test_a_watcher_that_can_record_nothing_says_that_it_is_blind_and_is_not_done() -> None:
    world = World()

    world.store.refuse("write", UnreachableError("503 for PUT alone"))
    world.error("boom")
    for _ in range(15):
        outcome = world.look()
        assert (outcome.status.value, outcome.recorded) == ("FAILED", False)
        world.after(60)
    assert world.channel.events == ["BLIND"]
    assert "cannot be recorded" in world.channel.sent[0].reason
    world.store.before = lambda _operation, _key: None
    assert world.look().recorded
    assert "FAILED" in world.channel.events


@pytest.mark.parametrize(
    ("field", "value"),
    [("declared", "1e999"), ("spent", '{"a": 1}'), ("sentinels", "[[1]]"), ("cause", "[[1]]"), ("skew_s", "NaN")],
)
def test_a_tampered_record_is_replaced(field: str, value: str) -> None:
    world = World()
    world.both(1)
    world.look()
    body = world.store.held[KEY].body.decode()
    tampered = re.sub(rf'"{field}": (\[\]|[^,\n]+)', f'"{field}": {value}', body, count=1)
    assert tampered != body
    world.put("_watchdog.json", tampered)
    outcome = world.look()
    assert outcome.status.value == "RUNNING"
    assert any("was damaged" in note for note in outcome.notes)


def test_the_secrets_of_the_settings_are_masked_before_anything_is_judged_or_cut() -> None:
    world = World()
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    mask = Redactor([secret])
    world.beat(phase=f"login {secret}")
    world.error("x" * 285 + secret)
    world.log(f"{secret}\n")
    outcome = world.fresh_watch(mask=mask).tick()
    everywhere = world.store.held[KEY].body.decode() + repr(world.channel.sent) + repr(outcome)
    assert [part for part in (secret, secret[:12]) if part in everywhere] == []
