"""Three real processes of one training: one of them hangs in a section, or is stopped, and the watchdog names it."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from support.training import Site
from support.waiting import LIMIT_S, until

RANKS = """\
import os, time
import lastbeat
rank = int(os.environ["RANK"])
here = os.environ["HANGS"] + "-" + str(rank)
with lastbeat.run("run-1", total_steps=10) as run:
    for step in range(100_000):
        with run.section("step"):
            time.sleep(0.02)
        run.step(step, loss=1.0)
        if step % 10 == 9:
            with run.section("checkpointing"):
                while os.path.exists(here):
                    time.sleep(0.01)
        if os.path.exists(os.environ["HANGS"] + "-end"):
            break
"""
WORLD = 3


@contextmanager
def trained(site: Site, **env: str) -> Iterator[list["subprocess.Popen[str]"]]:
    """All ranks; each hangs in its next checkpoint while a file of its number is there."""
    known = {
        "WORLD_SIZE": str(WORLD),
        "HANGS": str(site.folder / "hang"),
        "LASTBEAT_BEAT_SECONDS": "0.2,ranks:0.2",
        "LASTBEAT_SECTION_TIMEOUTS": "step:60,checkpointing:5",
    }
    env = {**known, **env}
    with ExitStack() as open_:
        ranks = [site.running(RANKS, log=f"{rank}.log", RANK=str(rank), **env) for rank in range(WORLD)]
        started = [open_.enter_context(rank) for rank in ranks]
        until(lambda: all(site.read(f"ranks/{rank}.json") for rank in range(WORLD)))
        yield started


def test_a_rank_that_hangs_in_a_checkpoint_and_goes_on(directory: Site) -> None:
    hang = directory.folder / "hang-2"
    with trained(directory) as ranks:
        assert directory.look()["status"] == "RUNNING"
        hang.touch()
        found = until(directory.look, lambda each: each["cause"] == "hang")
        assert found["status"] == "TIMED_OUT"
        assert found["reason"].startswith("rank 2: checkpointing for ")
        assert found["reason"].endswith("(limit 5s)")
        hang.unlink()
        until(directory.look, lambda each: each["status"] == "RUNNING")
        until(lambda: directory.read("ranks/2.late") is None)
        (directory.folder / "hang-end").touch()
        for process in ranks:
            assert process.wait(LIMIT_S) == 0
        assert directory.look()["status"] == "SUCCEEDED"


def test_a_rank_that_is_stopped_is_named_while_the_others_beat_and_no_more_when_it_goes_on(directory: Site) -> None:
    with trained(directory, LASTBEAT_SECTION_TIMEOUTS="checkpointing:3600") as ranks:
        os.kill(ranks[2].pid, signal.SIGSTOP)
        found = until(directory.look, lambda each: "rank_silent" in each["conditions"])
        assert found["status"] == "RUNNING"
        os.kill(ranks[2].pid, signal.SIGCONT)
        until(directory.look, lambda each: each["status"] == "RUNNING" and "rank_silent" not in each["conditions"])
