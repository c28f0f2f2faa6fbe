"""``supervise`` with real processes: what a restart mends is restarted from its checkpoint, what it does not mend is
not, and a supervisor that dies loses nothing."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lastbeat.jobs.launchers.local import launcher as local
from lastbeat.model.job import JobState
from support import checkpoint_files as made
from support.cli import LASTBEAT, environment, popen
from support.supervised import NCCL, begun, in_background, record, settings, supervise
from support.waiting import LIMIT_S, until

TRAIN = """
import os, sys, time
number = int(os.environ["LASTBEAT_RESTART_COUNT"])
print("begun", number, os.environ.get("LASTBEAT_RESUME_STEP"), *sys.argv[2:], flush=True)
while os.path.exists("hold"):
    time.sleep(0.02)
first = int(os.environ.get("LASTBEAT_RESUME_STEP") or 10 * number)
for step in range(first + 1, first + 4):
    print(f"step {step}/100 loss 2.5", flush=True)
    time.sleep(0.05)
how = sys.argv[1] if number < int(sys.argv[2]) else "end"
if how == "hang":
    time.sleep(600)
if how == "linger":
    print("Traceback (most recent call last):\\n  File \\"train.py\\", line 9, in <module>", flush=True)
    print(sys.argv[3], flush=True)
    time.sleep(600)
if how != "end":
    print("Traceback (most recent call last):\\n  File \\"train.py\\", line 9, in <module>\\n" + how, flush=True)
    sys.exit(1)
"""
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB"
POLICY = ("--policy", "megatron_transient", "--interval", "0.3")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "runs").mkdir()
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    yield tmp_path
    launcher = local.launcher(tmp_path / "state")
    for number in range(6):
        launcher.cancel(f"run-r{number}")
        until(
            lambda number=number: launcher.state(f"run-r{number}").state,  # type: ignore[misc]
            # Of one that was never started nobody knows.
            lambda state: state.ended or state is JobState.UNKNOWN,
        )


def begin(*job: str, options: tuple[str, ...] = ()) -> tuple[str, ...]:
    return "supervise", "--run-id", "run", "--launcher", "local", *POLICY, *options, "--", *job


RESUME = ("restart", "run", "--interval", "0.3")


def under_way(folder: Path) -> None:
    """Wait until the job is recorded, and has said that it runs."""
    until(lambda: record(folder).get("job"))
    until(lambda: begun(folder))


def test_a_failure_that_a_restart_mends_is_restarted_from_the_last_complete_checkpoint(folder: Path) -> None:
    for step in (100, 200):
        (folder / "ckpt").mkdir(exist_ok=True)
        (folder / f"ckpt/step_{step}.pt").write_bytes(made.torch_file()[: 20 if step == 200 else None])
        os.utime(folder / f"ckpt/step_{step}.pt", (1_700_000_000, 1_700_000_000))
    job = ("python", "train.py", NCCL, "2", "--load={resume_from}")
    said = supervise(folder, *begin(*job, options=("--checkpoint-dir", "ckpt")))
    assert said.returncode == 0, said.stdout + said.stderr
    where = f"--load={folder}/ckpt/step_100.pt"
    assert begun(folder) == [f"begun {number} 100 2 {where}" for number in range(3)]
    found = record(folder)
    assert (found["status"], found["attempt"]["number"]) == ("SUCCEEDED", 3)
    last = {each["attempt"]: each["after"] for each in found["history"]}
    assert last == {1: "FAILED", 2: "FAILED", 3: "SUCCEEDED"}
    failed = [each["message"] for each in found["outbox"] if each["event"] == "FAILED"]
    assert [each["restart"] for each in failed] == [
        "restarting, attempt 1/3, from step 100",
        "restarting, attempt 2/3, from step 100",
    ]
    assert "Transient failure detected (error_type=nccl)" in said.stderr
    assert "Restarting, attempt 1/3: Transient failure detected (error_type=nccl), from step 100" in said.stdout
    assert "Not restarted" not in said.stdout, "after a success that is no news"
    shown = supervise(folder, "checkpoints", "--run-id", "run")
    assert (shown.returncode, "a restart would take step_100.pt (step 100)" in shown.stdout) == (0, True), shown.stderr


def test_a_failure_that_would_come_again_is_not_restarted(folder: Path) -> None:
    said = supervise(folder, *begin("python", "train.py", OOM, "9"))
    assert said.returncode == 2, said.stdout + said.stderr
    assert len(begun(folder)) == 1
    why = "Permanent failure detected (excluded error_type: oom)"
    assert f"Not restarted: {why}" in said.stdout
    (alert,) = [each["message"] for each in record(folder)["outbox"]]
    assert (alert["event"], alert["restart"]) == ("FAILED", f"not restarted: {why}")
    shown = supervise(folder, "show", "run")
    assert "  run-r0: local job run-r0, FAILED on " in shown.stdout
    assert "  Restart policy: megatron_transient; 0 restarts so far" in shown.stdout
    assert "  Budget left: crash 3 of 3, stall 2 of 2, timeout 1 of 1, 24 h 10 of 10" in shown.stdout
    assert f"not restarted: {why}" in shown.stdout
    told = json.loads(supervise(folder, "show", "run", "--json").stdout)["job"]
    assert (told["state"], told["ruling"]["action"]) == ("FAILED", "stop")


def test_of_two_supervisors_one_waits_and_takes_over_when_the_other_is_killed(folder: Path) -> None:
    first = in_background(folder, *begin("python", "train.py", "hang", "1"), LASTBEAT_STALL_MINUTES="0.05")
    under_way(folder)
    first.send_signal(signal.SIGSTOP)
    with (folder / "second.err").open("w") as err:
        env = environment(folder, **settings(folder), LASTBEAT_STALL_MINUTES="0.05")
        second = popen([*LASTBEAT, *RESUME], cwd=folder, env=env, stderr=err)
    said = until(
        lambda: (folder / "second.err").read_text(encoding="utf-8"), lambda text: "takes over when that one" in text
    )
    assert f"(process {first.pid})" in said
    first.kill()
    first.communicate()
    assert second.wait(LIMIT_S) == 0
    assert "is gone: this supervisor takes over" in (folder / "second.err").read_text(encoding="utf-8")
    assert len(begun(folder)) == 2
    assert record(folder)["seat"] is None


def test_a_sweep_records_a_failure_and_an_agent_decides_about_the_restart(folder: Path) -> None:
    # Whoever submits looks until the job is there: of one that died by then it would decide itself.
    (folder / "hold").touch()
    said = supervise(folder, *begin("python", "train.py", NCCL, "1", options=("--submit-only",)))
    assert said.returncode == 0, said.stderr
    (folder / "hold").unlink()
    launcher = local.launcher(folder / "state")
    until(lambda: launcher.state("run-r0").state, lambda state: state.ended)
    swept = supervise(folder, "sweep", "--once")
    found = record(folder)
    assert (found["status"], found["ruling"]) == ("FAILED", None), swept.stdout + swept.stderr
    assert [each["name"] for each in found["actions"] if each["done_at"] is None] == []
    (message,) = (each["message"] for each in found["outbox"] if each["event"] == "FAILED")
    assert message["restart"].endswith("decides; if none runs: lastbeat restart run")
    process = in_background(folder, "restart", "agent", "--launcher", "local", "--interval", "0.3")
    until(lambda: record(folder)["status"], lambda status: status == "SUCCEEDED")
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, "run: SUCCEEDED" in told) == (0, True), told
    assert len(begun(folder)) == 2
    notes = [each["message"]["restart"] for each in record(folder)["outbox"] if each["event"] == "FAILED"]
    assert [note.split(",")[0] for note in notes[1:]] == ["restarting"]


def test_a_process_that_somebody_else_started_is_adopted_and_started_again_when_it_dies(folder: Path) -> None:
    (folder / "runs/run").mkdir()
    (folder / "runs/run/_error").write_text("RuntimeError: of an earlier life")
    os.utime(folder / "runs/run/_error", (1_700_000_000, 1_700_000_000))
    env = {**environment(folder, **settings(folder)), "LASTBEAT_RESTART_COUNT": "0"}
    with (folder / "own.log").open("w") as log:
        process = subprocess.Popen(["python3", "train.py", "hang", "1"], cwd=folder, env=env, stdout=log)
    adopts = ("--adopt", str(process.pid), "--policy", "default", "--interval", "0.3")
    command = ("supervise", "--run-id", "run", "--launcher", "local", *adopts)
    refused = supervise(folder, *command)
    assert "it is unknown what would start run again" in refused.stderr
    supervisor = in_background(folder, *command, "--", "python", "train.py", "end", "0")
    until(lambda: record(folder).get("job"))
    adopted = record(folder)
    assert (adopted["status"], adopted["job"]["name"]) == ("RUNNING", "run-r0")
    assert adopted["supervision"]["logs"] == [f"{folder}/own.log"]
    process.kill()
    process.wait()
    told, _ = supervisor.communicate(timeout=LIMIT_S)
    assert supervisor.returncode == 0, told
    assert "no process collected its exit status" in told
    assert [line.split()[:2] for line in begun(folder)] == [["begun", "1"]]
    gone = supervise(folder, *command, "--", "true")
    assert (gone.returncode, f"there is no process {process.pid}" in gone.stderr) == (3, True)


def test_a_job_has_the_environment_in_which_the_run_was_begun_whoever_goes_on_with_it(folder: Path) -> None:
    script = (
        'echo "begun $LASTBEAT_RESTART_COUNT ${SECRET_TOKEN-none} ${LATER-none}"; '
        "until [ -e go ]; do sleep 0.1; done; test $LASTBEAT_RESTART_COUNT = 1"
    )
    default = ("supervise", "--run-id", "run", "--launcher", "local", "--policy", "default", "--interval", "0.3")
    first = supervise(folder, *default, "--submit-only", "--", "sh", "-c", script, SECRET_TOKEN="s3cr3t-of-hers")
    assert first.returncode == 0, first.stderr
    (kept,) = (folder / "state/environments").iterdir()
    assert kept.stat().st_mode & 0o077 == 0
    refused = supervise(folder, *default, "--", "true", SECRET_TOKEN="of somebody who begins it once more")
    assert (refused.returncode, "run has a job already" in refused.stderr) == (3, True)
    (folder / "go").touch()
    said = supervise(folder, *RESUME, LATER="x", SECRET_TOKEN="another")
    assert said.returncode == 0, said.stdout + said.stderr
    assert begun(folder) == ["begun 0 s3cr3t-of-hers none", "begun 1 s3cr3t-of-hers none"]
    found = record(folder)
    assert "s3cr3t" not in json.dumps([found["supervision"], found["actions"], found["job"]])
    assert list((folder / "state/environments").iterdir()) == [], "nothing is kept of a run that is over"


def pressed(folder: Path, *options: str, times: int = 1) -> tuple[int, str]:
    """Exit status and output of a supervisor on a terminal of its own, on which somebody presses Ctrl-C."""
    command = begin("python", "train.py", "hang", "1", options=options)
    pid, terminal = os.forkpty()
    if not pid:
        os.chdir(folder)
        os.execvpe(LASTBEAT[0], [*LASTBEAT, *command], environment(folder, **settings(folder)))
    under_way(folder)
    said = b""
    for _ in range(times):
        os.write(terminal, b"\x03")
    with suppress(OSError):
        while chunk := os.read(terminal, 4096):
            said += chunk
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), said.decode(errors="replace")


def test_ctrl_c_on_a_terminal_reaches_the_supervisor_alone(folder: Path) -> None:
    status, said = pressed(folder)
    assert (status, "job run-r0 goes on" in said) == (3, True), said
    assert local.launcher(folder / "state").state("run-r0").state is JobState.RUNNING
    assert record(folder)["seat"] is None


def test_a_second_ctrl_c_ends_the_supervisor_at_once_and_harms_nothing(folder: Path) -> None:
    status, _ = pressed(folder, times=2)
    assert status in {3, -signal.SIGINT, 130}
    assert local.launcher(folder / "state").state("run-r0").state is JobState.RUNNING
    said = supervise(folder, *RESUME, LASTBEAT_STALL_MINUTES="0.05")
    assert (said.returncode, len(begun(folder))) == (0, 2), said.stderr


def test_ctrl_c_ends_the_job_where_that_was_asked_for(folder: Path) -> None:
    status, said = pressed(folder, "--cancel-on-exit")
    assert "job run-r0 is being ended" in said
    until(lambda: local.launcher(folder / "state").state("run-r0").state, lambda state: state is JobState.CANCELLED)
    assert status == 3
    later = supervise(folder, *RESUME)
    assert (later.returncode, len(begun(folder))) == (2, 1), "what a person ended is not undone"
    assert "Run run: CANCELLED\nDetail: Stopped by " in later.stdout


@pytest.mark.parametrize("ends", [False, True], ids=["left alone", "ended, too"])
def test_ctrl_c_while_a_restart_waits_for_its_time(folder: Path, ends: bool) -> None:
    command = begin("python", "train.py", NCCL, "1", options=("--cancel-on-exit",) if ends else ())
    process = in_background(folder, *command, LASTBEAT_RESTART_DELAY_SECONDS="100000")
    until(lambda: record(folder).get("ruling"))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 3, said
    if not ends:
        assert "job run-r1 is to start at 20" in said
        assert "lastbeat restart run goes on with it; lastbeat stop run calls it off" in said
        assert not record(folder)["actions"][-1].get("done_at")
        return
    assert "job run-r1 is called off; no restart policy undoes that" in said
    later = supervise(folder, *RESUME)
    assert (later.returncode, len(begun(folder))) == (2, 1)
    assert "what a person ended is not restarted" in later.stdout


def test_a_job_that_failed_and_is_kept_can_be_stopped_and_its_run_is_not_forgotten_before(folder: Path) -> None:
    command = begin("python", "train.py", "linger", "9", OOM, options=("--on-permanent", "leave"))
    process = in_background(folder, *command)
    under_way(folder)
    until(lambda: record(folder).get("status") == "FAILED")
    kept = supervise(folder, "forget", "run", "--yes")
    assert (kept.returncode, "job run-r0 still runs" in kept.stderr) == (3, True), kept
    said = supervise(folder, "stop", "run")
    assert (said.returncode, "job run-r0 is being ended" in said.stdout) == (0, True), said
    process.communicate(timeout=LIMIT_S)
    assert local.launcher(folder / "state").state("run-r0").state.ended
    assert "is over: it is" in supervise(folder, "stop", "run").stderr
    assert supervise(folder, "forget", "run", "--yes").returncode == 0


def test_what_a_dry_run_prints_can_be_fed_back_and_gives_the_same_plan(folder: Path) -> None:
    (folder / "mine.yaml").write_text(
        "policies:\n  - mode: crash\n    implementation: {class_name: AlwaysRestartPolicy, max_retries: 1}\n"
    )
    (folder / "asked.yaml").write_text(
        "run_id: run!\nlauncher: local\npolicy: mine.yaml\ncommand: [python, train.py, 'exit status 1', '1']\n"
        "environment: {OMP_NUM_THREADS: 2}\nlimits: {stale_minutes: 7, inactivity_minutes: 9}\n"
        "interval_seconds: 0.3\nrestart_delay_seconds: 0\nlogs: ['logs/a, b.log']\n"
    )
    asked = supervise(folder, "supervise", "--config", "asked.yaml", "--launcher", "local", "--dry-run", "--json")
    assert asked.returncode == 0, asked.stderr
    assert "lastbeat calls this run run" in asked.stderr
    (folder / "again.yaml").write_text(asked.stdout)
    again = supervise(folder, "supervise", "--config", "again.yaml", "--dry-run", "--json")
    assert (again.stdout, again.returncode) == (asked.stdout, 0), again.stderr
    plan = json.loads(asked.stdout)
    assert plan["logs"] == [f"{folder}/logs/a, b.log"]
    assert plan["plan"]["budgets"][0] == {"name": "crash", "used": 0, "limit": 1}
    done = supervise(
        folder, "supervise", "--config", "again.yaml", "--run-id", "run", "--", "python", "train.py", "x", "1"
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert "the command wins over command in again.yaml" in done.stderr
    assert len(begun(folder)) == 2
    resumed = supervise(folder, "restart", "run", "--dry-run")
    assert "Budgets: crash 1/1" in resumed.stdout, resumed.stderr
    kept = record(folder)["supervision"]
    assert (kept["interval_s"], kept["inactivity_minutes"], kept["policy_name"]) == (0.3, 9.0, "mine")
    assert kept["spec"]["environment"] == {"OMP_NUM_THREADS": "2"}


def test_a_fleet_root_that_is_missing_is_made_for_a_run_that_begins(folder: Path) -> None:
    missing = folder / "new" / "runs"
    assert supervise(folder, "restart", "run", MONITORING_ROOT=str(missing)).returncode == 3
    assert not missing.exists(), "a run that is to go on is in another one"
    done = supervise(folder, *begin("true"), MONITORING_ROOT=str(missing))
    assert done.returncode == 0, done.stderr
    assert (missing / "run/_watchdog.json").exists()
    refused = supervise(folder, *begin("true"), MONITORING_ROOT=str(folder / "train.py" / "runs"))
    assert (refused.returncode, "train.py/runs cannot be made: Not a directory" in refused.stderr) == (3, True)


def test_a_state_directory_that_cannot_be_used_is_refused_at_once(folder: Path) -> None:
    (folder / "file").write_text("", encoding="utf-8")
    done = supervise(folder, *begin("true"), LASTBEAT_STATE_DIR=str(folder / "file" / "state"))
    assert done.returncode == 3, done.stdout
    assert f"{folder / 'file'} is no folder" in done.stderr
    assert "set LASTBEAT_STATE_DIR to a folder that you may write to" in done.stderr


SAVES = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from support import checkpoint_files as made
for step in (100, 200):
    print(f"step {step}/200 loss 2.5", flush=True)
    for name, body in made.huggingface(step).items():
        os.makedirs(f"ckpt/checkpoint-{step}", exist_ok=True)
        with open(f"ckpt/checkpoint-{step}/{name}", "wb") as file:
            file.write(body)
"""
ON = """
policies: [{mode: success, implementation: {class_name: NoRestartPolicy}}]
on:
  checkpoint_saved:
    - command: [sh, -c, 'echo "$0 $1 $LASTBEAT_RUN_ID" >> evaluated; exit $1', '{step}', '0']
    - command: [sh, -c, 'echo trouble; exit 3', '{checkpoint}']
  started: {note: 'job {job_id} of {run_id} runs'}
"""


def test_each_checkpoint_is_evaluated_and_what_failed_is_told(folder: Path) -> None:
    (folder / "saves.py").write_text(SAVES, encoding="utf-8")
    (folder / "own.yaml").write_text(ON, encoding="utf-8")
    (folder / "ckpt").mkdir()
    job = ("--checkpoint-dir", "ckpt", "--policy", "own.yaml", "--interval", "0.3", "--")
    tests = str(Path(__file__).parents[1])
    said = supervise(folder, "supervise", "--run-id", "run", "--launcher", "local", *job, "python", "saves.py", tests)
    assert said.returncode == 0, said.stdout + said.stderr
    evaluated = (folder / "evaluated").read_text(encoding="utf-8").splitlines()
    assert sorted(evaluated) == ["100 0 ", "200 0 "], "once each, and not as if they were the run"
    found = record(folder)["reactions"]
    assert [each["text"] for each in found["notes"]] == ["job run-r0 of run runs"]
    ended = {each["name"]: each["how"] for each in found["commands"]}
    assert ended == {
        "command-checkpoint-100": "done",
        "command-checkpoint-100-2": "exit status 3",
        "command-checkpoint-200": "done",
        "command-checkpoint-200-2": "exit status 3",
    }
    kept = folder / "runs/run/commands/command-checkpoint-100-2.log"
    assert kept.read_text(encoding="utf-8") == "trouble\n"
    shown = " ".join(supervise(folder, "show", "run").stdout.split())
    assert "on started: job run-r0 of run runs" in shown
    assert "command-checkpoint-100-2: exit status 3, " in shown
    assert "output: commands/command-checkpoint-100-2.log" in shown


def test_a_checkpoint_on_which_attempts_die_is_passed_over(folder: Path) -> None:
    for step in (100, 200):
        for name, body in made.huggingface(step).items():
            (folder / f"ckpt/checkpoint-{step}").mkdir(parents=True, exist_ok=True)
            (folder / f"ckpt/checkpoint-{step}/{name}").write_bytes(body)
    loads = "import os, sys; step = os.environ['LASTBEAT_RESUME_STEP']; print('begun', step); sys.exit(step == '200')"
    where = ("--launcher", "local", "--policy", "default", "--checkpoint-dir", "ckpt", "--interval", "0.3")
    said = supervise(folder, "supervise", "--run-id", "run", *where, "--", "python", "-c", loads)
    assert said.returncode == 0, said.stdout + said.stderr
    assert begun(folder) == ["begun 200", "begun 200", "begun 100"]
    told = [each["message"]["restart"] for each in record(folder)["outbox"] if each["event"] == "FAILED"]
    why = "checkpoint-200: 2 attempts died on it before their first step"
    assert told[1] == f"restarting, attempt 2/2, from step 100 (not from {why})"
    shown = supervise(folder, "checkpoints", "--run-id", "run")
    assert "quarantined: 2 attempts died on it before their first step" in shown.stdout
