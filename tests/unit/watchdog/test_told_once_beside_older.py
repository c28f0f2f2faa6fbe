"""A watcher of an older version drops conditions that it does not know; people are told of them once all the same."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lastbeat.model.job import GpuUse
from lastbeat.model.status import Event
from lastbeat.record.codec import encode
from lastbeat.stores.port import DeniedError
from support.jobs import RUN as SUPERVISED_RUN
from support.world import TrainingRun, World
from unit.supervision.test_idle_gpus import conditions, job_of, scene_of

SOCKETS = "h:9:9 [0] NCCL INFO NET/Socket : Using [0]eth0:10.1.0.7<0>\nh:9:9 [0] NCCL INFO Using network Socket\n"


def older_look(run: TrainingRun) -> None:
    """What an older version's look leaves of the record: all but the conditions that it does not know."""
    record = run.record
    assert record is not None
    kept = {
        name: text
        for name, text in record.conditions.items()
        if name not in {"rank_silent", "efa_fallback", "gpu_idle", "straggler", "slow"}
    }
    if kept != record.conditions:
        run.put("_watchdog.json", encode(replace(record, conditions=kept, seq=record.seq + 1)).decode())


def minute(world: World, silent: bool, **more: Any) -> None:
    """Eight ranks beat, or seven of them."""
    world.after(60)
    world.beat(rank_beat_seconds=60.0, world_size=8, **more)
    for number in range(8):
        if number != 3 or not silent:
            world.rank(number)


def warnings(world: World) -> int:
    return sum(each.event is Event.WARNING for each in world.channel.sent)


def silenced() -> World:
    world = World()
    minute(world, False)
    world.look()
    for _ in range(5):
        minute(world, True)
        world.look()
    assert warnings(world) == 1
    return world


@given(st.lists(st.sampled_from(["older", "newer", "without rights"]), max_size=12))
@settings(max_examples=25, deadline=None)
def test_whoever_looks_in_whatever_order_a_silent_rank_is_told_once(looks: list[str]) -> None:
    world = silenced()

    def refuse(operation: str, key: str) -> None:
        if operation == "read" and "/ranks/" in key:
            raise DeniedError("no rights")

    allow = world.store.before
    for look in [*looks, "newer"]:
        minute(world, True)
        if look == "older":
            older_look(world)
            continue
        world.store.before = refuse if look == "without rights" else allow
        outcome = world.look()
        assert look == "without rights" or "rank_silent" in outcome.conditions
    assert warnings(world) == 1


def test_who_may_not_read_ranks_drops_nothing() -> None:
    world = silenced()

    def refuse(operation: str, key: str) -> None:
        if operation == "read" and "/ranks/" in key:
            raise DeniedError("no rights")

    world.store.before = refuse
    minute(world, True)
    assert "rank_silent" in world.look().conditions
    minute(world, False)
    assert world.look().conditions == {}, "all beat again, which the listing shows"


def test_a_rank_that_beat_again_and_fell_silent_anew_is_told_again() -> None:
    world = silenced()
    older_look(world)
    minute(world, False)
    assert world.look().conditions == {}
    for _ in range(6):
        minute(world, True)
        world.look()
        older_look(world)
    assert warnings(world) == 2


def test_a_new_attempt_that_the_older_one_noticed_is_told_of_its_own() -> None:
    world = World()
    minute(world, False, attempt=1, start_time=world.now.isoformat())
    world.look()
    for _ in range(6):
        minute(world, True, attempt=1)
        world.look()
    assert warnings(world) == 1
    older_look(world)
    world.after(60)
    known = world.record
    assert known is not None
    began = world.now.isoformat()
    for _ in range(7):
        minute(world, True, attempt=2, start_time=began)
        world.rank(3, attempt=2)
        world.look()
        # The older version noticed the attempt, and carries what it does not know along.
        assert world.record is not None
        record = replace(world.record, conditions={}, conditions_told=known.conditions_told)
        world.put("_watchdog.json", encode(record).decode())
    world.after(300)
    minute(world, True, attempt=2, start_time=began)
    assert "rank_silent" in world.look().conditions
    assert warnings(world) == 2


def test_sockets_instead_of_efa_are_told_once() -> None:
    world = World()
    log = "FI_PROVIDER=efa\n" + SOCKETS
    for step in range(6):
        log += f"step {step}/1000 loss 2.5\n"
        world.after(60)
        world.beat()
        world.put("logs/train.log", log)
        assert "efa_fallback" in world.look().conditions
        older_look(world)
    assert warnings(world) == 1


def test_a_straggler_is_told_once_and_once_more_when_it_comes_back() -> None:
    world = World()
    slow = {"count": 1, "ranks": [{"rank": 3, "node": "n3", "relative": 0.5}]}
    for told, expected in ((slow, 1), (slow, 1), ({"count": 0, "ranks": []}, 1), (slow, 2)):
        world.after(60)
        world.beat(stragglers=told)
        assert ("straggler" in world.look().conditions) is bool(told["count"])
        assert warnings(world) == expected
        older_look(world)


def test_idle_gpus_are_told_once() -> None:
    scene = scene_of(GpuUse(0.0, 8.0))
    scene.store.pass_time(600)
    for _ in range(4):
        assert "gpu_idle" in conditions(scene)
        older_look(TrainingRun(scene.store, SUPERVISED_RUN))
    assert [each.event for each in scene.channel.sent] == [Event.WARNING]
    job_of(scene).gpus = GpuUse(8.0, 8.0)
    assert conditions(scene) == {}
    job_of(scene).gpus = GpuUse(0.0, 8.0)
    conditions(scene)
    scene.store.pass_time(600)
    assert "gpu_idle" in conditions(scene)
    assert len(scene.channel.sent) == 2
