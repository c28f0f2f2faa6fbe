"""A real Ray, reached in both ways: by its dashboard, and by a ``kubectl`` that runs what ``exec`` says here."""

import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lastbeat.launch.ray import submit_job_with_resume
from support import ray_cluster as ray
from support.fake_kubectl import FakeCluster
from support.waiting import until

TRAIN = Path(__file__).with_name("train.py")


@dataclass
class Head:
    """A cluster as a script names it."""

    head_pod: str
    cluster: ray.RayCluster
    kubectl: FakeCluster | None = None
    pace_s: float = 0.5
    """Between two looks, in s. Each of Ray's own commands in a pod loads Ray, which takes a core a second."""
    started: list[str] = field(default_factory=list)

    def submit(self, entrypoint: str, job: str = "", checkpoint: str | None = None, **config: Any) -> str:
        """A job under ``job``, or under a name of its own."""
        name = job or f"train-{uuid.uuid4().hex[:8]}"
        self.started.append(name)
        return submit_job_with_resume(
            self.head_pod, checkpoint, {"entrypoint": entrypoint, "submission_id": name, **config}
        )

    def jobs(self, prefix: str) -> list[dict[str, Any]]:
        """The jobs that Ray knows whose ids begin so, the oldest first, by its own word."""
        rows = self.cluster.ask("/api/jobs/")
        found = [row for row in rows if str(row["submission_id"]).startswith(prefix)]
        return sorted(found, key=lambda row: row["start_time"])


def program(home: Path, name: str, text: str) -> None:
    """Have such a program in the pod."""
    path = home / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def pod_of(cluster: ray.RayCluster, kubectl: FakeCluster, name: str = "ray-head", namespace: str = "default") -> Path:
    """A pod in which Ray's own commands find ``cluster``. Returns its home."""
    assert ray.RAY is not None
    home = kubectl.add_pod(name, namespace)
    # As in an image that has moved Ray's folder of temporary files.
    (home / "tmpdir").mkdir()
    (home / "tmpdir" / "ray").symlink_to(cluster.folder / "t")
    surroundings = f"export RAY_TMPDIR={home}/tmpdir; "
    # `ray status` asks the store of the head, all else the dashboard.
    store = f"{cluster.network}.2:{cluster.ports[0]}"
    where = f"case $1 in status) export RAY_ADDRESS={store};; *) export RAY_ADDRESS={cluster.address};; esac; "
    program(home, "ray", f'{where} exec {ray.RAY} "$@"')
    program(home, "sh", f'{surroundings} exec /bin/sh "$@"')
    return home


@pytest.fixture
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test's scripts keep what they know; no fleet root is set up."""
    for name in ("MONITORING_ROOT", "MONITORING_BUCKET"):
        monkeypatch.delenv(name, raising=False)
    state = tmp_path / "state"
    monkeypatch.setenv("LASTBEAT_STATE_DIR", str(state))
    monkeypatch.chdir(tmp_path)
    return state


def has_counted(cluster: ray.RayCluster) -> None:
    """Wait until a head that has just begun tells what it has."""

    def usage() -> object:
        status = cluster.ask("/api/cluster_status")["data"]["clusterStatus"] or {}
        return (status.get("loadMetricsReport") or {}).get("usage")

    until(usage, bool, 120)


@pytest.fixture
def by_dashboard(ray_cluster: ray.RayCluster, own_state: Path) -> Head:
    """By its address."""
    has_counted(ray_cluster)
    return Head(ray_cluster.address, ray_cluster)


@pytest.fixture
def by_pod(ray_cluster: ray.RayCluster, own_state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Head:
    """By the head's pod."""
    has_counted(ray_cluster)
    kubectl = FakeCluster(tmp_path / "kube")
    pod_of(ray_cluster, kubectl)
    monkeypatch.setenv("PATH", kubectl.path)
    return Head("ray-head", ray_cluster, kubectl, pace_s=3.0)


@pytest.fixture(params=["by_dashboard", "by_pod"])
def head(request: pytest.FixtureRequest) -> Head:
    """In either way."""
    found: Head = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    """Where trainings save."""
    path = tmp_path / "checkpoints"
    path.mkdir()
    return path


@pytest.fixture
def training(checkpoints: Path) -> Callable[[str], str]:
    """The entrypoint of a training of thirty steps that does so for the first time: ``well``, ``crash``, ``hang``, or
    at every time: ``always``."""
    return lambda how: f"{sys.executable} -u {TRAIN} {checkpoints} {how}"
