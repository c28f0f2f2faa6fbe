"""A log that goes on from attempt to attempt and names no times: whose text it is, whoever looks."""

import pytest

from support.growing import OOM, LoggedWorld
from support.world import World


def test_a_watcher_that_was_away_takes_no_old_crash_for_the_new_attempts() -> None:
    world = LoggedWorld()
    world.beat(attempt=1, start_time=world.now.isoformat())
    world.look()
    away = world.fresh_watch()
    away.tick()
    for attempt in (2, 3, 4):
        world.after(2)
        world.write(OOM)
        world.after(2)
        started = world.now.isoformat()
        world.beat(attempt=attempt, start_time=started)
        if attempt < 4:
            # This one sees one crash after the other.
            world.look()
    world.look()
    for _ in range(4):
        world.after(60)
        world.beat(attempt=4, start_time=started)
        world.write("loading the model\n")
        for outcome in (away.tick(), world.look()):
            assert (outcome.status.value, list(outcome.conditions)) == ("RUNNING", [])


@pytest.mark.parametrize(
    "mark",
    [
        pytest.param("", id="no mark"),
        pytest.param("Array Job ID: 4700\n", id="the number of its array"),
        pytest.param("root@worker-0:/# python collect_logs.py\n", id="a prompt with a program"),
    ],
)
def test_an_epilogue_is_no_other_attempt(mark: str) -> None:
    begun = "SLURM_JOB_ID=4711\n" + "".join(f"step {n} loss 2.{n}\n" for n in range(10, 30))
    epilogue = mark + "".join(f"copying artefact number {n} of the archive to the bucket\n" for n in range(70))
    world = World()
    world.beat()
    world.put("logs/train.log", begun)
    watch = world.fresh_watch()
    watch.tick()
    world.after(60)
    world.put("logs/train.log", begun + OOM + epilogue)
    watch.tick()
    for seconds in (60, 3600):
        world.after(seconds)
        outcome = watch.tick()
        assert outcome.record is not None
        assert (outcome.status.value, outcome.record.cause) == ("FAILED", "oom")
    assert [(each.event.value, each.cause) for each in world.channel.sent] == [("FAILED", "oom")]
