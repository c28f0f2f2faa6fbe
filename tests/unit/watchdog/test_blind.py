"""A watchdog that cannot see says so of itself, once, and never of the run."""

import pytest

from lastbeat.model.observation import Unreadable
from lastbeat.model.policy import Policy
from lastbeat.model.status import Status
from lastbeat.stores.port import DeniedError, MissingStoreError, StoreError, UnreachableError
from support.channel import down
from support.scene import RUN, Scene

MINUTE = 60.0


def fail(scene: Scene, error: StoreError | None, operation: str = "", key: str = "") -> None:
    def hook(called: str, on: str) -> None:
        if error is not None and called.startswith(operation) and on.endswith(key):
            raise error

    scene.store.before = hook


def running_scene() -> Scene:
    scene = Scene()
    scene.both(1)
    scene.look()
    return scene


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
    scene = running_scene()
    if key == "_error":
        scene.put("_error", "boom")
    before = scene.store.held[f"{RUN}/_watchdog.json"].body
    scene.beat()
    scene.progress(2)
    fail(scene, error, operation, key)
    outcome = scene.look()
    assert outcome.status is Status.UNKNOWN
    assert isinstance(outcome.observation, Unreadable)
    assert outcome.reason == str(error)
    assert outcome.action == (error.advice or None)
    assert scene.store.held[f"{RUN}/_watchdog.json"].body == before
    assert scene.channel.events == []


def test_a_refused_text_does_not_hide_the_failure() -> None:
    scene = running_scene()
    scene.put("_error", "boom")
    fail(scene, DeniedError("access denied"), "read", "_error")
    outcome = scene.look()
    assert outcome.status is Status.FAILED
    assert "could not be read: access denied" in outcome.reason


@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
def test_blindness_is_told_once_and_so_is_its_end(restarted: bool) -> None:
    scene = running_scene()
    fail(scene, UnreachableError("no answer from the store"))
    told = []
    for _ in range(30):
        scene.after(MINUTE)
        outcome = scene.look(restarted=restarted)
        assert outcome.status is Status.UNKNOWN
        told.append(len(scene.channel.sent))
    assert told[:10] == [0] * 10
    assert told[11:] == [1] * 19
    message = scene.channel.sent[0]
    assert (message.event.value, message.status.value) == ("BLIND", "UNKNOWN")
    assert "no answer from the store" in message.reason
    assert "says nothing about the run" in (message.action or "")
    fail(scene, None)
    scene.both(2)
    for _ in range(3):
        assert scene.look(restarted=restarted).status is Status.RUNNING
        scene.after(1)
    assert scene.channel.events == ["BLIND", "SIGHTED"]
    assert not [key for key in scene.state.held if key.startswith("blind/")], "nothing is left behind"


def test_a_short_blindness_is_nobodys_business() -> None:
    scene = running_scene()
    for _ in range(5):
        fail(scene, UnreachableError("no answer"))
        scene.after(9 * MINUTE)
        scene.look()
        fail(scene, None)
        scene.both(2)
        assert scene.look().status is Status.RUNNING
    assert scene.channel.events == []


def test_the_news_of_blindness_waits_for_a_channel_that_is_down_with_the_network() -> None:
    scene = running_scene()
    fail(scene, UnreachableError("network is unreachable"))
    scene.channel.fault = down
    for _ in range(15):
        scene.after(MINUTE)
        scene.look()
    assert scene.channel.events == []
    scene.channel.fault = lambda _message: None
    scene.after(20 * MINUTE)
    scene.look()
    assert scene.channel.events == ["BLIND"]


def test_without_a_state_directory_the_loop_still_says_it_once() -> None:
    scene = running_scene()

    def broken(_operation: str, _key: str) -> None:
        raise DeniedError("read-only file system")

    scene.state.before = broken
    fail(scene, UnreachableError("no answer"))
    for _ in range(30):
        scene.after(MINUTE)
        assert scene.look(restarted=False).status is Status.UNKNOWN
    assert scene.channel.events == ["BLIND"]


def test_the_last_known_status_is_shown() -> None:
    scene = running_scene()
    scene.look(restarted=False)
    fail(scene, UnreachableError("no answer"))
    outcome = scene.look(restarted=False)
    assert outcome.notes[0].startswith("Last known status: RUNNING since ")


def test_a_death_during_blindness_is_told_when_sight_returns() -> None:
    scene = Scene(Policy(blind_s=3600))
    scene.both(1)
    scene.look()
    fail(scene, UnreachableError("no answer"))
    scene.after(20 * MINUTE)
    scene.look()
    scene.put("_error", "boom")
    scene.look()
    assert scene.channel.events == []
    fail(scene, None)
    scene.look()
    assert scene.channel.events == ["FAILED"]
