"""Slurm, asked while it is well and while it is not, and supervised runs on it."""

import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from lastbeat.jobs.launchers.port import JobRefusedError
from lastbeat.jobs.launchers.slurm import launcher as launchers
from lastbeat.jobs.launchers.slurm.launcher import SlurmLauncher
from lastbeat.model.job import JobReport, JobSpec, JobState
from support.cli import LASTBEAT, environment, popen
from support.slurm import ask
from support.supervised import record
from support.waiting import LIMIT_S, until

SINCE = datetime.now(timezone.utc) - timedelta(minutes=1)


@pytest.fixture
def conf(slurm_conf: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("SLURM_CONF", str(slurm_conf))
    yield slurm_conf
    ask(slurm_conf, "scancel", "--me")
    until(lambda: ask(slurm_conf, "squeue", "-h"), lambda left: not left.strip())


@pytest.fixture
def launcher(conf: Path, tmp_path: Path) -> SlurmLauncher:
    return launchers.launcher(tmp_path)


def ended(launcher: SlurmLauncher, job: str) -> JobReport:
    return until(lambda: launcher.state(job), lambda report: report.state.ended)


def test_a_job_that_waits_says_why(launcher: SlurmLauncher, tmp_path: Path) -> None:
    spec = JobSpec(("sleep", "300"), str(tmp_path), options=("--nodes=1", "--exclusive"))
    jobs = [launcher.submit(spec, f"{tmp_path.name}-{number}-r0", SINCE) for number in range(4)]
    reports = until(
        lambda: [launcher.state(job) for job in jobs],
        lambda found: sum(each.state is JobState.RUNNING for each in found) == 3 and found[3].reason,
    )
    assert (reports[3].state, reports[3].reason in {"Resources", "Priority"}) == (JobState.PENDING, True)
    assert sorted(node for each in reports for node in each.nodes) == ["n1", "n2", "n3"]


def test_a_node_is_left_out(launcher: SlurmLauncher, tmp_path: Path) -> None:
    spec = JobSpec(("true",), str(tmp_path), excluded_nodes=("n1", "n2"))
    assert ended(launcher, launcher.submit(spec, f"{tmp_path.name}-r0", SINCE)).nodes == ("n3",)


@pytest.mark.parametrize(("script", "said"), [("job.sh", "nvalid partition"), ("jbo.sh", r"jbo\.sh: No such file")])
def test_what_cannot_be_submitted_is_refused_with_its_reason(
    launcher: SlurmLauncher, tmp_path: Path, script: str, said: str
) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    spec = JobSpec((script,), str(tmp_path), options=("--partition=nowhere",))
    with pytest.raises(JobRefusedError, match=said):
        launcher.submit(spec, f"{tmp_path.name}-r0", SINCE)


def supervise(folder: Path, *arguments: str, **more: str) -> "subprocess.Popen[str]":
    settings = {
        "SLURM_CONF": os.environ["SLURM_CONF"],
        "LASTBEAT_STATE_DIR": str(folder / "state"),
        "LASTBEAT_RESTART_DELAY_SECONDS": "0",
        "MONITORING_ROOT": str(folder / "runs"),
        **more,
    }
    command = [*LASTBEAT, "supervise", *arguments]
    return popen(
        command,
        cwd=folder,
        env=environment(folder, **settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def job_of(folder: Path, run_id: str) -> dict[str, Any]:
    return record(folder, run_id).get("job") or {}


def test_a_job_of_which_nobody_said_where_its_log_is_has_its_output_read(conf: Path, tmp_path: Path) -> None:
    run_id = f"llama-{tmp_path.name[-12:]}"
    (tmp_path / "runs").mkdir()
    line = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1331, unhandled system error"
    # Slurm's own choice: slurm-%j.out in the folder in which it was submitted.
    script = f"#!/bin/sh\necho 'step 7/9 loss 2.5'\n[ $LASTBEAT_RESTART_COUNT = 1 ] && exit 0\necho '{line}'\nexit 1\n"
    (tmp_path / "train.sbatch").write_text(script, encoding="utf-8")
    options = ("--run-id", run_id, "--launcher", "slurm", "--policy", "megatron_transient", "--interval", "0.5")
    process = supervise(tmp_path, *options, "--", "train.sbatch")
    said, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, said
    assert "Transient failure detected (error_type=nccl)" in said
    assert record(tmp_path, run_id)["restarts"][0]["error_type"] == "nccl"


ADOPTED = """\
#!/bin/sh
#SBATCH --time=10
echo "begun as ${LASTBEAT_ATTEMPT:-nothing}"
[ "$LASTBEAT_ATTEMPT" = 2 ] && { echo "training is done"; exit 0; }
step=0
while true; do step=$((step + 1)); echo "step $step/1000 loss 2.5"; sleep 0.2; done
"""


def test_a_job_that_somebody_else_submitted_is_adopted_with_its_log_and_its_script(conf: Path, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    script = tmp_path / "train.sh"
    script.write_text(ADOPTED, encoding="utf-8")
    job = ask(
        conf, "sbatch", "--parsable", f"--chdir={tmp_path}", "--output=own-%j.out", "--nodes=1", str(script)
    ).strip()
    # What was submitted counts, not what the file says now.
    script.write_text("#!/bin/sh\nexit 9\n", encoding="utf-8")
    options = ("--run-id", "run", "--launcher", "slurm", "--policy", "default", "--interval", "1", "--adopt")
    arrays = ask(conf, "sbatch", "--parsable", f"--chdir={tmp_path}", "--array=1-2", "--wrap=sleep 60").strip()
    refused = supervise(tmp_path, *options, f"{arrays}_1")
    said, _ = refused.communicate(timeout=LIMIT_S)
    assert (refused.returncode, "a task of one" in said) == (3, True), said
    supervisor = supervise(tmp_path, *options, job)
    until(lambda: job_of(tmp_path, "run"), lambda job: job.get("state") == "RUNNING")
    assert record(tmp_path, "run")["supervision"]["logs"] == [f"{tmp_path}/own-{job}.out"]
    ask(conf, "scancel", job)
    said, _ = supervisor.communicate(timeout=LIMIT_S)
    assert supervisor.returncode == 0, said
    found = record(tmp_path, "run")
    assert (found["status"], found["attempt"]["number"], found["job"]["name"]) == ("SUCCEEDED", 2, "run-r1")
    assert "--nodes=1" in found["supervision"]["spec"]["options"]


TRAIN = """\
#!/bin/sh
#SBATCH --output=%x-%j.out
while :; do echo "step $((step += 1))/1000 loss 2.5"; sleep 0.2; done
"""


@pytest.mark.parametrize(("command", "when"), [("sbatch", "after"), ("scontrol", "before")])
def test_a_supervisor_that_is_killed_by_sigkill_at_a_call_of_slurms_loses_nothing(
    conf: Path, tmp_path: Path, command: str, when: str
) -> None:
    run_id = f"llama-{tmp_path.name[-12:]}"
    (tmp_path / "runs").mkdir()
    (tmp_path / "train.sbatch").write_text(TRAIN, encoding="utf-8")
    armed, real = tmp_path / "armed", ask(conf, "sh", "-c", f"command -v {command}").strip()
    deed = f"rm {armed} 2>/dev/null && kill -9 $PPID"
    call = f'{real} "$@"'
    steps = (f"{deed} && exit 1", call) if when == "before" else (call, deed, "exit 0")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / command).write_text("\n".join(("#!/bin/sh", *steps, "")), encoding="utf-8")
    (tmp_path / "bin" / command).chmod(stat.S_IRWXU)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    options = ("--run-id", run_id, "--launcher", "slurm", "--policy", "megatron_transient", "--interval", "0.5")
    process = supervise(tmp_path, *options, "--log", f"{run_id}-r*.out", "--", "train.sbatch", PATH=path)
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
    assert sorted(path.name.rpartition("-")[0] for path in outputs) == [f"{run_id}-r0", f"{run_id}-r1"]
    assert len(record(tmp_path, run_id)["restarts"]) == 1
