"""The health of a cluster, asked as people's scripts ask for it: by kubectl, without a Ray."""

import json
from pathlib import Path

import pytest

from lastbeat.launch.ray import LaunchError, check_gpu_utilization, get_training_health, print_training_health
from support.fake_kubectl import FakeCluster

IN_USE = "case $1 in --query-gpu*) printf '90, 70000, 81559\\n94, 70000, 81559\\n';; *) echo '7, python, 70000';; esac"
BROKEN = 'echo "NVIDIA-SMI has failed because it couldn\'t communicate with the NVIDIA driver."; exit 9'
IDLE = "case $1 in --query-gpu*) printf '0, 4, 81559\\n0, 4, 81559\\n';; esac"
GPU_KEYS = {
    "gpu_count", "gpu_utilizations", "memory_used", "memory_total", "processes", "avg_utilization", "healthy", "faults",
}  # fmt: skip


@pytest.fixture
def pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    kubectl = FakeCluster(tmp_path / "kube")
    monkeypatch.setenv("PATH", kubectl.path)
    return kubectl


def program(home: Path, name: str, text: str) -> None:
    """The pod has such a program."""
    path = home / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def head(pods: FakeCluster, nvidia_smi: str = "") -> None:
    """The head's pod, in which Ray has given out GPUs."""
    home = pods.add_pod("head")
    program(home, "ray", "printf 'Total Usage:\\n 1.0/4.0 CPU\\n 2.0/2.0 GPU\\n\\n'")
    if nvidia_smi:
        program(home, "nvidia-smi", nvidia_smi)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        pytest.param(("head", "ml"), {}, id="the namespace as the second argument"),
        pytest.param(("head",), {"namespace": "ml"}, id="the namespace by its name"),
        pytest.param(("head", "head", "ml"), {}, id="with one pod, as text"),
    ],
)
def test_gpus_are_asked_about_in_the_namespace_that_is_named(
    pods: FakeCluster, arguments: tuple[str, ...], named: dict[str, str]
) -> None:
    program(pods.add_pod("head", "ml"), "nvidia-smi", IN_USE)

    assert check_gpu_utilization(*arguments, **named).gpu_count == 2


def test_a_pod_that_cannot_be_asked_is_told_beside_the_others(pods: FakeCluster) -> None:
    head(pods)
    program(pods.add_pod("worker-0"), "nvidia-smi", IN_USE)
    program(pods.add_pod("worker-1"), "nvidia-smi", IDLE)
    program(pods.add_pod("worker-2"), "nvidia-smi", BROKEN)

    found = check_gpu_utilization("head", all_pods=["worker-0", "worker-1", "worker-2", "worker-3"])

    assert (found.gpu_utilizations, found.avg_utilization, found.healthy) == ([90.0, 94.0, 0.0, 0.0], 46.0, False)
    assert {(each.name, each.place) for each in found.processes} >= {("python", "worker-0")}
    broken, missing = found.faults
    assert "communicate with the NVIDIA driver" in broken
    assert "kubectl get pods" in missing


def test_gpus_that_could_not_be_asked_about_are_an_answer_with_the_same_keys(pods: FakeCluster) -> None:
    head(pods)

    found = get_training_health("head")

    assert set(found["gpu"]) == GPU_KEYS
    assert (found["gpu"]["gpu_count"], found["gpu"]["healthy"], found["gpu"]["avg_utilization"]) == (None, False, None)
    (why,) = found["gpu"]["faults"]
    assert "there is no nvidia-smi in it" in why
    assert not any("no GPU is seen" in each for each in found.issues), "unknown is not none"
    assert json.loads(json.dumps(dict(found)))["gpu"]["gpu_utilizations"] == []


def test_what_is_no_report_is_refused_in_words() -> None:
    with pytest.raises(LaunchError, match="get_training_health"):
        print_training_health({"healthy": True})  # type: ignore[arg-type]


def test_a_place_of_checkpoints_that_cannot_be_listed_is_told_with_the_reason(
    pods: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head(pods, IN_USE)

    found = print_training_health("head", str(tmp_path / "none"))

    said = next(each for each in capsys.readouterr().out.splitlines() if each.startswith("Checkpoints:"))
    assert "no place is named" not in said
    assert str(tmp_path / "none") in said
    assert found["checkpoints"]["latest_step"] is None
    assert found["checkpoints"]["fault"] in said
    assert any(str(tmp_path / "none") in each for each in found.issues)
    print_training_health("head")
    assert "not known (no place is named)" in capsys.readouterr().out
