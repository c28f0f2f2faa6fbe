"""Alerts say when another run failed like this, and what became of it."""

from lastbeat.watch.record.known_failures import KnownFailures
from support.world import World

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {} GiB"
DAY = 86400.0


def swept(world: World) -> None:
    world.fresh_sweep(failures=KnownFailures(world.store)).run()


def watched() -> World:
    """Two runs; the first one failed a day ago, and has gone on since."""
    world = World()
    world.run("first").both(1)
    world.run("second").both(1)
    swept(world)
    world.run("first").error(OOM.format("2.00"))
    swept(world)
    world.after(300)
    world.run("first").delete("_error")
    world.run("first").beat(attempt=2)
    world.run("first").progress(2)
    swept(world)
    world.after(DAY)
    world.run("first").beat(attempt=2)
    world.run("first").progress(900)
    world.run("second").both(5)
    swept(world)
    world.channel.sent.clear()
    return world


def test_the_next_alert_names_the_run_and_says_that_a_restart_helped() -> None:
    world = watched()
    world.run("second").error("[rank7]: " + OOM.format("512.00"))
    swept(world)
    (alert,) = world.channel.sent
    assert alert.similar == "same as run first on 1 Jan (2 runs so far), which went on after a restart"
    record = world.run("second").record
    assert record is not None
    assert record.explained is not None
    assert record.explained.similar is not None
    assert record.history[-1].fingerprint == record.explained.cause.fingerprint != ""
    assert record.history[-1].node == "i-0abc"


def test_the_watcher_of_one_run_says_that_its_last_attempt_failed_like_this() -> None:
    world = World()
    for attempt in (1, 2):
        world.delete("_error")
        world.beat(attempt=attempt)
        world.watch = world.fresh_watch(failures=KnownFailures(world.store))
        world.watch.tick()
        world.after(60)
        world.error(OOM.format(attempt))
        world.watch.tick()
        world.after(3600)
    told = [alert.similar for alert in world.channel.sent if alert.event.value == "FAILED"]
    assert told == [None, "same as attempt 1 of this run on 1 Jan"]
