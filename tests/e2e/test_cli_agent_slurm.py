"""An agent of Slurm over many runs: what a pass asks the cluster."""

import json
import os
from pathlib import Path

from support.cli import LASTBEAT, call
from support.fake_slurm import PLACE, FakeSlurm, job

RUNS = 200


def recorded(number: int) -> str:
    """The record of a run whose job runs."""
    run_id = f"run-{number}"
    its_job = {
        "launcher": "slurm", "id": f"{number}", "name": f"{run_id}-r0", "number": 0,
        "submitted_at": "2026-01-01T00:00:00Z", "state": "RUNNING",
    }  # fmt: skip
    supervision = {"launcher": "slurm", "place": PLACE, "spec": {"command": ["train.sbatch"], "cwd": "/"}}
    attempt = {"number": 1, "job": f"{run_id}-r0#0"}
    record = {"schema": 1, "run_id": run_id, "status": "RUNNING"}
    return json.dumps({**record, "attempt": attempt, "job": its_job, "supervision": supervision})


def test_a_pass_over_200_runs_asks_slurm_about_their_jobs_once(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path / "bin")
    slurm.install()
    slurm.show(*map(job, range(RUNS)))
    for number in range(RUNS):
        run = tmp_path / "runs" / f"run-{number}"
        run.mkdir(parents=True)
        (run / "metadata.json").write_text("{}", encoding="utf-8")
        (run / "_watchdog.json").write_text(recorded(number), encoding="utf-8")
    path = f"{slurm.folder}{os.pathsep}{os.environ['PATH']}"
    agent = ("restart", "agent", "--launcher", "slurm", "--once", "--interval", "1", "--root", "runs", "--json")
    done = call(LASTBEAT, *agent, cwd=tmp_path, PATH=path, LASTBEAT_STATE_DIR=str(tmp_path / "state"))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[0])
    assert ({each["status"] for each in told["runs"]}, len(told["runs"])) == ({"RUNNING"}, RUNS)
    assert len(slurm.calls("squeue")) == 1
    assert slurm.calls("scontrol") == [["scontrol", "show", "config"]]
