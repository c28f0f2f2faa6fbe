"""Ranks without torch.distributed stop where rank 0 says: real processes over a directory and S3."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.training import LIMIT_S, Site, end
from support.waiting import until

RANKS = 3
WHY = "received signal 15 (SIGTERM)"
LONG_S = 4 * LIMIT_S
"""Where machines are slow, they stop later, so that all have heard of it by then."""
STEPS = """\
import lastbeat, os, sys, time
rank = int(os.environ["RANK"])
with lastbeat.run("run-1") as run:
    step = 0
    while {goes_on}:
        step += 1
        run.step(step)
        if run.all_should_stop():
            run.preempted(f"ckpt/step_{{step}}", step=step)
            break
        if step == 5:
            os.close(os.open(f"process-{{rank}}", os.O_CREAT))
        # Steps differ in how long they take, and ranks do not in the long run, as where they wait for one another.
        time.sleep(0.01 * (1 + (step + rank) % 3))
    with open(f"stopped-{{rank}}", "w") as note:
        note.write(f"{{step}} {{run.stop_wanted}}")
"""


@contextmanager
def ranks(site: Site, goes_on: str = "True", **env: str) -> "Iterator[list[subprocess.Popen[str]]]":
    started: list[subprocess.Popen[str]] = []
    script = STEPS.format(goes_on=goes_on)
    try:
        for rank in range(RANKS):
            where = {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "LASTBEAT_RANK_BEAT_SECONDS": "0.5"}
            started.append(site.start(script, log=f"log-{rank}", **where, **env))
        until(lambda: all((site.folder / f"process-{rank}").exists() for rank in range(RANKS)))
        # Rank 0 has begun the attempt.
        until(lambda: json.loads(site.read("metadata.json") or "{}").get("begun"))
        yield started
    finally:
        for process in started:
            end(process)


def stopped(folder: Path) -> dict[int, tuple[int, str]]:
    """Rank → the step at which it stopped, and why."""
    found = {}
    for rank in range(RANKS):
        step, why = (folder / f"stopped-{rank}").read_text().split(" ", 1)
        found[rank] = int(step), why
    return found


def test_all_stop_at_the_step_that_rank_0_announces(site: Site) -> None:
    with ranks(site) as started:
        started[0].send_signal(signal.SIGTERM)
        assert [process.wait(LONG_S) for process in started] == [0, 0, 0], site.said("log-0")
    found = stopped(site.folder)
    (step,) = {at for at, _ in found.values()}
    assert [found[rank][1] for rank in range(RANKS)] == [WHY, *[f"rank 0 was told to stop: {WHY}"] * 2]
    said = site.look()
    assert (said["status"], said["exit"]) == ("PREEMPTED", 1)
    assert said["reason"].startswith(f"PREEMPTED, checkpoint at step {step}: ckpt/step_{step}; {WHY}")
    assert f"all {RANKS} ranks stop at the same step" in site.said("log-1")
    assert "exiting program after receiving SIGTERM." in site.said("log-0")
    assert "exiting program after receiving SIGTERM." not in site.said("log-2"), "it received none"


def test_all_are_signalled_at_once_as_by_a_scheduler_and_again_in_the_next_attempt(directory: Site) -> None:
    site = directory
    for attempt in (1, 2):
        with ranks(site) as started:
            for process in started:
                process.send_signal(signal.SIGTERM)
            assert [process.wait(LONG_S) for process in started] == [0, 0, 0], site.said("log-0")
        assert len({at for at, _ in stopped(site.folder).values()}) == 1
        assert json.loads(site.read("metadata.json") or "")["attempt"] == attempt
        for rank in range(RANKS):
            (site.folder / f"process-{rank}").unlink()
            (site.folder / f"stopped-{rank}").unlink()


def test_where_rank_0_is_killed_after_its_announcement_the_others_still_stop_at_one_step(directory: Site) -> None:
    site = directory
    with ranks(site) as started:
        started[0].send_signal(signal.SIGTERM)
        until(lambda: json.loads(site.read("metadata.json") or "{}").get("stop_call"))
        os.kill(started[0].pid, signal.SIGKILL)
        started[0].wait(LIMIT_S)
        assert [started[rank].wait(LONG_S) for rank in (1, 2)] == [0, 0]
    (site.folder / "stopped-0").write_text("0 killed")
    found = stopped(site.folder)
    assert found[1] == found[2]


def test_a_store_that_is_gone_keeps_no_step_waiting(directory: Site) -> None:
    """Its directory vanishes in the midst of training, and is a file from then on, in which nothing can be written."""
    site = directory
    with ranks(site, goes_on="not os.path.exists('enough')") as started:
        root = Path(site.root)
        root.rename(root.with_name("gone"))
        root.write_text("")
        started[1].send_signal(signal.SIGTERM)
        # Signalled, it stops alone in the end; the others hear nothing.
        assert started[1].wait(LONG_S) == 0
        assert [started[rank].poll() for rank in (0, 2)] == [None, None]
        (site.folder / "enough").touch()
        assert [process.wait(LONG_S) for process in started] == [0, 0, 0]
    assert "this rank stops alone" in site.said("log-1")
    assert stopped(site.folder)[1][1] == WHY
