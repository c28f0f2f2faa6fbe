"""A log that goes on from attempt to attempt and names no times: whose text it is, whoever looks."""

import pytest

from support.growing import OOM, LoggedScene
from support.scene import Scene


def test_a_watcher_that_was_away_takes_no_old_crash_for_the_new_attempts() -> None:
    scene = LoggedScene()
    scene.beat(attempt=1, start_time=scene.now.isoformat())
    scene.look()
    away = scene.fresh_watch()
    away.tick()
    for attempt in (2, 3, 4):
        scene.after(2)
        scene.write(OOM)
        scene.after(2)
        started = scene.now.isoformat()
        scene.beat(attempt=attempt, start_time=started)
        if attempt < 4:
            # This one sees one crash after the other.
            scene.look()
    scene.look()
    for _ in range(4):
        scene.after(60)
        scene.beat(attempt=4, start_time=started)
        scene.write("loading the model\n")
        for outcome in (away.tick(), scene.look()):
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
    scene = Scene()
    scene.beat()
    scene.put("logs/train.log", begun)
    watch = scene.fresh_watch()
    watch.tick()
    scene.after(60)
    scene.put("logs/train.log", begun + OOM + epilogue)
    watch.tick()
    for seconds in (60, 3600):
        scene.after(seconds)
        outcome = watch.tick()
        assert outcome.record is not None
        assert (outcome.status.value, outcome.record.cause) == ("FAILED", "oom")
    assert [(each.event.value, each.cause) for each in scene.channel.sent] == [("FAILED", "oom")]
