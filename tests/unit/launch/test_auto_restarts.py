"""What auto_restart goes by, without a Ray: when kubectl is switched to another cluster, and how often it may retry."""

from datetime import datetime, timezone
from pathlib import Path

import pytest

from lastbeat.launch.auto_restart import PodLauncher
from lastbeat.launch.by_kubectl import PodCluster, PodJobs
from lastbeat.launch.ray import NotSetUpError, auto_restart
from lastbeat.launchers.kubectl import Kubectl
from lastbeat.launchers.port import LauncherError
from lastbeat.model.job import JobState
from support.fake_kubectl import FakeCluster

SINCE = datetime(2026, 11, 1, tzinfo=timezone.utc)


def test_in_another_cluster_nothing_is_known_of_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl = FakeCluster(tmp_path)
    home = kubectl.add_pod("ray-head")
    # A Ray that knows no jobs, of the same life as the one that did.
    for name, text in {"ray": "echo '[]'", "readlink": "echo session_7"}.items():
        (home / "bin").mkdir(exist_ok=True)
        (home / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (home / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", kubectl.path)
    launcher = PodLauncher(PodCluster(PodJobs(Kubectl("default"), "ray-head")))
    assert launcher.state("train@session_7").state is JobState.GONE
    assert launcher.find("train", SINCE) is None

    kubectl.switch("10.9.9.9:6443")

    assert launcher.state("train@session_7").state is JobState.UNKNOWN
    with pytest.raises(LauncherError, match=r"10\.1\.2\.3.*10\.9\.9\.9"):
        launcher.find("train", SINCE)
    with pytest.raises(LauncherError):
        launcher.cancel("train@session_7")
    kubectl.switch("10.1.2.3:6443")
    assert launcher.state("train@session_7").state is JobState.GONE


@pytest.mark.parametrize("retries", [-1, 100, 1000])
def test_more_retries_than_a_record_counts_are_refused(retries: int) -> None:
    with pytest.raises(NotSetUpError, match="between 0 and 99"):
        auto_restart("http://127.0.0.1:1", "train", "/ckpt", max_retries=retries)
