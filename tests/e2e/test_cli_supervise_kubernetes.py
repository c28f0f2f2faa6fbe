"""``supervise`` against a kubectl whose Jobs and pods run as processes of this machine; there is no API server."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import checkpoint_files as made
from support.fake_kubectl import FakeCluster
from support.fake_kubernetes import FakeKubernetes
from support.supervised import NCCL, begun, in_background, record, supervise
from support.waiting import LIMIT_S, until

TRAIN = """
import os, sys, time
number = int(os.environ["LASTBEAT_RESTART_COUNT"])
print("begun", number, *sys.argv[2:], flush=True)
for step in range(10 * number + 1, 10 * number + 4):
    print(f"step {step}/100 loss 2.5", flush=True)
how = sys.argv[1] if number == 0 else "end"
if how == "wait":
    time.sleep(600)
if how != "end":
    print("Traceback (most recent call last):\\n  File \\"train.py\\", line 9, in <module>\\n" + how, flush=True)
    sys.exit(1)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    manifest(tmp_path)
    return tmp_path


def manifest(folder: Path, *args: str, **container: Any) -> Path:
    """The user's manifest: its image has the program."""
    its = {
        "name": "train",
        "image": "training:1",
        "command": ["python", "train.py"],
        "workingDir": str(folder),
        **({"args": list(args)} if args else {}),
        **container,
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "mine", "labels": {"team": "nlp"}},
        "spec": {"template": {"spec": {"containers": [its]}}},
    }
    path = folder / "train.yaml"
    path.write_text(f"# How we train.\n---\n{yaml.safe_dump(job)}", encoding="utf-8")
    return path


BEGIN = (
    "supervise", "--run-id", "run", "--launcher", "kubernetes", "--policy", "megatron_transient", "--interval", "0.3",
)  # fmt: skip


def test_a_failure_is_restarted_by_a_new_object_from_the_last_complete_checkpoint(
    fake_kubernetes: FakeKubernetes, folder: Path
) -> None:
    (folder / "ckpt").mkdir()
    (folder / "ckpt/step_100.pt").write_bytes(made.torch_file())
    os.utime(folder / "ckpt/step_100.pt", (1_700_000_000, 1_700_000_000))
    manifest(folder, NCCL, "--load={resume_from}", "{attempt}")
    said = supervise(folder, *BEGIN, "--checkpoint-dir", "ckpt", "--", "train.yaml", "--lr", "$(HOME)")
    assert said.returncode == 0, said.stdout + said.stderr
    where = f"--load={folder}/ckpt/step_100.pt"
    assert begun(folder) == [f"begun 0 {where} 1 --lr $(HOME)", f"begun 1 {where} 2 --lr $(HOME)"]
    # Without what is made of the time.
    names = [each["metadata"]["name"].rpartition("-")[0] for each in fake_kubernetes.objects()]
    assert names == ["run-r0", "run-r1"]
    assert {each["metadata"]["labels"]["lastbeat.dev/run"] for each in fake_kubernetes.objects()} == {"run"}
    assert fake_kubernetes.objects()[0]["metadata"]["labels"]["team"] == "nlp"
    assert record(folder)["status"] == "SUCCEEDED"
    assert "Restarting, attempt 1/3: Transient failure detected (error_type=nccl), from step 100" in said.stdout


def test_an_agent_elsewhere_starts_what_the_manifest_held_when_the_run_was_begun(
    fake_kubernetes: FakeKubernetes, folder: Path
) -> None:
    manifest(folder, "wait")
    said = supervise(folder, *BEGIN, "--submit-only", "--", "train.yaml")
    assert said.returncode == 0, said.stdout + said.stderr
    (folder / "train.yaml").unlink()
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    agent = in_background(folder, "restart", "agent", "--launcher", "kubernetes", "--interval", "0.3", cwd=elsewhere)
    try:
        until(lambda: begun(folder))
        (pod,) = (pod for pod in fake_kubernetes.pods() if pod["status"]["phase"] == "Running")
        fake_kubernetes.take_away(pod)
        until(lambda: record(folder).get("status") == "SUCCEEDED")
    finally:
        agent.terminate()
        out, err = agent.communicate(timeout=LIMIT_S)
    assert begun(folder) == ["begun 0", "begun 1"], out + err


def test_a_dry_run_shows_the_object_and_creates_none(fake_kubernetes: FakeKubernetes, folder: Path) -> None:
    manifest(folder, "--load={resume_from}", "run {run_id}")
    said = supervise(folder, *BEGIN, "--dry-run", "--", "train.yaml")
    assert said.returncode == 0, said.stderr
    assert fake_kubernetes.objects() == []
    shown = yaml.safe_load(said.stdout.partition("<<'EOF'\n")[2].removesuffix("EOF\n"))
    assert shown["spec"]["template"]["spec"]["containers"][0]["args"] == ["run run"]
    assert shown["spec"]["backoffLimit"] == 0
    assert shown["metadata"]["name"].startswith("run-r0-")


def test_it_can_be_drilled(fake_kubernetes: FakeKubernetes, folder: Path) -> None:
    what = ("--scenario", "scancel", "--interval", "0.5", "--root", str(folder / "drill"))
    process = in_background(folder, "drill", "--launcher", "kubernetes", *what)
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
    assert process.returncode == 0, out + err
    assert "1 passed, 0 failed" in out
    assert not any(each["status"]["phase"] == "Running" for each in fake_kubernetes.pods())


IN_POD = """
import os, sys
number = int(os.environ["LASTBEAT_RESTART_COUNT"])
print("begun", number, os.environ.get("LASTBEAT_RESUME_FROM"), flush=True)
for step in range(1, 4):
    print(f"step {step + 10 * number}/100 loss 2.5", flush=True)
if number == 0:
    print("Traceback (most recent call last):\\n  File \\"train.py\\", line 9\\n" + sys.argv[1], flush=True)
    sys.exit(1)
"""
CHECKPOINTS = "/proc/self/cwd/ckpt"
"""In a pod, the folder in its HOME; here, another one or none."""


def test_a_failure_in_a_pod_is_restarted_from_a_checkpoint_that_only_the_pod_sees(
    fake_cluster: FakeCluster, tmp_path: Path
) -> None:
    """``--launcher ray-pod``: this machine sees neither log nor checkpoints."""
    (tmp_path / "runs").mkdir()
    home = fake_cluster.add_pod("ray-head", "ml", ("istio-proxy", "ray"))
    (home / "train.py").write_text(IN_POD, encoding="utf-8")
    (home / "ckpt").mkdir()
    for step in (100, 200):
        path = home / f"ckpt/step_{step}.pt"
        path.write_bytes(made.torch_file()[: 20 if step == 200 else None])
        os.utime(path, (1_700_000_000, 1_700_000_000))
    where = ("--at", "head-pod=ray-head", "--at", "namespace=ml", "--at", "container=ray")
    more = ("--checkpoint-dir", CHECKPOINTS, "--policy", "megatron_transient", "--interval", "0.5")
    begin = ("supervise", "--run-id", "run", "--launcher", "ray-pod", *where, *more)
    said = supervise(tmp_path, *begin, "--", "python3", "train.py", NCCL)
    assert said.returncode == 0, said.stdout + said.stderr
    assert begun(tmp_path) == [f"begun {number} {CHECKPOINTS}/step_100.pt" for number in (0, 1)]
    assert "Transient failure detected (error_type=nccl), from step 100" in said.stdout
    found = record(tmp_path)
    assert (found["status"], found["attempt"]["number"]) == ("SUCCEEDED", 2)
    shown = supervise(tmp_path, "show", "run")
    assert "step 13/100" in shown.stdout, shown.stdout
    assert list((tmp_path / "runs/run").glob("**/ckpt")) == []
