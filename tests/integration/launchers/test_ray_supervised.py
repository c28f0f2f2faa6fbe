"""Supervised runs on a real Ray: ``lastbeat supervise`` as people call it."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cli import LASTBEAT, environment
from support.ray_cluster import WHY_NOT, RayCluster
from support.waiting import LIMIT_S, until

pytestmark = [pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)), pytest.mark.timeout(300)]
STEPS = 'i=0; while [ $i -lt 3000 ]; do i=$((i + 1)); echo "step $i/3000 loss 2.5"; sleep 0.2; done'
AGAIN = '[ "${LASTBEAT_RESTART_COUNT:-0}" = 1 ] && { echo "from ${LASTBEAT_RESUME_FROM:-nothing}"; exit 0; }'


class Supervised:
    """A run, and whoever supervises it."""

    def __init__(self, folder: Path, cluster: RayCluster) -> None:
        self.folder = folder
        self.cluster = cluster
        self.run_id = f"llama@{os.urandom(3).hex()}"
        self.processes: list[subprocess.Popen[str]] = []
        (folder / "runs").mkdir()

    def supervise(self, *arguments: str, **more: str) -> "subprocess.Popen[str]":
        settings = {
            "LASTBEAT_STATE_DIR": str(self.folder / "state"),
            "LASTBEAT_RESTART_DELAY_SECONDS": "0",
            "MONITORING_ROOT": str(self.folder / "runs"),
            **more,
        }
        process = subprocess.Popen(
            [*LASTBEAT, "supervise", "--interval", "0.5", *arguments],
            cwd=self.folder,
            env=environment(self.folder, **settings),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.processes.append(process)
        return process

    def begin(self, *more: str, script: str = "", policy: str = "megatron_transient") -> "subprocess.Popen[str]":
        where = ("--run-id", self.run_id, "--launcher", "ray", "--ray-address", self.cluster.address)
        command = ("--", "sh", "-c", script) if script else ()
        return self.supervise(*where, "--policy", policy, *more, *command)

    @property
    def record(self) -> dict[str, Any]:
        path = self.folder / "runs" / self.run_id / "_watchdog.json"
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return found

    @property
    def job(self) -> dict[str, Any]:
        return self.record.get("job") or {}

    def running(self, number: int) -> str:
        """The id that Ray knows that job by."""
        wanted = (number, "RUNNING")
        job = until(lambda: self.job, lambda found: (found.get("number"), found.get("state")) == wanted)
        return str(job["id"].partition("@session_")[0])

    def stop(self, submission_id: str) -> None:
        self.cluster.ask(f"/api/jobs/{submission_id}/stop", {})

    def log(self, number: int) -> str:
        path = self.folder / "runs" / self.run_id / "logs" / f"{self.run_id}-r{number}.log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def submitted(self) -> list[dict[str, Any]]:
        """What Ray knows of the run's jobs."""
        rows = self.cluster.ask("/api/jobs/")
        return [row for row in rows if str((row["metadata"] or {}).get("lastbeat_name")).startswith(self.run_id)]


@pytest.fixture
def run(ray_cluster: RayCluster, tmp_path: Path) -> Iterator[Supervised]:
    found = Supervised(tmp_path, ray_cluster)
    yield found
    for process in found.processes:
        if process.poll() is None:
            process.kill()
            process.communicate()
    for row in found.submitted():
        found.stop(row["submission_id"])


def test_a_job_that_is_stopped_is_submitted_again_and_runs_to_its_end(run: Supervised) -> None:
    process = run.begin(script=f"{AGAIN}; {STEPS}")
    first = run.running(0)
    run.stop(first)
    said, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, said
    assert (run.record["status"], run.record["restarts"][0]["error_type"]) == ("SUCCEEDED", "cancelled")
    assert sorted(row["status"] for row in run.submitted()) == ["STOPPED", "SUCCEEDED"]
    assert run.log(0).startswith("step 1/3000")


def test_a_job_that_somebody_else_submitted_is_adopted_and_submitted_again(run: Supervised) -> None:
    theirs = f"theirs-{os.urandom(3).hex()}"
    # Ray gives the entrypoint to a shell of its own.
    entrypoint = f'{AGAIN}; echo "$GREETING"; {STEPS}'
    variables = {"GREETING": "hello", "WANDB_API_KEY": "hush-hush"}
    noted = {"note": "glpat-hush-hush-hush-hush-hush"}
    body = {
        "entrypoint": entrypoint,
        "submission_id": theirs,
        "runtime_env": {"env_vars": variables},
        "metadata": noted,
    }
    run.cluster.ask("/api/jobs/", body)
    until(lambda: run.cluster.ask(f"/api/jobs/{theirs}")["status"], lambda status: status == "RUNNING")
    process = run.begin("--adopt", theirs, policy="default")
    assert run.running(0) == theirs
    run.stop(theirs)
    said, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, said
    assert "WANDB_API_KEY" in said, "what is left out is named"
    assert "--metadata-json of the job looks as if it held a secret" in said
    recorded = json.dumps(run.record)
    assert "hush-hush" not in recorded + said
    assert run.record["supervision"]["spec"]["environment"] == {"GREETING": "hello"}
    assert run.record["supervision"]["spec"]["command"] == ["sh", "-c", entrypoint]
    assert (run.record["status"], run.record["attempt"]["number"]) == ("SUCCEEDED", 2)
    assert "hello" in run.log(0)
