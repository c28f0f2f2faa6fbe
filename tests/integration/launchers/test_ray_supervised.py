"""Supervised runs on a real Ray: ``lastbeat supervise`` as people call it."""

import json
import os
from pathlib import Path

import pytest

from support.ray_cluster import WHY_NOT, RayCluster
from support.supervised import in_background, record
from support.waiting import LIMIT_S, until

pytestmark = [pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)), pytest.mark.timeout(300)]
STEPS = 'i=0; while [ $i -lt 3000 ]; do i=$((i + 1)); echo "step $i/3000 loss 2.5"; sleep 0.2; done'
AGAIN = '[ "${LASTBEAT_RESTART_COUNT:-0}" = 1 ] && { echo "from ${LASTBEAT_RESUME_FROM:-nothing}"; exit 0; }'


def test_a_job_that_somebody_else_submitted_is_adopted_and_submitted_again(
    ray_cluster: RayCluster, tmp_path: Path
) -> None:
    (tmp_path / "runs").mkdir()
    run_id = f"llama@{os.urandom(3).hex()}"
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
    ray_cluster.ask("/api/jobs/", body)
    until(lambda: ray_cluster.ask(f"/api/jobs/{theirs}")["status"], lambda status: status == "RUNNING")
    where = ("--run-id", run_id, "--launcher", "ray", "--ray-address", ray_cluster.address, "--adopt", theirs)
    process = in_background(tmp_path, "supervise", "--interval", "0.5", "--policy", "default", *where)
    job = until(lambda: record(tmp_path, run_id).get("job") or {}, lambda found: found.get("state") == "RUNNING")
    assert (job["number"], job["id"].partition("@session_")[0]) == (0, theirs)
    ray_cluster.ask(f"/api/jobs/{theirs}/stop", {})
    said = "".join(process.communicate(timeout=LIMIT_S))
    assert process.returncode == 0, said
    assert "WANDB_API_KEY" in said, "what is left out is named"
    assert "--metadata-json of the job looks as if it held a secret" in said
    found = record(tmp_path, run_id)
    assert "hush-hush" not in json.dumps(found) + said
    assert found["supervision"]["spec"]["environment"] == {"GREETING": "hello"}
    assert found["supervision"]["spec"]["command"] == ["sh", "-c", entrypoint]
    assert (found["status"], found["attempt"]["number"]) == ("SUCCEEDED", 2)
    assert "hello" in (tmp_path / "runs" / run_id / "logs" / f"{run_id}-r0.log").read_text(encoding="utf-8")
