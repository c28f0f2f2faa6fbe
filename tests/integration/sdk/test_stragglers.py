"""Ranks without torch.distributed tell each other of their steps through the store: real processes over S3, and what a
watcher then says."""

import json
import platform
from contextlib import ExitStack

from support.training import Site
from support.waiting import LIMIT_S, until

RANKS = 4
STEPS = """\
import lastbeat, os, time
rank = int(os.environ["RANK"])
with lastbeat.run("run-1", stragglers="stop") as run:
    step = 0
    while not run.should_stop:
        with run.section("compute"):
            time.sleep(0.2 if rank == 2 else 0.05)
        step += 1
        run.step(step)
    while not os.path.exists("seen"):
        time.sleep(0.05)
    run.preempted(f"ckpt/step_{step}", step=step)
"""


def test_a_slow_rank_is_named_to_watchers_and_ends_training_where_that_is_wanted(in_s3: Site) -> None:
    with ExitStack() as open_:
        for rank in range(RANKS):
            where = {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "LASTBEAT_BEAT_SECONDS": "0.2,ranks:0.3"}
            open_.enter_context(in_s3.running(STEPS, log=f"log-{rank}", LASTBEAT_STRAGGLERS="seconds:3", **where))

        def named() -> list[int]:
            told = json.loads(in_s3.read("metadata.json") or "{}").get("stragglers", {})
            return [each["rank"] for each in told.get("ranks", [])]

        until(lambda: named()[:1] == [2], limit_s=4 * LIMIT_S)
        assert "straggler" in in_s3.look()["conditions"]
        (in_s3.folder / "seen").touch()
        said = until(lambda: in_s3.read("_preempted"))
        assert f"straggler: rank 2 on {platform.node()}" in (said or "")
        assert "STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. Affected" in in_s3.said("log-0")
        assert in_s3.look()["status"] == "PREEMPTED"
