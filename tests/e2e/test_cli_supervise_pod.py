"""``supervise --launcher ray-pod``: training in a pod, of which this machine sees neither log nor checkpoints.

The kubectl here runs what it is told in processes of this machine; there is no API server (support.fake_kubectl)."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lastbeat.jobs.launchers.kubectl import Kubectl
from support import checkpoint_files as made
from support.fake_kubectl import FakeCluster
from support.supervised import NCCL, begun, in_background, record, supervise
from support.waiting import LIMIT_S, until

TRAIN = """
import os, sys, time
number = int(os.environ["LASTBEAT_RESTART_COUNT"])
print("begun", number, os.environ.get("LASTBEAT_RESUME_FROM"), flush=True)
for step in range(1, 4):
    print(f"step {step + 10 * number}/100 loss 2.5", flush=True)
    time.sleep(0.05)
while number == 0 and os.path.exists("hold"):
    time.sleep(0.02)
if number < int(sys.argv[2]):
    print("Traceback (most recent call last):\\n  File \\"train.py\\", line 9\\n" + sys.argv[1], flush=True)
    sys.exit(1)
"""
CHECKPOINTS = "/proc/self/cwd/ckpt"
"""In the pod, the folder in its HOME; here, another one or none."""


@pytest.fixture
def pod(fake_cluster: FakeCluster) -> FakeCluster:
    home = fake_cluster.add_pod("ray-head", "ml", ("istio-proxy", "ray"))
    (home / "train.py").write_text(TRAIN, encoding="utf-8")
    (home / "ckpt").mkdir()
    return fake_cluster


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    return tmp_path


def begin(*job: str, policy: str = "megatron_transient") -> tuple[str, ...]:
    where = (
        "--at",
        "head-pod=ray-head",
        "--at",
        "namespace=ml",
        "--at",
        "container=ray",
        "--checkpoint-dir",
        CHECKPOINTS,
    )
    more = ("--policy", policy, "--interval", "0.5")
    return "supervise", "--run-id", "run", "--launcher", "ray-pod", *where, *more, "--", *job


def home(pod: FakeCluster) -> Path:
    return pod.home("ray-head", "ml")


def test_a_failure_in_the_pod_is_restarted_from_a_checkpoint_that_only_the_pod_sees(
    pod: FakeCluster, folder: Path
) -> None:
    for step in (100, 200):
        path = home(pod) / f"ckpt/step_{step}.pt"
        path.write_bytes(made.torch_file()[: 20 if step == 200 else None])
        os.utime(path, (1_700_000_000, 1_700_000_000))
    said = supervise(folder, *begin("python3", "train.py", NCCL, "1"))
    assert said.returncode == 0, said.stdout + said.stderr
    assert begun(folder) == [f"begun {number} {CHECKPOINTS}/step_100.pt" for number in (0, 1)]
    assert "Transient failure detected (error_type=nccl), from step 100" in said.stdout
    found = record(folder)
    assert (found["status"], found["attempt"]["number"]) == ("SUCCEEDED", 2)
    shown = supervise(folder, "show", "run")
    assert "step 13/100" in shown.stdout, shown.stdout
    assert list((folder / "runs/run").glob("**/ckpt")) == []


def test_nor_a_container_that_was_killed_for_its_memory(pod: FakeCluster, folder: Path) -> None:
    with supervised(folder, pod) as supervisor:
        pod.end_container("ray-head", "OOMKilled", "ml", number=1)
        until(lambda: record(folder).get("status") == "FAILED")
        # What becomes of it is decided when its checkpoints can be looked at again.
        pod.start_container("ray-head", "ml", number=1)
        out, err = supervisor.communicate(timeout=LIMIT_S)
    assert supervisor.returncode == 2, out + err
    assert "OOMKilled" in out
    assert "Not restarted: Permanent failure detected (excluded error_type: oom)" in out


def test_a_pod_that_is_made_anew_gets_the_next_job(pod: FakeCluster, folder: Path) -> None:
    with supervised(folder, pod, "default") as supervisor:
        old = home(pod)
        fresh = pod.add_pod("ray-head", "ml", ("istio-proxy", "ray"))
        (fresh / "ckpt").mkdir()
        (fresh / "train.py").write_bytes((old / "train.py").read_bytes())
        out, err = supervisor.communicate(timeout=LIMIT_S)
    assert supervisor.returncode == 0, out + err
    assert "pod ray-head was started again" in out + err
    assert len(begun(folder)) == 2


def test_a_process_of_the_pod_is_adopted(pod: FakeCluster, folder: Path) -> None:
    script = "sh -c 'while [ -e hold ]; do echo step 7/100 loss 2.5; sleep 0.1; done' > train.log 2>&1 < /dev/null &"
    (home(pod) / "hold").touch()
    stranger = Kubectl("ml").exec("ray-head", ["sh", "-c", f"{script} echo $!"], container="ray").out.strip()
    where = ("--head-pod", "ray-head", "--namespace", "ml", "--container", "ray")
    run = ("supervise", "--run-id", "run", "--launcher", "ray-pod", *where, "--adopt", stranger, "--interval", "0.5")
    with running(folder, *run) as supervisor:
        until(lambda: record(folder).get("job"))
        until(lambda: list((folder / "runs/run/logs").glob("*.log")))
        (home(pod) / "hold").unlink()
        out, err = supervisor.communicate(timeout=LIMIT_S)
    assert supervisor.returncode == 2, out + err
    assert "no process collected its exit status" in out


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    supervisor = in_background(folder, *arguments)
    try:
        yield supervisor
    finally:
        supervisor.kill()
        supervisor.communicate()


@contextmanager
def supervised(folder: Path, pod: FakeCluster, policy: str = "megatron_transient") -> Iterator["subprocess.Popen[str]"]:
    """A supervisor of a job that runs, and goes on until it is told."""
    (home(pod) / "hold").touch()
    with running(folder, *begin("python3", "train.py", NCCL, "1", policy=policy)) as supervisor:
        until(lambda: record(folder).get("job"))
        until(lambda: begun(folder))
        yield supervisor
