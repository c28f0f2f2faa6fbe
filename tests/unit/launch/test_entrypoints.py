"""Entrypoints by way of the head's pod: Rays before 2.60 quote their words for another shell."""

from pathlib import Path

import pytest

from lastbeat.jobs.launchers.kubectl import Kubectl
from lastbeat.jobs.launchers.port import JobRefusedError, NotLaunchedError
from lastbeat.jobs.launchers.ray_exec.jobs import PodJobs
from support.fake_kubectl import FakeCluster

RAY = """#!/bin/sh
[ "$1" = --version ] && {{ {version}; exit; }}
cat >/dev/null
echo "$@" >> submitted
"""
PLAIN = "python train.py --lr=1e-4 --load=/fsx/ckpt"
SHELLS = ["DATA=/fsx/data && python train.py --data $DATA", "python train.py '--tag=x;y'"]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    found = FakeCluster(tmp_path)
    monkeypatch.setenv("PATH", found.path)
    return found


def with_ray(cluster: FakeCluster, version: str) -> Path:
    """The pod's home, where its ``ray`` notes what was submitted."""
    home = cluster.add_pod("ray-head")
    (home / "bin").mkdir(exist_ok=True)
    (home / "bin/ray").write_text(RAY.format(version=version).replace("submitted", str(home / "submitted")))
    (home / "bin/ray").chmod(0o755)
    return home


@pytest.mark.parametrize(
    ("version", "entrypoint", "refused"),
    [
        pytest.param("echo ray, version 2.9.3", PLAIN, None, id="plain words, an old Ray"),
        pytest.param("echo ray, version 2.60.0", SHELLS[0], None, id="variables, a new Ray"),
        pytest.param("echo ray, version 2.9.3", SHELLS[0], JobRefusedError, id="variables, an old Ray"),
        pytest.param("echo ray, version 2.59.0", SHELLS[1], JobRefusedError, id="quotes, an old Ray"),
        pytest.param("false", SHELLS[0], NotLaunchedError, id="variables, and nobody knows which Ray"),
    ],
)
def test_an_entrypoint_is_run_as_it_was_written_or_not_at_all(
    cluster: FakeCluster, version: str, entrypoint: str, refused: type[Exception] | None
) -> None:
    home = with_ray(cluster, version)
    jobs = PodJobs(Kubectl("default"), "ray-head")
    request = {"submission_id": "train-r1", "entrypoint": entrypoint}
    if refused is None:
        assert jobs.submit(request) == "train-r1"
        assert (home / "submitted").exists()
        return
    with pytest.raises(refused):
        jobs.submit(request)
    assert not (home / "submitted").exists()
