"""The whole drill on a real Ray."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.cli import LASTBEAT, environment
from support.ray_cluster import WHY_NOT, RayCluster
from support.waiting import until

pytestmark = [pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)), pytest.mark.timeout(600), pytest.mark.slow]
LIMIT_S = 500.0


def drill(
    cluster: RayCluster, folder: Path, *arguments: str
) -> tuple["subprocess.CompletedProcess[str]", dict[str, Any]]:
    where = ("--launcher", "ray", "--ray-address", cluster.address, "--root", "evidence")
    done = subprocess.run(
        [*LASTBEAT, "drill", *where, "--interval", "1", "--stall", "8", "--json", *arguments],
        cwd=folder,
        env=environment(folder, LASTBEAT_STATE_DIR=str(folder / "state")),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.stdout, done.stderr
    return done, json.loads(done.stdout)


def test_every_scenario_goes_as_it_should(ray_cluster: RayCluster, tmp_path: Path) -> None:
    done, told = drill(ray_cluster, tmp_path, "--at-once", "4")
    results = {each["scenario"]: (each["result"], each["why"]) for each in told["results"]}
    assert {name: result for name, (result, _) in results.items()} == {
        "scancel": "PASS",
        "hang": "PASS",
        "nccl": "PASS",
        "oom": "PASS",
        "max_retries": "PASS",
        "node_lost": "SKIPPED",
        "preempt": "SKIPPED",
        "supervisor_killed": "PASS",
    }, done.stderr
    assert "--node-loss-command" in results["node_lost"][1]
    assert "retry budget exhausted (attempt 4/3)" in results["max_retries"][1]
    assert (done.returncode, told["left_running"]) == (0, [])

    def left() -> list[str]:
        rows = ray_cluster.ask("/api/jobs/")
        return [row["submission_id"] for row in rows if row["status"] == "RUNNING" and "drill" in row["submission_id"]]

    until(left, lambda jobs: not jobs)
