"""Ranks without torch.distributed stop where rank 0 says: real processes over a directory and S3."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

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
    while {goes_on}:
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
        while announcements[0].at is None and os.path.getsize("steps") < step and {goes_on}:
            time.sleep(0.002)
        if announcements[0].at is None:
            time.sleep(0.005)
        else:
            touch(f"knows-{{rank}}")
            while not all(os.path.exists(f"knows-{{each}}") for each in RANKS):
                time.sleep(0.005)
    with open(f"note-{{rank}}", "w") as note:
        note.write(f"{{step}} {{run.stop_wanted}}")
    os.rename(f"note-{{rank}}", f"stopped-{{rank}}")
    if {goes_on}:
        run.preempted(f"ckpt/step_{{step}}", step=step)
"""


@contextmanager
def ranks(site: Site, goes_on: str = "True") -> "Iterator[list[subprocess.Popen[str]]]":
    site.folder.mkdir(parents=True, exist_ok=True)
    for left in site.folder.glob("*-[0-9]"):
        left.unlink()
    (site.folder / "steps").write_text("")
    script = STEPS.format(ranks=RANKS, goes_on=goes_on)
    with ExitStack() as open_:
        started = []
        for rank in range(RANKS):
            where = {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "LASTBEAT_BEAT_SECONDS": "0.2,ranks:0.2"}
            started.append(open_.enter_context(site.running(script, log=f"log-{rank}", **where)))
        until(lambda: all((site.folder / f"process-{rank}").exists() for rank in range(RANKS)))
        # Rank 0 has begun the attempt.
        until(lambda: json.loads(site.read("metadata.json") or "{}").get("begun"))
        yield started


def stopped(folder: Path, *numbers: int) -> dict[int, tuple[int, str]]:
    """Rank → the step at which it stopped, and why."""
    found = {}
    for rank in numbers or range(RANKS):
        step, why = (folder / f"stopped-{rank}").read_text().split(" ", 1)
        found[rank] = int(step), why
    return found


def test_all_stop_at_the_step_that_rank_0_announces(in_s3: Site) -> None:
    with ranks(in_s3) as started:
        started[0].send_signal(signal.SIGTERM)
        assert [process.wait(LIMIT_S) for process in started] == [0, 0, 0], in_s3.said("log-0")
    found = stopped(in_s3.folder)
    (step,) = {at for at, _ in found.values()}
    assert [found[rank][1] for rank in range(RANKS)] == [WHY, *[f"rank 0 was told to stop: {WHY}"] * 2]
    said = in_s3.look()
    assert (said["status"], said["exit"]) == ("PREEMPTED", 1)
    assert said["reason"].startswith(f"PREEMPTED, checkpoint at step {step}: ckpt/step_{step}; {WHY}")
    assert f"all {RANKS} ranks stop at the same step" in in_s3.said("log-1")
    assert "exiting program after receiving SIGTERM." in in_s3.said("log-0")
    assert "exiting program after receiving SIGTERM." not in in_s3.said("log-2"), "it received none"


def test_all_are_signalled_at_once_as_by_a_scheduler_and_again_in_the_next_attempt(directory: Site) -> None:
    for attempt in (1, 2):
        with ranks(directory) as started:
            for process in started:
                process.send_signal(signal.SIGTERM)
            assert [process.wait(LIMIT_S) for process in started] == [0, 0, 0], directory.said("log-0")
        assert len({at for at, _ in stopped(directory.folder).values()}) == 1
        assert json.loads(directory.read("metadata.json") or "")["attempt"] == attempt


def test_where_rank_0_is_killed_after_its_announcement_the_others_still_stop_at_one_step(directory: Site) -> None:
    with ranks(directory) as started:
        started[0].send_signal(signal.SIGTERM)
        announced = until(lambda: json.loads(directory.read("metadata.json") or "{}").get("stop_call"))
        os.kill(started[0].pid, signal.SIGKILL)
        started[0].wait(LIMIT_S)
        (directory.folder / "knows-0").touch()
        assert [started[rank].wait(LIMIT_S) for rank in (1, 2)] == [0, 0]
    assert [at for at, _ in stopped(directory.folder, 1, 2).values()] == [announced, announced]


def point(link: Path, target: Path) -> None:
    """Exchange a link in one step: at no moment is there nothing, in whose place a rank would make a directory."""
    made = link.with_name("link")
    made.symlink_to(target)
    made.rename(link)


def test_a_store_that_is_gone_keeps_no_step_waiting(directory: Site) -> None:
    """Its directory vanishes in the midst of training, and a file takes its place, in which nothing can be written."""
    root = Path(directory.root)
    runs, nothing = root.with_name("the-runs"), root.with_name("nothing")
    runs.mkdir()
    nothing.touch()
    point(root, runs)
    with ranks(directory, goes_on="not os.path.exists('enough')") as started:
        point(root, nothing)
        started[1].send_signal(signal.SIGTERM)
        # Signalled, it stops alone in the end; the others hear nothing.
        until((directory.folder / "stopped-1").exists)
        assert not (directory.folder / "stopped-0").exists()
        assert not (directory.folder / "stopped-2").exists()
        point(root, runs)
        (directory.folder / "enough").touch()
        assert [process.wait(LIMIT_S) for process in started] == [0, 0, 0]
    assert "this rank stops alone" in directory.said("log-1")
    assert stopped(directory.folder)[1][1] == WHY
