"""A run that nobody has seen: perhaps a typing error, so nothing is made for it."""

import pytest

from lastbeat.model.policy import Policy
from lastbeat.stores.port import DeniedError
from support.memory import MemoryStore
from support.scene import RUN, Scene


def written(scene: Scene) -> list[str]:
    return [key for operation, key in scene.store.calls if operation == "write"]


def test_no_folder_is_made_for_a_run_that_nobody_has_seen() -> None:
    scene = Scene()
    for _ in range(3):
        outcome = scene.look()
        assert outcome.status.value == "TIMED_OUT"
        scene.after(60)
    assert [key for key in scene.store.held if key.startswith(f"{RUN}/")] == []
    assert scene.channel.events == ["TIMED_OUT"], "its record is kept, so people are told once"


def test_watchers_without_a_state_of_their_own_share_what_waits() -> None:
    scene = Scene(Policy(start_grace_s=120.0))
    seen = []
    for _ in range(4):
        seen.append(scene.fresh_watch(state=MemoryStore()).tick().status.value)
        scene.after(60)
    assert seen == ["RUNNING", "RUNNING", "TIMED_OUT", "TIMED_OUT"], "the grace runs out"
    assert scene.channel.events == ["WARNING", "TIMED_OUT"]
    scene.both(1)
    scene.fresh_watch(state=MemoryStore()).tick()
    assert scene.channel.events == ["WARNING", "TIMED_OUT", "STARTED"]


def test_where_the_store_takes_no_record_it_waits_in_the_state_directory() -> None:
    scene = Scene()

    def refuse(operation: str, _key: str) -> None:
        if operation == "write":
            raise DeniedError("no")

    scene.store.before = refuse
    for _ in range(2):
        scene.look()
        scene.after(60)
    assert scene.channel.events == ["TIMED_OUT"]


def test_once_it_begins_its_record_lies_beside_it_and_people_are_told_that_it_started() -> None:
    scene = Scene()
    scene.look()
    scene.after(60)
    scene.both(1)
    outcome = scene.look()
    assert scene.channel.events == ["TIMED_OUT", "STARTED"]
    assert f"{RUN}/_watchdog.json" in written(scene)
    assert outcome.notes == ()
    assert outcome.record is not None
    assert [each.after.value for each in outcome.record.history] == ["TIMED_OUT", "RUNNING"]
    assert [key for key in scene.store.held if RUN in key and key.startswith("_")] == [], "and waits nowhere any more"


def test_a_run_whose_folder_was_deleted_is_no_typing_error() -> None:
    scene = Scene()
    scene.both(1)
    watch = scene.watch
    watch.tick()
    for name in ("metadata.json", "progress.json", "_watchdog.json"):
        scene.delete(name)
    scene.after(700)
    watch.tick()
    scene.after(700)
    assert watch.tick().status.value == "TIMED_OUT"
    assert f"{RUN}/_watchdog.json" in written(scene)


def test_a_sweep_that_sees_it_first_goes_on_from_what_waits() -> None:
    scene = Scene()
    scene.look()
    scene.after(60)
    scene.both(1)
    scene.fresh_watch(in_fleet=True).tick()
    scene.look()
    assert scene.channel.events == ["TIMED_OUT", "STARTED"]


def test_a_watcher_that_may_not_read_what_waits_is_not_blind() -> None:
    scene = Scene()
    scene.both(1)

    def refuse(_operation: str, key: str) -> None:
        if key.startswith("_watchdog/"):
            raise DeniedError("no")

    scene.store.before = refuse
    assert scene.look().status.value == "RUNNING"


def test_once_the_store_takes_it_the_copy_in_the_state_directory_is_done_with() -> None:
    scene = Scene()

    def refuse(operation: str, _key: str) -> None:
        if operation == "write":
            raise DeniedError("no")

    scene.store.before = refuse
    scene.look()
    scene.store.heal()
    scene.after(60)
    scene.beat()
    scene.look()
    scene.delete("metadata.json")
    scene.after(60)
    assert scene.look().notes == ()
    assert [key for key in scene.state.held if RUN in key and "record" in key] == []
    assert scene.channel.events == ["TIMED_OUT", "STARTED"]


@pytest.mark.parametrize("write", range(4))
def test_two_watchers_at_once_tell_of_it_once(write: int) -> None:
    # The other one comes in between, right before one of the first one's writes.
    scene = Scene()
    first, other, left = scene.fresh_watch(), scene.fresh_watch(), [write]

    def between(operation: str, key: str) -> None:
        if operation == "write" and "unseen" in key:
            left[0] -= 1
            if left[0] < 0:
                scene.store.heal()
                other.tick()

    scene.store.before = between
    first.tick()
    scene.store.heal()
    for _ in range(3):
        scene.after(scene.policy.lease_s + 1)
        scene.look()
    assert scene.channel.events == ["TIMED_OUT"]
