"""``health`` as users run it: of a run, of a cluster by its dashboard's address, and of one by the pod of its head."""

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from support.cli import LASTBEAT, call
from support.fake_kubectl import FakeCluster

GPU = {"name": "H100", "utilization": 0.9, "memory_used_bytes": 70 << 30, "memory_total_bytes": 80 << 30}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    return tmp_path


def beats(folder: Path, run: str, gpus: list[dict[str, Any]], step: int = 12) -> Path:
    """A run that beats now."""
    path = folder / "runs" / run
    path.mkdir(parents=True)
    now = datetime.now(timezone.utc).isoformat()
    (path / "metadata.json").write_text(json.dumps({"run_id": run, "timestamp": now, "resources": {"gpus": gpus}}))
    (path / "progress.json").write_text(json.dumps({"step": step, "total_steps": 100, "timestamp": now}))
    return path


def health(folder: Path, *arguments: str, **more: Any) -> Any:
    return call(LASTBEAT, "health", *arguments, cwd=folder, **more)


def test_a_run_whose_gpus_work_is_healthy(runs: Path) -> None:
    beats(runs, "llama", [GPU, GPU])

    said = health(runs, "llama", "--root", "runs")

    assert said.returncode == 0, said.stdout + said.stderr
    assert said.stdout.splitlines()[:3] == [
        "Training: healthy (OK)",
        "Run:         llama: RUNNING at step 12",
        "GPUs:        2, 90 % on average, 143,360 of 163,840 MB, 0 processes",
    ]


def test_the_same_for_programs(runs: Path) -> None:
    beats(runs, "llama", [GPU, {**GPU, "utilization": 0.0}])

    said = health(runs, "llama", "--root", "runs", "--json")

    found = json.loads(said.stdout)
    assert said.returncode == 1
    assert (found["healthy"], found["level"], found["gpu"]["avg_utilization"]) == (True, "WARNING", 45.0)
    assert found["issues"] == ["1 of 2 GPUs are idle while others work: a rank may be missing"]


def test_a_run_that_failed_is_not_healthy_and_its_gpus_are_nobodys_business(runs: Path) -> None:
    path = beats(runs, "llama", [{**GPU, "utilization": 0.0}])
    (path / "_error").write_text("RuntimeError: boom\x1b[31m")

    said = health(runs, "llama", "--root", "runs")

    assert said.returncode == 2
    assert "- llama is FAILED: RuntimeError: boom" in said.stdout
    assert "\x1b" not in said.stdout
    assert "idle" not in said.stdout


def test_checkpoints_are_looked_at_where_a_place_is_named(runs: Path) -> None:
    beats(runs, "llama", [GPU])
    (runs / "ckpt").mkdir()

    none = health(runs, "llama", "--root", "runs", "--checkpoint-dir", "ckpt")
    nowhere = health(runs, "llama", "--root", "runs", "--checkpoint-dir", "nowhere")

    assert (none.returncode, nowhere.returncode) == (1, 1)
    assert "no checkpoint found in ckpt" in none.stdout
    assert "checkpoints cannot be looked for in nowhere" in nowhere.stdout
    assert "MONITORING_ROOT" not in nowhere.stdout


def test_an_address_where_nobody_listens_is_not_observed(runs: Path) -> None:
    text = health(runs, "--ray-address", "http://127.0.0.1:1")
    found = json.loads(health(runs, "--ray-address", "http://127.0.0.1:1", "--json").stdout)

    assert text.returncode == 3
    assert text.stdout.count("the connection was refused") == 1
    assert (found["healthy"], found["level"], found["ray"]) == (False, "UNKNOWN", None)
    assert (found["gpu"]["healthy"], found["gpu"]["gpu_count"]) == (False, None)
    assert "the connection was refused" in found["gpu"]["faults"][0]


@pytest.fixture
def kubectl(tmp_path: Path) -> FakeCluster:
    return FakeCluster(tmp_path / "kube")


def by_kubectl(folder: Path, kubectl: FakeCluster, *arguments: str) -> Any:
    return health(folder, *arguments, PATH=kubectl.path)


def test_permission_that_is_missing_is_told_with_what_to_do(runs: Path, kubectl: FakeCluster) -> None:
    kubectl.add_pod("ray-head")
    kubectl.fail("forbidden", verb="exec")

    answer = by_kubectl(runs, kubectl, "--head-pod", "ray-head", "--namespace", "default")

    assert answer.returncode == 3
    assert "kubectl auth can-i create pods/exec" in answer.stdout


PROGRAMS = {
    "ray": "printf 'Resources\\nTotal Usage:\\n 8.0/16.0 CPU\\n 2.0/2.0 GPU\\n\\n'",
    "nvidia-smi": "case $1 in --query-gpu*) printf '97, 70000, 81559\\n91, 70000, 81559\\n';; esac",
}


def test_pods_whose_gpus_work_are_healthy(runs: Path, kubectl: FakeCluster) -> None:
    for pod in ("ray-head", "worker-0"):
        home = kubectl.add_pod(pod, "ml")
        (home / "bin").mkdir()
        for name, text in PROGRAMS.items():
            (home / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
            (home / "bin" / name).chmod(0o755)
    pods = ("--namespace", "ml", "--pod", "ray-head", "--pod", "worker-0")

    answer = by_kubectl(runs, kubectl, "--head-pod", "ray-head", *pods)

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "GPUs:        4, 94 % on average" in answer.stdout
    assert "Ray:         2 of 2 GPUs and 8 of 16 CPUs given out" in answer.stdout
