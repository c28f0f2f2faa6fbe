"""The whole drill on a real Slurm of its own: a node of it is lost, which other tests would not survive."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import slurm
from support.cli import LASTBEAT, environment, run
from support.drilled import ALL_BUT_A_NODE_LOST
from support.slurm import ask
from support.waiting import until

pytestmark = [
    pytest.mark.skipif(slurm.WHY_NOT is not None, reason=str(slurm.WHY_NOT)),
    pytest.mark.timeout(600),
]
LIMIT_S = 400.0
# First what reports a job's end, or the controller would hear of a job that was killed in place of a node that is lost.
LOSE = """
import os, signal, sys
from pathlib import Path
node, folder = sys.argv[1:]
os.kill(int(Path(folder, f"slurmd.{node}.pid").read_text()), signal.SIGKILL)
mark, jobs, parents = f"SLURMD_NODENAME={node}".encode(), set(), {}
for path in Path("/proc").glob("[0-9]*"):
    try:
        parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        words = (path / "environ").read_bytes().split(b"\\0")
    except OSError:
        continue
    if mark in words and f"SLURM_CONF={folder}/slurm.conf".encode() in words:
        jobs.add(int(path.name))
steps = {parents[pid] for pid in jobs} - jobs
# All stand still before the first is killed: no shell of a lost node lives to write "Killed" into the log.
for number in (signal.SIGSTOP, signal.SIGKILL):
    for pid in (*steps, *jobs):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
"""


@pytest.fixture(scope="module")
def conf() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="sl"))
    with slurm.cluster(folder) as found:
        yield found
    shutil.rmtree(folder, ignore_errors=True)


def drill(conf: Path, folder: Path, *arguments: str) -> tuple["subprocess.CompletedProcess[str]", dict[str, Any]]:
    options = ("--launcher", "slurm", "--root", "evidence", "--interval", "1", "--stall", "5", "--json", *arguments)
    done = run(
        [*LASTBEAT, "drill", *options],
        cwd=folder,
        env=environment(folder, SLURM_CONF=str(conf), LASTBEAT_STATE_DIR=str(folder / "state")),
        text=True,
    )
    assert done.stdout, done.stderr
    return done, json.loads(done.stdout)


def test_every_scenario_goes_as_it_should(conf: Path, tmp_path: Path) -> None:
    done, told = drill(conf, tmp_path, "--at-once", "8", "--option=--ntasks=1")
    results = {each["scenario"]: (each["result"], each["why"]) for each in told["results"]}
    assert {name: result for name, (result, _) in results.items()} == ALL_BUT_A_NODE_LOST, done.stderr
    assert "--node-loss-command" in results["node_lost"][1]
    assert "under the same id" in results["preempt"][1]
    assert "retry budget exhausted (attempt 4/3)" in results["max_retries"][1]
    assert (done.returncode, told["left_running"]) == (0, [])
    until(lambda: ask(conf, "squeue", "-h"), lambda left: not left.strip())


def test_a_job_whose_node_is_lost_is_restarted_on_another(conf: Path, tmp_path: Path) -> None:
    (tmp_path / "lose.py").write_text(LOSE, encoding="utf-8")
    command = f"{sys.executable} {tmp_path}/lose.py {{node}} {conf.parent}"
    done, told = drill(conf, tmp_path, "--scenario", "node_lost", "--node-loss-command", command)
    (result,) = told["results"]
    assert result["result"] == "PASS", done.stderr
    assert "is left out" in result["why"]
