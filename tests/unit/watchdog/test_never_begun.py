"""A run that nobody has seen: perhaps a typing error, so nothing is made for it."""

import pytest

from lastbeat.model.policy import Policy
from lastbeat.stores.port import DeniedError
from support.memory import MemoryStore
from support.world import RUN, World


def written(world: World) -> list[str]:
    return [key for operation, key in world.store.calls if operation == "write"]


def test_no_folder_is_made_for_a_run_that_nobody_has_seen() -> None:
    world = World()
    for _ in range(3):
        outcome = world.look()
        assert outcome.status.value == "TIMED_OUT"
        world.after(60)
    assert [key for key in world.store.held if key.startswith(f"{RUN}/")] == []
    assert world.channel.events == ["TIMED_OUT"], "its record is kept, so people are told once"


def test_watchers_without_a_state_of_their_own_share_what_waits() -> None:
    world = World(Policy(start_grace_s=120.0))
    seen = []
    for _ in range(4):
        seen.append(world.fresh_watch(state=MemoryStore()).tick().status.value)
        world.after(60)
    assert seen == ["RUNNING", "RUNNING", "TIMED_OUT", "TIMED_OUT"], "the grace runs out"
    assert world.channel.events == ["WARNING", "TIMED_OUT"]
    world.both(1)
    world.fresh_watch(state=MemoryStore()).tick()
    assert world.channel.events == ["WARNING", "TIMED_OUT", "STARTED"]


def test_where_the_store_takes_no_record_it_waits_in_the_state_directory() -> None:
    world = World()

    world.store.refuse("write", DeniedError("no"))
    for _ in range(2):
        world.look()
        world.after(60)
    assert world.channel.events == ["TIMED_OUT"]


def test_once_it_begins_its_record_lies_beside_it_and_people_are_told_that_it_started() -> None:
    world = World()
    world.look()
    world.after(60)
    world.both(1)
    outcome = world.look()
    assert world.channel.events == ["TIMED_OUT", "STARTED"]
    assert f"{RUN}/_watchdog.json" in written(world)
    assert outcome.notes == ()
    assert outcome.record is not None
    assert [each.after.value for each in outcome.record.history] == ["TIMED_OUT", "RUNNING"]
    assert [key for key in world.store.held if RUN in key and key.startswith("_")] == [], "and waits nowhere any more"


def test_a_sweep_that_sees_it_first_goes_on_from_what_waits() -> None:
    world = World()
    world.look()
    world.after(60)
    world.both(1)
    world.fresh_watch(in_fleet=True).tick()
    world.look()
    assert world.channel.events == ["TIMED_OUT", "STARTED"]


def test_a_watcher_that_may_not_read_what_waits_is_not_blind() -> None:
    world = World()
    world.both(1)

    world.store.refuse("any", DeniedError("no"), named="_watchdog/")
    assert world.look().status.value == "RUNNING"


@pytest.mark.parametrize("write", range(4))
def test_two_watchers_at_once_tell_of_it_once(write: int) -> None:
    # The other one comes in between, right before one of the first one's writes.
    world = World()
    first, other, left = world.fresh_watch(), world.fresh_watch(), [write]

    def between(operation: str, key: str) -> None:
        if operation == "write" and "unseen" in key:
            left[0] -= 1
            if left[0] < 0:
                world.store.heal()
                other.tick()

    world.store.before = between
    first.tick()
    world.store.heal()
    for _ in range(3):
        world.after(world.policy.lease_s + 1)
        world.look()
    assert world.channel.events == ["TIMED_OUT"]
