"""What a pass has sent and could write down nowhere: the next pass of that process does, and sends nothing twice."""

import pytest

from lastbeat.stores.port import StoreError
from support.world import World

NAME = "run-1"


@pytest.mark.parametrize("earlier", [0, 6], ids=["a small record", "a record too large to be kept for nothing"])
def test_a_run_is_not_forgotten_while_something_is_unsettled(earlier: int) -> None:
    world = World()
    run = world.run(NAME)
    run.both(1)
    world.sweep()
    for number in range(earlier):
        world.after(60)
        if number % 2:
            run.delete("_error")
            run.both(number + 2, age_s=-1)
        else:
            run.error()
        world.sweep()
    told = len(world.channel.sent)
    world.after(60)
    if earlier % 2 == 0:
        run.error()

    def refuse(operation: str, _key: str) -> None:
        if operation == "write" and len(world.channel.sent) > told:
            raise StoreError("the disk is full")

    world.store.before = world.state.before = refuse
    world.sweep()
    assert len(world.channel.sent) == told + 1
    world.store.heal()
    world.state.heal()
    world.after(60)
    assert world.sweep().pending == 0
    world.after(world.policy.lease_s + 1)
    world.sweep(restarted=True)
    assert len(world.channel.sent) == told + 1
    record = run.record
    assert record is not None
    assert record.delivered == len(world.channel.sent)
