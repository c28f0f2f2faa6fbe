"""Slurm, asked while it is well and while it is not, and supervised runs on it."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from lastbeat.jobs.launchers.port import JobRefusedError, LauncherError
from lastbeat.jobs.launchers.slurm import launcher as launchers
from lastbeat.jobs.launchers.slurm.launcher import SlurmLauncher
from lastbeat.model.job import JobReport, JobSpec, JobState
from support.cli import LASTBEAT, environment
from support.slurm import ask, suspended
from support.waiting import until

SINCE = datetime.now(timezone.utc) - timedelta(minutes=1)
SCRIPT = """\
#!/bin/sh
#SBATCH --output=%x-%j.out
echo "begun $LASTBEAT_RESTART_COUNT in $PWD"
step=0
while [ $step -lt ${1:-1000} ]; do step=$((step + 1)); echo "step $step/1000 loss 2.5"; sleep 0.2; done
echo "training is done"
"""


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


@pytest.mark.parametrize(
    ("options", "script", "said"),
    [
        (("--partition=nowhere",), SCRIPT, "nvalid partition"),
        (("--array=1-3",), SCRIPT, "an array is several jobs"),
        ((), "#!/bin/sh\n#SBATCH --array=1-3\n", "job.sh: an array is several jobs"),
        ((), "#!/bin/sh\n#SBATCH hetjob\n", "heterogeneous"),
    ],
)
def test_what_slurm_or_lastbeat_refuses_is_refused_with_its_reason(
    launcher: SlurmLauncher, tmp_path: Path, options: tuple[str, ...], script: str, said: str
) -> None:
    (tmp_path / "job.sh").write_text(script, encoding="utf-8")
    with pytest.raises(JobRefusedError, match=said):
        launcher.submit(JobSpec(("job.sh",), str(tmp_path), options=options), f"{tmp_path.name}-r0", SINCE)


def test_a_batch_script_that_is_not_there_is_refused(launcher: SlurmLauncher, tmp_path: Path) -> None:
    with pytest.raises(JobRefusedError, match=r"trian\.sbatch: No such file"):
        launcher.submit(JobSpec(("trian.sbatch",), str(tmp_path)), f"{tmp_path.name}-r0", SINCE)


def test_a_controller_that_is_away_is_unknown_and_nothing_else(
    launcher: SlurmLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = launcher.submit(JobSpec(("sleep", "300"), str(tmp_path)), f"{tmp_path.name}-r0", SINCE)
    there = os.environ["SLURM_CONF"]
    away = tmp_path / "slurm.conf"
    text = Path(there).read_text(encoding="utf-8")
    # A port at which nobody listens.
    away.write_text("\n".join("SlurmctldPort=9" if "SlurmctldPort" in line else line for line in text.splitlines()))
    monkeypatch.setenv("SLURM_CONF", str(away))
    report = launcher.state(job)
    assert (report.state, "ontact" in report.reason or "did not answer" in report.reason) == (JobState.UNKNOWN, True)
    with pytest.raises(LauncherError, match=r"ontact|did not answer"):
        launcher.submit(JobSpec(("true",), str(tmp_path)), f"{tmp_path.name}-r1", SINCE)
    monkeypatch.setenv("SLURM_CONF", there)
    assert launcher.state(job).state in {JobState.PENDING, JobState.RUNNING}


def supervise(folder: Path, *arguments: str, **more: str) -> "subprocess.Popen[str]":
    settings = {
        "SLURM_CONF": os.environ["SLURM_CONF"],
        "LASTBEAT_STATE_DIR": str(folder / "state"),
        "LASTBEAT_RESTART_DELAY_SECONDS": "0",
        "MONITORING_ROOT": str(folder / "runs"),
        **more,
    }
    command = [*LASTBEAT, "supervise", *arguments]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment(folder, **settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def record(folder: Path, run_id: str) -> dict[str, Any]:
    path = folder / "runs" / run_id / "_watchdog.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def job_of(folder: Path, run_id: str) -> dict[str, Any]:
    return record(folder, run_id).get("job") or {}


def test_a_job_that_is_cancelled_is_submitted_again_and_runs_to_its_end(conf: Path, tmp_path: Path) -> None:
    run_id = f"llama-{tmp_path.name[-12:]}"
    (tmp_path / "runs").mkdir()
    (tmp_path / "train.sbatch").write_text(SCRIPT, encoding="utf-8")
    log = f"{run_id}-r*.out"
    options = ("--run-id", run_id, "--launcher", "slurm", "--policy", "megatron_transient", "--interval", "0.5")
    process = supervise(tmp_path, *options, "--log", log, "--", "train.sbatch", "25")
    first = until(lambda: job_of(tmp_path, run_id), lambda job: job.get("state") == "RUNNING")["id"]
    assert ask(conf, "scancel", first) == ""
    second = until(lambda: job_of(tmp_path, run_id), lambda job: job.get("number") == 1)["id"]
    assert second != first
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert "Transient failure detected (error_type=cancelled)" in said
    found = record(tmp_path, run_id)
    assert (found["status"], found["restarts"][0]["error_type"]) == ("SUCCEEDED", "cancelled")
    assert len(list(tmp_path.glob(log))) == 2


def test_a_job_of_which_nobody_said_where_its_log_is_has_its_output_read(conf: Path, tmp_path: Path) -> None:
    run_id = f"llama-{tmp_path.name[-12:]}"
    (tmp_path / "runs").mkdir()
    line = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1331, unhandled system error"
    # Slurm's own choice: slurm-%j.out in the folder in which it was submitted.
    script = f"#!/bin/sh\necho 'step 7/9 loss 2.5'\n[ $LASTBEAT_RESTART_COUNT = 1 ] && exit 0\necho '{line}'\nexit 1\n"
    (tmp_path / "train.sbatch").write_text(script, encoding="utf-8")
    options = ("--run-id", run_id, "--launcher", "slurm", "--policy", "megatron_transient", "--interval", "0.5")
    process = supervise(tmp_path, *options, "--", "train.sbatch")
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert "Transient failure detected (error_type=nccl)" in said
    assert record(tmp_path, run_id)["restarts"][0]["error_type"] == "nccl"


def test_a_controller_that_is_away_for_a_while_changes_nothing_for_a_supervised_run(conf: Path, tmp_path: Path) -> None:
    run_id = f"llama-{tmp_path.name[-12:]}"
    (tmp_path / "runs").mkdir()
    (tmp_path / "train.sbatch").write_text(SCRIPT, encoding="utf-8")
    options = ("--run-id", run_id, "--launcher", "slurm", "--policy", "megatron_aggressive", "--interval", "0.5")
    process = supervise(tmp_path, *options, "--log", f"{run_id}-r*.out", "--", "train.sbatch", "75")
    until(lambda: job_of(tmp_path, run_id), lambda job: job.get("state") == "RUNNING")
    assert process.stdout is not None
    output = process.stdout.fileno()
    with suspended(conf, "slurmctld"):
        # Its own commands give up after some seconds.
        said = until(lambda: os.read(output, 65536).decode(), lambda text: "UNKNOWN" in text)
    rest, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said + rest
    found = record(tmp_path, run_id)
    assert (found["status"], found["restarts"], found["job"]["number"]) == ("SUCCEEDED", [], 0)
    assert [each["event"] for each in found["outbox"]] == ["SUCCEEDED"]


def test_a_supervisor_that_is_killed_leaves_one_job_which_another_takes_up(conf: Path, tmp_path: Path) -> None:
    run_id = f"llama-{tmp_path.name[-12:]}"
    (tmp_path / "runs").mkdir()
    (tmp_path / "train.sbatch").write_text(SCRIPT, encoding="utf-8")
    options = ("--run-id", run_id, "--launcher", "slurm", "--interval", "0.5")
    process = supervise(tmp_path, *options, "--", "train.sbatch", "40")
    until(lambda: ask(conf, "squeue", "-h", "-o", "%j"), lambda jobs: run_id in jobs)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    again = supervise(tmp_path, "--resume", run_id, "--interval", "0.5")
    said, _ = again.communicate(timeout=120)
    assert again.returncode == 0, said
    assert [path.name.startswith(f"{run_id}-r0-") for path in tmp_path.glob("llama-*.out")] == [True]


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
    env = environment(
        tmp_path,
        MONITORING_ROOT=str(tmp_path / "runs"),
        LASTBEAT_STATE_DIR=str(tmp_path / "state"),
        LASTBEAT_RESTART_DELAY_SECONDS="0",
        SLURM_CONF=str(conf),
    )
    command = [
        *LASTBEAT,
        "supervise",
        "--run-id",
        "run",
        "--launcher",
        "slurm",
        "--policy",
        "default",
        "--interval",
        "1",
    ]
    arrays = ask(conf, "sbatch", "--parsable", f"--chdir={tmp_path}", "--array=1-2", "--wrap=sleep 60").strip()
    refused = subprocess.run(
        [*command, "--adopt", f"{arrays}_1"], check=False, cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert (refused.returncode, "a task of one" in refused.stderr) == (3, True), refused.stderr
    supervisor = subprocess.Popen([*command, "--adopt", job], cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
    recorded = tmp_path / "runs/run/_watchdog.json"

    def record() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(recorded.read_text(encoding="utf-8")) if recorded.exists() else {}
        return found

    until(record, lambda found: (found.get("job") or {}).get("state") == "RUNNING")
    assert record()["supervision"]["logs"] == [f"{tmp_path}/own-{job}.out"]
    ask(conf, "scancel", job)
    told, _ = supervisor.communicate(timeout=150)
    assert supervisor.returncode == 0, told
    found = record()
    assert (found["status"], found["attempt"]["number"], found["job"]["name"]) == ("SUCCEEDED", 2, "run-r1")
    assert "--nodes=1" in found["supervision"]["spec"]["options"]


def test_an_agent_looks_after_what_was_only_submitted(conf: Path, tmp_path: Path) -> None:
    run_id = f"llama-{tmp_path.name[-12:]}"
    (tmp_path / "runs").mkdir()
    (tmp_path / "train.sbatch").write_text(SCRIPT, encoding="utf-8")
    options = ("--run-id", run_id, "--launcher", "slurm", "--policy", "megatron_transient", "--interval", "0.5")
    begun = supervise(tmp_path, *options, "--submit-only", "--", "train.sbatch", "25")
    said, _ = begun.communicate(timeout=60)
    assert begun.returncode == 0, said
    agent = supervise(tmp_path, "--agent", "--launcher", "slurm", "--interval", "0.5")
    try:
        first = until(lambda: job_of(tmp_path, run_id), lambda job: job.get("state") == "RUNNING")["id"]
        assert ask(conf, "scancel", first) == ""
        until(lambda: record(tmp_path, run_id).get("status"), lambda status: status == "SUCCEEDED")
    finally:
        agent.send_signal(signal.SIGINT)
        said, _ = agent.communicate(timeout=60)
    found = record(tmp_path, run_id)
    assert [each["error_type"] for each in found["restarts"]] == ["cancelled"], said
    assert (found["job"]["number"], found["attempt"]["number"]) == (1, 2)
