"""A supervisor that dies at any call of a restart, on a real Slurm: one job more, no more, no less, never two alive."""

import os
import signal
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest

from integration.launchers.test_slurm_jobs import SCRIPT, job_of, record, supervise
from lastbeat.jobs.launchers.slurm.launcher import SlurmLauncher
from lastbeat.model.job import JobReport, JobSpec, JobState
from support.jobs import RUN, FakeLauncher, SupervisedScene
from support.memory import Killed
from support.slurm import ask
from support.waiting import LIMIT_S, until


@pytest.fixture
def conf(slurm_conf: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("SLURM_CONF", str(slurm_conf))
    yield slurm_conf
    ask(slurm_conf, "scancel", "--me")
    until(lambda: ask(slurm_conf, "squeue", "-h"), lambda left: not left.strip())


@dataclass
class RealLauncher(FakeLauncher):
    """Slurm itself, which dies where a test says; under names that only one test has."""

    kind: str = "slurm"
    slurm: SlurmLauncher = field(default_factory=SlurmLauncher)
    prefix: str = field(default_factory=lambda: os.urandom(4).hex())
    folder: str = "/tmp"

    def submit(self, spec: JobSpec, name: str, since: datetime) -> str:
        self._enter("submit", name)
        job = self.slurm.submit(JobSpec(("sleep", "300"), self.folder), f"{self.prefix}-{name}", since)
        self.after("submit", name)
        return job

    def find(self, name: str, since: datetime) -> str | None:
        self._enter("find", name)
        found = self.slurm.find(f"{self.prefix}-{name}", since)
        self.after("find", name)
        return found

    def state(self, job: str) -> JobReport:
        self._enter("state", job)
        report = self.slurm.state(job)
        self.after("state", job)
        return report

    def cancel(self, job: str) -> None:
        self._enter("cancel", job)
        self.slurm.cancel(job)
        self.after("cancel", job)


def fail(scene: SupervisedScene) -> None:
    """The first job runs; training says that it failed, and its processes do not end."""
    scene.begin()
    watch = scene.watch()
    until(watch.tick, lambda outcome: outcome.record is not None and _state(scene) is JobState.RUNNING)
    scene.store.put_text(f"{RUN}/_error", "RuntimeError: NCCL error: unhandled system error")
    scene.store.pass_time(61)


def _state(scene: SupervisedScene) -> JobState | None:
    job = scene.record().job
    return None if job is None else job.state


def _is_restarted(scene: SupervisedScene) -> bool:
    found = scene.record()
    return found.job is not None and (found.job.number, found.job.state) == (1, JobState.RUNNING)


def deeds() -> list[int]:
    """The numbers of a restart's calls of a launcher that answers at once, without the looks that change nothing in
    Slurm. Unit tests die at each call, of the store too."""
    scene = SupervisedScene()
    fail(scene)
    scene.launcher.calls.clear()
    watch = scene.watch()
    for _ in range(4):
        watch.tick()
        scene.store.pass_time(3)
    return [number for number, (operation, _) in enumerate(scene.launcher.calls) if operation != "state"]


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("call", deeds())
def test_whoever_dies_there_is_one_more_job(conf: Path, tmp_path: Path, call: int, before: bool) -> None:
    launcher = RealLauncher(folder=str(tmp_path))
    scene = SupervisedScene(launcher=launcher)
    fail(scene)
    launcher.die_at(call, Killed, before=before)
    with pytest.raises(Killed):
        # Where Slurm is quick that call comes after the restart.
        until(lambda: _ticked(scene), lambda _: False)
    scene.heal()

    def again() -> bool:
        # Claims of the dead run out meanwhile.
        scene.store.pass_time(60)
        return _ticked(scene)

    until(again, bool)
    rows = ask(conf, "squeue", "-h", "--states=all", "-o", "%j|%T|%A").splitlines()
    mine = sorted(row.removeprefix(f"{launcher.prefix}-") for row in rows if row.startswith(launcher.prefix))
    assert [row.split("|")[:2] for row in mine] == [["run-r0", "CANCELLED"], ["run-r1", "RUNNING"]]
    first, second = (launcher.slurm.state(row.split("|")[2]) for row in mine)
    assert first.ended_at is not None
    assert second.started_at is not None
    assert first.ended_at <= second.started_at, "never two writers"
    assert len(scene.record().restarts) == 1


def _ticked(scene: SupervisedScene) -> bool:
    scene.watch().tick()
    scene.store.pass_time(3)
    return _is_restarted(scene)


KILLS = [("sbatch", "after"), ("scontrol", "before")]


@pytest.mark.parametrize(("command", "when"), KILLS)
def test_a_supervisor_that_is_killed_by_sigkill_at_a_call_of_slurms_loses_nothing(
    conf: Path, tmp_path: Path, command: str, when: str
) -> None:
    run_id = f"llama-{tmp_path.name[-12:]}"
    (tmp_path / "runs").mkdir()
    (tmp_path / "train.sbatch").write_text(SCRIPT, encoding="utf-8")
    armed, real = tmp_path / "armed", ask(conf, "sh", "-c", f"command -v {command}").strip()
    deed = f"rm {armed} 2>/dev/null && kill -9 $PPID"
    call = f'{real} "$@"'
    steps = (f"{deed} && exit 1", call) if when == "before" else (call, deed, "exit 0")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / command).write_text("\n".join(("#!/bin/sh", *steps, "")), encoding="utf-8")
    (tmp_path / "bin" / command).chmod(stat.S_IRWXU)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    options = ("--run-id", run_id, "--launcher", "slurm", "--policy", "megatron_transient", "--interval", "0.5")
    log = ("--log", f"{run_id}-r*.out")
    process = supervise(tmp_path, *options, *log, "--", "train.sbatch", "100", PATH=path)
    first = until(lambda: job_of(tmp_path, run_id), lambda job: job.get("state") == "RUNNING")["id"]
    armed.touch()
    ask(conf, "scancel", first)
    said, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == -signal.SIGKILL, said
    again = supervise(tmp_path, "--resume", run_id, "--interval", "0.5", PATH=path)
    until(lambda: job_of(tmp_path, run_id), lambda job: (job.get("number"), job.get("state")) == (1, "RUNNING"))
    again.send_signal(signal.SIGINT)
    again.communicate(timeout=LIMIT_S)
    # A job is said to run before its node has made the file.
    outputs = until(lambda: list(tmp_path.glob("llama-*.out")), lambda found: len(found) > 1)
    names = sorted(path.name.rpartition("-")[0] for path in outputs)
    assert names == [f"{run_id}-r0", f"{run_id}-r1"]
    assert len(record(tmp_path, run_id)["restarts"]) == 1
