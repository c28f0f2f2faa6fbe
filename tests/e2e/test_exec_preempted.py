"""``lastbeat exec`` around programs that are told to stop, and end early."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.cli import LASTBEAT, call, popen
from support.cloud import fake_cloud
from support.training import end
from support.waiting import LIMIT_S, until
from support.wrapped import RUN_ID, exec_command, left, python, settings, watched

SAVES = """
import signal, sys, time
def save(number, frame):
    print("saved after signal", number, flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
signal.signal(signal.SIGUSR1, save)
print("step 1/9 loss 2.5", flush=True)
while True: time.sleep(0.05)
"""


@contextmanager
def started(
    folder: Path, *command: str, options: tuple[str, ...] = (), **env: str
) -> "Iterator[subprocess.Popen[str]]":
    """``exec`` around a command that has made its step."""
    with (folder / "said").open("a") as said:
        process = popen(
            exec_command(*command, options=options),
            cwd=folder,
            env=settings(folder, **env),
            stdin=subprocess.DEVNULL,
            stdout=said,
            text=True,
        )
    try:
        until(lambda: left(folder, "progress.json"))
        yield process
    finally:
        end(process)


def beats(folder: Path, count: int = 4) -> None:
    """Wait until metadata.json was written so often again."""
    for _ in range(count):
        before = left(folder, "metadata.json")
        until(lambda: left(folder, "metadata.json"), lambda text, before=before: text != before)  # type: ignore[misc]


def test_before_the_end_of_its_slurm_job_it_is_told_and_says_that_it_was_preempted(tmp_path: Path) -> None:
    ends = str(int(time.time()) + 1004)
    slurm = {"SLURM_JOB_END_TIME": ends, "LASTBEAT_EXIT_SIGNAL": "SIGUSR1"}
    with started(tmp_path, *python(SAVES), options=("--time-margin", "1000"), **slurm) as process:
        assert process.wait(LIMIT_S) == 0
        assert "saved after signal 10" in (tmp_path / "said").read_text()
    said = watched(tmp_path)
    assert said["status"] == "PREEMPTED"
    assert said["reason"] == "PREEMPTED; no checkpoint is named; 16m 40s before the time limit of its Slurm job"


def test_a_margin_that_nobody_asked_for_is_none(tmp_path: Path) -> None:
    with started(tmp_path, *python(SAVES), SLURM_JOB_END_TIME=str(int(time.time()) - 10)) as process:
        beats(tmp_path)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    assert watched(tmp_path)["status"] == "FAILED", "it was told to end, and said nothing of a checkpoint"


SPOT = "/latest/meta-data/spot/instance-action"
NOTICE = '{"action": "terminate", "time": "2026-08-01T10:00:00Z"}'


@pytest.mark.parametrize("signal_named", [True, False])
def test_a_clouds_notice_reaches_only_a_program_whose_signal_is_named(tmp_path: Path, signal_named: bool) -> None:
    with fake_cloud() as cloud:
        where = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": cloud.address, "AWS_EC2_METADATA_DISABLED": "false"}
        named = {"LASTBEAT_EXIT_SIGNAL": "SIGUSR1"} if signal_named else {}
        with started(tmp_path, *python(SAVES), options=(), **where, **named) as process:
            # Not before its step has been seen: until then it may have no handler, and the signal would end it.
            cloud.answers[SPOT] = NOTICE
            if signal_named:
                assert process.wait(LIMIT_S) == 0
                assert "saved after signal 10" in (tmp_path / "said").read_text()
                assert "EC2 is about to terminate" in watched(tmp_path)["reason"]
                return
            beats(tmp_path)
            assert process.poll() is None
            assert SPOT not in cloud.asked
            # The program ends with it, which a SIGKILL would leave behind.
            process.send_signal(signal.SIGTERM)
            assert process.wait(LIMIT_S) == 0


def test_a_person_asks_for_its_end_after_a_checkpoint(tmp_path: Path) -> None:
    with started(tmp_path, *python(SAVES)) as process:
        root = {"MONITORING_ROOT": str(tmp_path / "runs")}
        asked = call(LASTBEAT, "stop", RUN_ID, "--after-checkpoint", "--why", "maintenance", cwd=tmp_path, **root)
        assert asked.returncode == 0, asked.stderr
        assert process.wait(LIMIT_S) == 0
        assert "saved after signal 15" in (tmp_path / "said").read_text()
    said = watched(tmp_path)
    assert (said["status"], ": maintenance" in said["reason"]) == ("PREEMPTED", True)


def test_a_program_that_was_done_when_it_was_asked_is_done(tmp_path: Path) -> None:
    goes_on = SAVES.replace('print("saved after signal", number, flush=True)', 'print("step 9/9 loss 1.5", flush=True)')
    with started(tmp_path, *python(goes_on)) as process:
        root = {"MONITORING_ROOT": str(tmp_path / "runs")}
        asked = call(LASTBEAT, "stop", RUN_ID, "--after-checkpoint", cwd=tmp_path, **root)
        assert asked.returncode == 0, asked.stderr
        assert process.wait(LIMIT_S) == 0
    assert watched(tmp_path)["status"] == "SUCCEEDED"


def test_what_training_says_of_its_checkpoint_outranks_how_its_process_ended(tmp_path: Path) -> None:
    script = f"""
import subprocess, sys
print("step 1/9 loss 2.5", flush=True)
import time; time.sleep(1)
subprocess.run([*{list(LASTBEAT)!r}, "preempted", "--run-id", {RUN_ID!r}, "--step", "7"], check=True)
sys.exit(143)
"""
    with started(tmp_path, *python(script)) as process:
        assert process.wait(LIMIT_S) == 143
    assert watched(tmp_path)["reason"] == "PREEMPTED, checkpoint at step 7"
    assert json.loads(left(tmp_path, "_preempted") or "")["step"] == 7


SAYS_SO = """
import lastbeat
with lastbeat.run() as run:
    run.step(7)
    run.preempted("ckpt/step_7.pt", step=7, why="the node is drained")
"""


@pytest.mark.parametrize(
    "options",
    [pytest.param((), id="started once"), pytest.param(("--max-restarts", "2"), id="started again where it fails")],
)
def test_a_training_that_says_so_itself_is_not_taken_for_a_success(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = subprocess.run(
        exec_command(*python(SAYS_SO), options=options),
        cwd=tmp_path,
        env=settings(tmp_path),
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0
    assert "_complete" not in {path.name for path in (tmp_path / "runs" / RUN_ID).iterdir()}
    said = watched(tmp_path)
    assert said["status"] == "PREEMPTED"
    assert said["reason"] == "PREEMPTED, checkpoint at step 7: ckpt/step_7.pt; the node is drained"
