"""What auto_restart goes by, without a Ray: when kubectl is switched to another cluster, and how often it may retry."""

import json
import os
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from lastbeat.jobs.launchers import registry
from lastbeat.jobs.launchers.kubectl import Kubectl
from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.jobs.launchers.ray_exec.jobs import PodJobs
from lastbeat.jobs.launchers.ray_exec.launcher import RayExecLauncher
from lastbeat.jobs.restarts.loading import load_text
from lastbeat.launch.auto_restart import Terms, _settings
from lastbeat.launch.ray import NotSetUpError, auto_restart
from lastbeat.model.job import JobMemory, JobSpec, JobState
from lastbeat.model.record import Record
from lastbeat.model.restart import JobEnd, Mode, RestartEntry, Supervision
from lastbeat.model.state import State
from lastbeat.model.status import Status
from lastbeat.stores.directory import DirectoryStore
from lastbeat.stores.kind import DIRECTORY, Root
from lastbeat.watch.decide.restart import decide_restart, entry
from lastbeat.watch.record.repository import RecordRepository
from support.cli import LASTBEAT, call
from support.fake_kubectl import FakeCluster

SINCE = datetime(2026, 11, 1, tzinfo=timezone.utc)


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A head pod whose Ray knows no jobs, of the same life as the one that did."""
    found = FakeCluster(tmp_path)
    home = found.add_pod("ray-head")
    for name, text in {"ray": "echo '[]'", "readlink": "echo session_7"}.items():
        (home / "bin").mkdir(exist_ok=True)
        (home / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (home / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", found.path)
    return found


def test_in_another_cluster_nothing_is_known_of_a_job(kubectl: FakeCluster) -> None:
    launcher = RayExecLauncher(PodJobs(Kubectl("default"), "ray-head"))
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


@pytest.mark.parametrize(("server", "state"), [("10.1.2.3:6443", JobState.GONE), ("10.9.9.9:6443", JobState.UNKNOWN)])
def test_another_process_reaches_the_jobs_of_a_record_in_their_pod(
    kubectl: FakeCluster, tmp_path: Path, server: str, state: JobState
) -> None:
    launcher = registry.module("ray-exec").launcher(tmp_path, (), f"{server}/default/ray-head")

    assert launcher.state("train@session_7").state is state


def test_a_run_that_a_script_began_by_its_head_pod_is_stopped_from_a_shell(
    kubectl: FakeCluster, tmp_path: Path
) -> None:
    ray = kubectl.home("ray-head") / "bin" / "ray"
    row = json.dumps([{"submission_id": "train", "status": "RUNNING"}])
    ray.write_text(f"#!/bin/sh\n[ $1 = list ] && echo '{row}' || echo $@ >> {tmp_path}/asked\n")
    runs = tmp_path / "runs"
    (runs / "train").mkdir(parents=True)
    job = JobMemory("ray-exec", "train@session_7", "train-r0", 0, SINCE, JobState.RUNNING)
    begun = Supervision("ray-exec", JobSpec(("train",), ""), place="10.1.2.3:6443/default/ray-head")
    record = Record("train", State(Status.RUNNING), supervision=begun, job=job)
    RecordRepository(DirectoryStore(runs), "train/_watchdog.json", "test").save(record, SINCE)

    done = call(LASTBEAT, "stop", "train", cwd=tmp_path, MONITORING_ROOT=str(runs), PATH=os.environ["PATH"])

    assert "job train@session_7 is being ended" in done.stdout, done.stdout + done.stderr
    assert (tmp_path / "asked").read_text().splitlines()[-1] == "job stop --no-wait -- train"


@pytest.mark.parametrize(("fleet", "folder"), [("runs", "runs"), (None, "state/restarts")])
def test_the_run_is_one_of_the_fleet_that_the_settings_name_if_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fleet: str | None, folder: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MONITORING_BUCKET", raising=False)
    monkeypatch.setenv("LASTBEAT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("MONITORING_ROOT", str(tmp_path / fleet) if fleet else "")
    settings, own = _settings(Terms(10, 60.0, 300.0, 30.0))
    assert (settings.root, own) == (Root(DIRECTORY, str(tmp_path / folder)), fleet is None)


def test_the_delay_doubles_with_each_restart_in_a_row_up_to_half_an_hour() -> None:
    terms = Terms(10, 60.0, 300.0, 30.0)
    policy = load_text(terms.policy_text, "auto_restart.yaml", "auto_restart")
    end, history, delays = JobEnd(Mode.CRASH, "unknown", checkpoint_step=50), tuple[RestartEntry, ...](), []
    for _ in range(7):
        delays.append(decide_restart(policy, end, history, SINCE, delay_s=terms.retry_delay_s, chance=1.0).delay_s)
        history = (*history, entry(end, SINCE))

    assert delays == [60, 120, 240, 480, 960, 1800, 1800]
    later = replace(end, checkpoint_step=90)
    assert decide_restart(policy, later, history, SINCE, delay_s=60.0, chance=1.0).delay_s == 60, "it got on"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"max_retries": -1}, "between 0 and 99"),
        ({"max_retries": 100}, "between 0 and 99"),
        ({"check_interval": 0}, "check_interval"),
        ({"retry_delay": -1}, "retry_delay"),
        ({"stagnation_threshold": 0}, "stagnation_threshold"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(NotSetUpError, match=said):
        auto_restart("http://127.0.0.1:1", "train", "/ckpt", **wrong)
