"""The whole drill in a pod, whose kubectl runs what it is told in processes of this machine."""

import json
import subprocess
from pathlib import Path

import pytest

from support.cli import LASTBEAT, environment
from support.drilled import ALL_BUT_A_NODE_LOST
from support.fake_kubectl import FakeCluster

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]


def test_every_scenario_goes_as_it_should(fake_cluster: FakeCluster, tmp_path: Path) -> None:
    fake_cluster.add_pod("ray-head", "ml")
    where = ("--launcher", "ray-pod", "--head-pod", "ray-head", "--namespace", "ml", "--root", "evidence")
    done = subprocess.run(
        [*LASTBEAT, "drill", *where, "--interval", "2", "--stall", "8", "--at-once", "4", "--json"],
        cwd=tmp_path,
        env=environment(tmp_path, LASTBEAT_STATE_DIR=str(tmp_path / "state")),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.stdout, done.stderr
    results = {each["scenario"]: (each["result"], each["why"]) for each in json.loads(done.stdout)["results"]}
    # No job is preferred to another in a pod.
    expected = {**ALL_BUT_A_NODE_LOST, "preempt": "SKIPPED"}
    assert {name: result for name, (result, _) in results.items()} == expected, results
    assert "with it the cluster is lost" in results["node_lost"][1]
    assert done.returncode == 0
