"""What a pass has sent and could write down nowhere: the next pass of that process does, and sends nothing twice."""

import pytest

from lastbeat.stores.port import StoreError
from support.fleet import FleetScene

NAME = "run-1"


@pytest.mark.parametrize("earlier", [0, 6], ids=["a small record", "a record too large to be kept for nothing"])
def test_a_run_is_not_forgotten_while_something_is_unsettled(earlier: int) -> None:
    scene = FleetScene()
    run = scene.run(NAME)
    run.both(1)
    scene.sweep()
    for number in range(earlier):
        scene.after(60)
        if number % 2:
            run.delete("_error")
            run.both(number + 2, age_s=-1)
        else:
            run.error()
        scene.sweep()
    told = len(scene.channel.sent)
    scene.after(60)
    if earlier % 2 == 0:
        run.error()

    def refuse(operation: str, _key: str) -> None:
        if operation == "write" and len(scene.channel.sent) > told:
            raise StoreError("the disk is full")

    scene.store.before = scene.state.before = refuse
    scene.sweep()
    assert len(scene.channel.sent) == told + 1
    scene.store.heal()
    scene.state.heal()
    scene.after(60)
    assert scene.sweep().pending == 0
    scene.after(scene.policy.lease_s + 1)
    scene.sweep(restarted=True)
    assert len(scene.channel.sent) == told + 1
    record = run.record
    assert record is not None
    assert record.delivered == len(scene.channel.sent)
