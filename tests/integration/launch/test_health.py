"""The health of a training on a real Ray, whose GPUs a program in its pods makes up."""

import json
import os
import threading
import time
from pathlib import Path

import pytest

from integration.launch.conftest import Head, program
from lastbeat.launch.ray import (
    auto_restart,
    check_efa_utilization,
    print_training_health,
    stop_job,
    verify_ray_resources,
)
from support import checkpoint_files as made
from support.cli import LASTBEAT, call
from support.waiting import LIMIT_S, until

IN_USE = "case $1 in --query-gpu*) printf '90, 70000, 81559\\n94, 70000, 81559\\n';; *) echo '7, python, 70000';; esac"
HOLDER = "sh -c 'while :; do echo step 1 loss 2; sleep 1; done'"


def saved(checkpoints: Path, step: int) -> None:
    for file, body in made.huggingface(step).items():
        path = checkpoints / f"checkpoint-{step}" / file
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(body)


def none_is_given_out(head: Head) -> None:
    """Waits until Ray has the GPUs of a stopped job back: its own count is a few seconds old."""
    until(lambda: verify_ray_resources(head.head_pod), lambda found: found.gpus_used == 0, 120)


def home(head: Head, pod: str = "ray-head") -> Path:
    assert head.kubectl is not None
    return head.kubectl.home(pod)


def test_what_ray_has_and_has_given_out(by_dashboard: Head) -> None:
    head = by_dashboard
    before = verify_ray_resources(head.head_pod)
    job = head.submit(HOLDER, entrypoint_num_gpus=1)
    # Ray's own count is a few seconds old.
    during = until(lambda: verify_ray_resources(head.head_pod), lambda found: found.gpus_used == 1, 120)
    stop_job(head.head_pod, job)
    none_is_given_out(head)

    assert (before.gpus_available, before["cpus_available"], before.healthy) == (2.0, 4.0, True)
    assert (during.gpus_available, during.gpus_used) == (2.0, 1.0)


EFA_LINE = "worker:12:34 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa-direct (found 4 nics)"
SOCKET_LINE = "worker:12:34 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.7<0>"
ASKED_LINE = "worker:12:34 [0] NCCL INFO FI_PROVIDER set by environment to efa"


@pytest.mark.parametrize(
    ("lines", "active", "transport", "fallback"),
    [
        ((EFA_LINE,), True, "efa", False),
        ((ASKED_LINE, SOCKET_LINE), False, "socket", True),
        ((SOCKET_LINE,), False, "socket", False),
    ],
    ids=["in use", "asked for and not in use", "a machine without"],
)
def test_what_nccl_says_of_its_network(
    head: Head, lines: tuple[str, ...], active: bool, transport: str, fallback: bool
) -> None:
    # Of a job that began after all that other tests have run.
    log = head.cluster.folder / "t" / "session_latest" / "logs" / f"worker-{time.time_ns()}-00ff0000-7.out"
    log.write_text("\n".join(["step 1", *lines, "step 2", ""]))
    try:
        found = check_efa_utilization(head.head_pod)
    finally:
        log.unlink()

    assert (found.efa_active, found["transport"], found.fallback) == (active, transport, fallback)


def test_all_of_it_at_once(by_pod: Head, checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program(home(by_pod), "nvidia-smi", IN_USE)
    saved(checkpoints, 1200)
    none_is_given_out(by_pod)

    found = print_training_health("ray-head", str(checkpoints))

    assert found.healthy, found.issues
    assert found["gpu"]["avg_utilization"] == 92.0
    assert found["ray"]["gpus_available"] == 2.0
    assert found["checkpoints"]["latest_step"] == 1200
    assert found["efa"]["efa_active"] is None
    assert json.loads(json.dumps(dict(found)))["issues"] == found.issues
    said = capsys.readouterr().out
    for word in (
        "healthy, but look at what follows (WARNING)",
        "92 % on average",
        "of 2 GPUs",
        "step 1200",
        "NCCL_DEBUG=INFO",
    ):
        assert word in said


def test_the_health_of_a_run_asks_its_cluster(
    by_dashboard: Head, checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = by_dashboard
    (tmp_path / "runs").mkdir()
    monkeypatch.setenv("MONITORING_ROOT", str(tmp_path / "runs"))
    saved(checkpoints, 40)
    job = head.submit(f"sh -c 'echo step 1/9 loss 2; while [ ! -e {tmp_path}/go ]; do sleep 0.2; done'")
    looked_after = threading.Thread(
        target=auto_restart,
        args=(head.head_pod, job, str(checkpoints)),
        kwargs={"retry_delay": 0.5, "check_interval": head.pace_s},
        daemon=True,
    )
    looked_after.start()
    try:
        until((tmp_path / "runs" / job / "logs").exists, bool, 120)

        said = call(LASTBEAT, "health", job, "--json", cwd=tmp_path, MONITORING_ROOT="runs", PATH=os.environ["PATH"])
    finally:
        (tmp_path / "go").touch()
    looked_after.join(LIMIT_S)

    found = json.loads(said.stdout)
    assert found["job"].startswith(f"{job}: RUNNING")
    assert found["checkpoints"]["latest_step"] == 40
    assert found["ray"]["cpus_available"] == 4.0
    assert any("no GPU is seen, though Ray counts 2" in each for each in found["issues"])
