"""Ranks without torch.distributed stop where rank 0 says: real processes over S3."""

import json
import signal
from contextlib import ExitStack

from support.training import Site
from support.waiting import LIMIT_S, until

RANKS = 3
WHY = "received signal 15 (SIGTERM)"
STEPS = """\
import lastbeat, os, time
from lastbeat.training.sdk import agreement

RANKS, rank, step, announcements = range({ranks}), int(os.environ["RANK"]), 0, []

class Announcement(agreement.StopAnnouncement):
    # Its clock is turned by the steps: each takes 0.1 s, however busy the machine is.
    def __init__(self, run):
        super().__init__(run, clock=lambda: 0.1 * step)
        announcements.append(self)

agreement.StopAnnouncement = Announcement

def touch(name):
    open(name, "a").close()

with lastbeat.run("run-1") as run:
    while True:
        step += 1
        run.step(step)
        if run.all_should_stop():
            break
        if step == 5:
            touch(f"process-{{rank}}")
        # Each step waits for rank 0's, as ranks do that exchange gradients; and a rank that knows of the announcement
        # waits until all do. So none can pass the announced step unknowingly.
        if rank == 0:
            with open("steps", "a") as steps:
                steps.write(".")
        while announcements[0].at is None and os.path.getsize("steps") < step:
            time.sleep(0.002)
        if announcements[0].at is None:
            time.sleep(0.005)
        else:
            touch(f"knows-{{rank}}")
            while not all(os.path.exists(f"knows-{{each}}") for each in RANKS):
                time.sleep(0.005)
    with open(f"stopped-{{rank}}", "w") as note:
        note.write(f"{{step}} {{run.stop_wanted}}")
    run.preempted(f"ckpt/step_{{step}}", step=step)
"""


def test_all_stop_at_the_step_that_rank_0_announces(in_s3: Site) -> None:
    in_s3.folder.mkdir(parents=True)
    (in_s3.folder / "steps").touch()
    with ExitStack() as open_:
        started = []
        for rank in range(RANKS):
            where = {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "LASTBEAT_BEAT_SECONDS": "0.2,ranks:0.2"}
            started.append(open_.enter_context(in_s3.running(STEPS.format(ranks=RANKS), log=f"log-{rank}", **where)))
        until(lambda: all((in_s3.folder / f"process-{rank}").exists() for rank in range(RANKS)))
        # Rank 0 has begun the attempt.
        until(lambda: json.loads(in_s3.read("metadata.json") or "{}").get("begun"))
        started[0].send_signal(signal.SIGTERM)
        assert [process.wait(LIMIT_S) for process in started] == [0, 0, 0], in_s3.said("log-0")
    found = [(in_s3.folder / f"stopped-{rank}").read_text().split(" ", 1) for rank in range(RANKS)]
    (step,) = {at for at, _ in found}
    assert [why for _, why in found] == [WHY, *[f"rank 0 was told to stop: {WHY}"] * 2]
    said = in_s3.look()
    assert (said["status"], said["exit"]) == ("PREEMPTED", 1)
    assert said["reason"].startswith(f"PREEMPTED, checkpoint at step {step}: ckpt/step_{step}; {WHY}")
    assert f"all {RANKS} ranks stop at the same step" in in_s3.said("log-1")
    assert "exiting program after receiving SIGTERM." in in_s3.said("log-0")
    assert "exiting program after receiving SIGTERM." not in in_s3.said("log-2"), "it received none"
