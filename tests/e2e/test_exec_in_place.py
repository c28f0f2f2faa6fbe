"""``lastbeat exec --max-restarts``: what is started again in its place, once all that it began has ended."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from support.checkpoint_files import torch_file
from support.cli import LASTBEAT, popen, run
from support.http_sink import http_sink
from support.nvml import compiled
from support.started_in_place import WELL, by_start, document, starts
from support.waiting import LIMIT_S, text_in, until
from support.wrapped import exec_under_way, left, run_exec, settings, watched

# All on one stream: what comes on two has no order.
NCCL = 'print("step 7/100 loss 2.5", file=sys.stderr); sys.exit("RuntimeError: NCCL error: unhandled system error")'
ONCE = ("--max-restarts", "1", "--grace", "2")
DEFAULT = ("--policy", "default")


def started(
    folder: Path, *command: str, options: tuple[str, ...] = ONCE, **more: str
) -> AbstractContextManager["subprocess.Popen[bytes]"]:
    """``exec`` in the background."""
    return exec_under_way(folder, *command, options=options, **more)


def test_the_last_failure_says_how_often(tmp_path: Path) -> None:
    done = run_exec(tmp_path, *by_start(NCCL), options=("--max-restarts", "2", "--grace", "2"))
    assert (done.returncode, starts(tmp_path)) == (1, [0, 1, 2])
    error = left(tmp_path, "_error") or ""
    assert error.startswith("RuntimeError: NCCL error: unhandled system error (exit status 1)\n")
    assert "\nrestarted in place 2 of 2 times; not restarted in place: " in error
    said = watched(tmp_path)
    assert (said["status"], said["cause"], said["attempt"]) == ("FAILED", "nccl", 3)
    assert [each["error_type"] for each in document(tmp_path, "in_place.json")["restarts"]] == ["nccl", "nccl"]
    assert "NCCL error" in (left(tmp_path, "in_place/0.txt") or ""), "what each start died of is kept"


HANGS = """
import lastbeat
with lastbeat.run() as run:
    run.step(7)
    with run.section("checkpointing"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
"""


def test_a_section_that_hangs_is_ended_and_started_again(tmp_path: Path) -> None:
    """Though SIGTERM does not end it."""
    done = run_exec(tmp_path, *by_start(HANGS, WELL), options=(*ONCE, "--section-timeouts", "checkpointing:1"))
    assert (done.returncode, starts(tmp_path)) == (0, [0, 1]), done.stderr
    kept = left(tmp_path, "in_place/0.txt") or ""
    assert kept.startswith("Hang: checkpointing for "), kept
    assert ": sleeping in " in kept, "where it hung"
    assert len(re.findall(r": Did not get subsequent heartbeat\. Waited \d+ seconds\.", done.stderr)) == 1, done.stderr
    assert [each["error_type"] for each in document(tmp_path, "in_place.json")["restarts"]] == ["hang"]
    assert left(tmp_path, "_error") is None
    said = watched(tmp_path)
    assert (said["status"], said["attempt"]) == ("SUCCEEDED", 2)


def test_everything_that_it_started_is_ended_first(tmp_path: Path) -> None:
    """Two trainings that write into one folder of checkpoints are worse than none."""
    straggler = (
        "import os, pathlib, signal, time; signal.signal(15, 1); pathlib.Path('pid').write_text(str(os.getpid())); "
        "time.sleep(600)"
    )
    # What Python prints of objects that nobody has closed would be taken for what went wrong.
    first = f"""
    from pathlib import Path
    started = subprocess.Popen([sys.executable, "-c", {straggler!r}], start_new_session=True)
    while not os.path.exists("pid") or not Path("pid").read_text():
        time.sleep(0.01)
    started.returncode = 0
    {NCCL}
    """
    then = f"""
    try:
        from pathlib import Path
        state = Path("/proc", Path("pid").read_text(), "stat").read_text().split()[2]
    except OSError:
        state = "gone"
    {WELL}
    os._exit(9 if state not in ("gone", "Z", "X") else 0)
    """
    done = run_exec(tmp_path, *by_start(first, then), options=ONCE)
    assert (done.returncode, starts(tmp_path)) == (0, [0, 1]), done.stderr


def test_a_hang_is_written_down_then_asked_to_end_then_killed(tmp_path: Path) -> None:
    """Also what has put itself into a session of its own, as the ranks of torchrun do."""
    rank = """
import os, signal, sys, time
def write(what, text):
    # It may be killed at any moment, and leaves whole files.
    with open("new-" + what + sys.argv[1], "w") as file:
        file.write(str(text))
    os.replace(file.name, what + "-" + sys.argv[1])
lives = 0
def asked(*_):
    write("asked", lives)
    if sys.argv[1] == "1":
        os._exit(0)
signal.signal(signal.SIGTERM, asked)
write("pid", os.getpid())
while True:
    time.sleep(0.05)
    lives += 1
    write("lives", lives)
"""
    hangs = f"""
    for rank in ("0", "1"):
        subprocess.Popen([sys.executable, "-c", {rank!r}, rank], start_new_session=True)
        while not os.path.exists("lives-" + rank):
            time.sleep(0.01)
    print("step 7/100 loss 2.5", flush=True)
    time.sleep(600)
    """
    # On a busy machine a rank may take seconds until it has heard that it is asked to end.
    options = ("--max-restarts", "1", "--grace", "10", "--section-timeouts", "step:3")
    done = run_exec(tmp_path, *by_start(hangs, WELL), options=options)
    assert (done.returncode, starts(tmp_path)) == (0, [0, 1]), done.stderr
    kept = left(tmp_path, "in_place/0.txt") or ""
    assert kept.startswith("Hang: step for "), kept
    for each in ("0", "1"):
        pid = (tmp_path / f"pid-{each}").read_text()
        assert f"{pid} " in kept, "both still ran when their stacks were taken"
        assert not Path(f"/proc/{pid}").exists()
    deaf, heeds = ([int((tmp_path / f"{what}-{each}").read_text()) for what in ("asked", "lives")] for each in "01")
    assert deaf[1] > deaf[0], "it had its grace, and then was killed"
    assert heeds[1] <= heeds[0]


def test_the_memory_of_the_gpus_is_awaited(tmp_path: Path) -> None:
    full, free = 70 << 30, 0
    folder = tmp_path / "driver"
    folder.mkdir()
    driver = compiled(folder).says(f"memory_used {free}")

    def used() -> tuple[str, int]:
        said = document(tmp_path, "metadata.json")
        gpus = said.get("resources", {}).get("gpus") or [{}]
        return said.get("phase", ""), gpus[0].get("memory_used_bytes", -1)

    first = f"""
    while not os.path.exists("go"):
        time.sleep(0.01)
    {NCCL}
    """
    more: dict[str, Any] = driver.env
    with started(tmp_path, *by_start(first, WELL), **more) as process:
        until(lambda: used()[1] == free)
        driver.says(f"memory_used {full}")
        (tmp_path / "go").touch()
        until(lambda: used() == ("restarting in place", full))
        assert starts(tmp_path) == [0]
        driver.says(f"memory_used {free}")
        assert process.wait(LIMIT_S) == 0
    assert starts(tmp_path) == [0, 1]


def test_it_goes_on_from_the_newest_complete_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "ckpt"
    for step in (100, 200):
        path = folder / f"step_{step}"
        path.mkdir(parents=True)
        (path / "model.pt").write_bytes(torch_file())
        (path / "commit_success.txt").touch()
    (folder / "step_300").mkdir()
    (folder / "step_300" / "model.pt").write_bytes(torch_file()[:50])
    then = 'open("resumed", "w").write(os.environ["LASTBEAT_RESUME_FROM"] + " " + os.environ["LASTBEAT_RESUME_STEP"])'
    run_exec(tmp_path, *by_start(NCCL, then), options=(*ONCE, "--checkpoint-dir", str(folder)))
    assert (tmp_path / "resumed").read_text() == f"{folder}/step_200 200"


def test_a_person_who_ends_the_run_ends_it_for_good(tmp_path: Path) -> None:
    """Also one who reaches the training itself: its end is nothing that a policy undoes."""
    act = """
    import lastbeat
    with lastbeat.run() as run:
        run.step(7)
        time.sleep(600)
    """
    with started(tmp_path, *by_start(act), options=(*ONCE, *DEFAULT)) as process:
        until(lambda: document(tmp_path, "progress.json").get("step") == 7)
        stop = [sys.executable, "-m", "lastbeat_cli", "stop", "run-1", "--why", "wrong data"]
        run(stop, cwd=tmp_path, env=settings(tmp_path))
        process.wait(LIMIT_S)
    assert starts(tmp_path) == [0]
    said = watched(tmp_path)
    assert (said["status"], said["attempt"]) == ("CANCELLED", 1)


def test_watchers_see_attempts_and_tell_of_them_once(tmp_path: Path) -> None:
    first = """
    print("step 1200/2000 loss 2.5", flush=True)
    while not os.path.exists("fail"):
        time.sleep(0.05)
    sys.exit("RuntimeError: NCCL error: unhandled system error")
    """
    then = """
    print("step 1500/2000 loss 2.4", flush=True)
    while not os.path.exists("end"):
        time.sleep(0.05)
    """
    no_step = 'sys.exit("RuntimeError: NCCL error: unhandled system error")'
    command = by_start(first, no_step, then)
    with http_sink() as sink, started(tmp_path, *command, options=("--max-restarts", "3", "--grace", "1")) as process:
        until(lambda: document(tmp_path, "progress.json").get("step") == 1200)
        # On a busy machine beats are missed, which is another matter.
        wanted = "failed,timed_out,succeeded,recovered,restarted"
        told = settings(tmp_path, LASTBEAT_WEBHOOK_URL=sink.url, ALERT_ON=wanted)
        arguments = [*LASTBEAT, "watch", "--run-id", "run-1", "--interval", "1", "--json"]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with popen(arguments, cwd=tmp_path, env=told, **pipes) as watcher:
            try:
                until(lambda: document(tmp_path, "_watchdog.json").get("status") == "RUNNING")
                (tmp_path / "fail").touch()
                until(lambda: sink.requests)
                (tmp_path / "end").touch()
                assert (process.wait(LIMIT_S), watcher.wait(LIMIT_S)) == (0, 0)
            finally:
                watcher.kill()
    alerts = [json.loads(each.body) for each in sink.requests]
    assert [each["event"] for each in alerts] == ["RESTARTED", "SUCCEEDED"], alerts
    assert alerts[0]["reason"] == "restarted in place 2 times, now at step 1,500"
    assert starts(tmp_path) == [0, 1, 2]
    history = document(tmp_path, "_watchdog.json")["history"]
    assert {each["after"] for each in history} == {"RUNNING", "SUCCEEDED"}, "nobody called it a failure"
    assert history[-1]["attempt"] == 3


def supervised(folder: Path, *command: str, options: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[bytes]":
    """A job of ``lastbeat supervise``, which may start it again twice, that runs ``exec``."""
    inner = [*LASTBEAT, "exec", "--max-restarts", "1", "--grace", "2", *DEFAULT, *options, "--", *command]
    outer = ["supervise", "--run-id", "run-1", "--launcher", "local", *DEFAULT, "--interval", "0.3", "--", *inner]
    own = settings(folder, LASTBEAT_RESTART_DELAY_SECONDS="0", LASTBEAT_STATE_DIR=str(folder / "state"))
    (folder / "runs").mkdir()
    return run([*LASTBEAT, *outer], cwd=folder, env=own)


def test_a_supervisor_leaves_a_hang_to_who_starts_it_in_place(tmp_path: Path) -> None:
    done = supervised(tmp_path, *by_start(HANGS, WELL), options=("--section-timeouts", "checkpointing:1"))
    assert done.returncode == 0, done.stderr
    assert starts(tmp_path) == [0, 1]
    record = document(tmp_path, "_watchdog.json")
    assert record["restarts"] == []
    assert {each["after"] for each in record["history"]} == {"RUNNING", "SUCCEEDED"}


def test_without_who_starts_it_training_says_itself_how_it_ended(tmp_path: Path) -> None:
    act = """
    import lastbeat
    with lastbeat.run() as run:
        run.step(7)
        while not os.path.exists("go"):
            time.sleep(0.05)
        raise RuntimeError("NCCL error: unhandled system error")
    """
    with started(tmp_path, *by_start(act)) as process:
        until(lambda: document(tmp_path, "progress.json").get("step") == 7)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(LIMIT_S)
        (tmp_path / "go").touch()
        assert text_in(tmp_path / "runs" / "run-1" / "_error").startswith("RuntimeError: NCCL error")


def test_limits_of_sections_without_restarts_are_warned_of(tmp_path: Path) -> None:
    done = run_exec(tmp_path, "true", options=("--section-timeouts", "step:9"))
    assert done.returncode == 0
    assert "--section-timeouts restarts nothing without --max-restarts" in done.stderr
