"""A watchdog that cannot see says so of itself, once, and never of the run."""

import pytest

from lastbeat.model.observation import Unreadable
from lastbeat.model.status import Status
from lastbeat.stores.port import DeniedError, MissingStoreError, StoreError, UnreachableError
from support.channel import down
from support.world import RUN, World

MINUTE = 60.0


def fail(world: World, error: StoreError | None, operation: str = "", key: str = "") -> None:
    def hook(called: str, on: str) -> None:
        if error is not None and called.startswith(operation) and on.endswith(key):
            raise error

    world.store.before = hook


def running_world() -> World:
    world = World()
    world.both(1)
    world.look()
    return world


@pytest.mark.parametrize(
    ("error", "operation", "key"),
    [
        pytest.param(UnreachableError("no answer"), "list", "", id="the store does not answer"),
        pytest.param(DeniedError("access denied", "check the policy"), "list", "", id="listing is refused"),
        pytest.param(MissingStoreError("no such bucket"), "list", "", id="the bucket is gone"),
        pytest.param(UnreachableError("no answer"), "read", "metadata.json", id="one heartbeat cannot be read"),
        pytest.param(DeniedError("access denied"), "read", "progress.json", id="reading one heartbeat is refused"),
        pytest.param(UnreachableError("no answer"), "read", "_watchdog.json", id="the record cannot be read"),
        pytest.param(UnreachableError("no answer"), "read", "_error", id="the failure's text cannot be read just now"),
    ],
)
def test_what_cannot_be_seen_changes_nothing(error: StoreError, operation: str, key: str) -> None:
    world = running_world()
    if key == "_error":
        world.error("boom")
    before = world.store.held[f"{RUN}/_watchdog.json"].body
    world.both(2)
    fail(world, error, operation, key)
    outcome = world.look()
    assert outcome.status is Status.UNKNOWN
    assert isinstance(outcome.observation, Unreadable)
    assert outcome.reason == str(error)
    assert outcome.action == (error.advice or None)
    assert world.store.held[f"{RUN}/_watchdog.json"].body == before
    assert world.channel.events == []


def test_a_refused_text_does_not_hide_the_failure() -> None:
    world = running_world()
    world.error("boom")
    fail(world, DeniedError("access denied"), "read", "_error")
    outcome = world.look()
    assert outcome.status is Status.FAILED
    assert "could not be read: access denied" in outcome.reason


@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
def test_blindness_is_told_once_and_so_is_its_end(restarted: bool) -> None:
    world = running_world()
    fail(world, UnreachableError("no answer from the store"))
    told = []
    for _ in range(30):
        world.after(MINUTE)
        outcome = world.look(restarted=restarted)
        assert outcome.status is Status.UNKNOWN
        told.append(len(world.channel.sent))
    assert told[:10] == [0] * 10
    assert told[11:] == [1] * 19
    message = world.channel.sent[0]
    assert (message.event.value, message.status.value) == ("BLIND", "UNKNOWN")
    assert "no answer from the store" in message.reason
    assert "says nothing about the run" in (message.action or "")
    fail(world, None)
    world.both(2)
    for _ in range(3):
        assert world.look(restarted=restarted).status is Status.RUNNING
        world.after(1)
    assert world.channel.events == ["BLIND", "SIGHTED"]
    assert not [key for key in world.state.held if key.startswith("blind/")], "nothing is left behind"


def test_the_news_of_blindness_waits_for_a_channel_that_is_down_with_the_network() -> None:
    world = running_world()
    fail(world, UnreachableError("network is unreachable"))
    world.channel.fault = down
    for _ in range(15):
        world.after(MINUTE)
        world.look()
    assert world.channel.events == []
    world.channel.fault = lambda _message: None
    world.after(20 * MINUTE)
    world.look()
    assert world.channel.events == ["BLIND"]


def test_without_a_state_directory_the_loop_still_says_it_once() -> None:
    world = running_world()

    world.state.refuse("any", DeniedError("read-only file system"))
    fail(world, UnreachableError("no answer"))
    for _ in range(30):
        world.after(MINUTE)
        assert world.look(restarted=False).status is Status.UNKNOWN
    assert world.channel.events == ["BLIND"]
