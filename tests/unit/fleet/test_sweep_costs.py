"""What a sweep pays for over time: no run is looked at for ever, and what is over is let go of."""

import pytest

from lastbeat.fleet.mark import MarkWriter
from lastbeat.model.fleet import Shard
from lastbeat.model.policy import Policy
from lastbeat.stores.counting import CountingStore, Tally
from lastbeat.stores.kind import S3_LIST
from support.world import TrainingRun, World

OTHERS = 30


def _looks(prepare: object, each: object, policy: Policy | None = None) -> int:
    """How many looks a run needs in 20 passes, after 40 in which it found its ways."""
    world = World(policy)
    run = world.run("x")
    prepare(run)  # type: ignore[operator]
    world.sweep()
    looks = 0
    watches = world.sweeper._context.watches
    assert watches is not None
    take = watches.take

    def counted(run_id: str) -> object:
        nonlocal looks
        looks += run_id == "x"
        return take(run_id)

    for minute in range(60):
        if minute == 40:
            watches.take = counted  # type: ignore[method-assign,assignment]
        world.after(60)
        for number in range(OTHERS):
            world.run(f"o{number:02}").both(1)
        each(run, minute)  # type: ignore[operator]
        world.sweep()
    return looks


def _frozen(run: TrainingRun, _minute: int) -> None:
    run.beat()
    run.put("progress.json", '{"step":1,"last_updated":"2026-01-01T12:00:00Z"}')


def _deleted(run: TrainingRun, minute: int) -> None:
    run.beat()
    if minute == 2:
        run.delete("progress.json")


def _bare(run: TrainingRun) -> None:
    run.put("metadata.json", "{}")


COSTS = {
    "progress.json deleted, metadata.json beats": (lambda r: r.both(1), _deleted, None),
    "progress.json written again and again": (lambda r: r.both(1), _frozen, None),
    "hangs and beats": (lambda r: r.both(1), lambda r, m: r.both(1), Policy(stall_s=300.0)),
    "failed and beats": (lambda r: (r.both(1), r.error()), lambda r, m: r.both(1), None),
    "without a time of its own": (_bare, lambda r, m: _bare(r), None),
}  # fmt: skip


@pytest.mark.parametrize("case", COSTS)
def test_no_run_costs_a_look_in_each_pass(case: str) -> None:
    assert _looks(*COSTS[case]) <= 6


def _dollars(living: int, passes: int = 60) -> float:
    """What a pass costs on average, after forty in which the fleet found its ways; with a listing's price as one."""
    world, tally = World(), Tally()
    world.store.in_s3()
    world.through = CountingStore(world.store, tally)
    made = world.fresh_sweep(tally=tally, mark=MarkWriter(world.through, world.fleet))
    for minute in range(40 + passes):
        if minute == 40:
            before = tally.counts
        for number in range(living):
            world.run(f"run-{number:02}").both(minute)
            world.run(f"run-{number:02}").log("step 1 loss 2.5\n") if not minute else None
        assert made.run().statuses == {"RUNNING": living}
        world.after(60)
    return S3_LIST.dollars(tally.since(before)) / passes


@pytest.mark.parametrize("living", [1, 12, 13])
def test_a_small_fleet_costs_little_more_than_its_listing(living: int) -> None:
    reading = living * 3 * S3_LIST.dollars({"GET": 2}) / 60
    asking = min(S3_LIST.dollars({"LIST": 1}), S3_LIST.dollars({"LIST": 0.5, "GET": living / 2}))
    assert _dollars(living) < (asking + reading) * 1.1 + S3_LIST.dollars({"PUT": 5 / 60})


@pytest.mark.parametrize("restarted", [False, True], ids=["one process", "a process for each pass"])
def test_what_only_moves_on_is_rarely_written_down(restarted: bool) -> None:
    world = World()
    world.store.in_s3()
    for minute in range(120):
        for number in range(10):
            world.run(f"run-{number:02}").both(minute)
        world.sweep(restarted=restarted)
        world.after(60)
    writes = [key for operation, key in world.store.calls if operation == "write" and key == "_watchdog/fleet.json.z"]
    # A process of one pass leaves the next one what it has read; one that goes on is hardly ever followed by another.
    assert len(writes) <= (12 if restarted else 4)
    reads = [key for operation, key in world.store.calls if operation == "read" and key.endswith("/metadata.json")]
    assert len(reads) <= 10 * (14 if restarted else 74)


def test_a_log_that_came_last_brings_no_old_run_back() -> None:
    world = World()
    for number in range(20):
        world.run(f"r{number}").both(1)
        world.run(f"r{number}").complete()
    world.sweep()
    world.after(5)
    for number in range(20):
        world.run(f"r{number}").log("the end")
    world.after(86_500)
    world.sweep()
    for restarted in (False, True):
        world.after(60)
        report = world.sweep(restarted=restarted)
        assert (report.looked, report.finished) == (0, 20)


def test_folders_that_are_deleted_are_forgotten() -> None:
    world = World()
    for number in range(20):
        world.run(f"r{number}").both(1, age_s=200_000)
    assert world.sweep().finished == 20
    for number in range(20):
        world.run(f"r{number}").delete()
    assert world.sweep().finished == 0


def test_processes_that_take_turns_with_a_part_read_each_heartbeat_once_in_twenty_minutes() -> None:
    """As the environments of a Lambda function do, any of which may take any part."""
    world = World()
    world.store.in_s3()
    for number in range(200):
        world.run(f"run-{number:03}").both(0)
    turns = [world.fresh_sweep(shard=Shard("a", "z")) for _ in range(5)]
    for minute in range(60):
        world.after(60)
        for number in range(200):
            world.run(f"run-{number:03}").both(minute)
        if minute == 20:
            world.store.calls.clear()
        turns[minute % 5].run()
    looks = sum(operation == "read" and key.endswith("/metadata.json") for operation, key in world.store.calls)
    assert looks <= 200 * 40 / 20 * 1.2
