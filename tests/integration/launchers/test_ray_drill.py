"""The whole drill on a real Ray."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support import ray_cluster as ray
from support.cli import LASTBEAT, environment
from support.ray_cluster import WHY_NOT, RayCluster
from support.waiting import until

pytestmark = [pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)), pytest.mark.timeout(600), pytest.mark.slow]
LIMIT_S = 500.0
LOSE = """
import os, signal, sys
from pathlib import Path
node, folder = sys.argv[1:]
session = int(Path(folder, node.rpartition("-")[0] + ".pid").read_text())
for path in Path("/proc").glob("[0-9]*"):
    try:
        if int((path / "stat").read_text().rpartition(")")[2].split()[3]) == session:
            os.kill(int(path.name), signal.SIGKILL)
    except OSError:
        pass
"""


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


def test_a_job_whose_node_is_lost_is_restarted_on_another(tmp_path: Path) -> None:
    (tmp_path / "lose.py").write_text(LOSE, encoding="utf-8")
    with ray.cluster() as cluster:
        cluster.add_worker(worker=1)
        cluster.add_worker(worker=1)
        command = f"{sys.executable} {tmp_path}/lose.py {{node}} {cluster.folder}"
        asked = ("--node-loss-command", command, """--option=--entrypoint-resources={"worker": 1}""")
        done, told = drill(cluster, tmp_path, "--scenario", "node_lost", *asked)
    (result,) = told["results"]
    assert result["result"] == "PASS", done.stderr
    assert "is left out" in result["why"]
