"""``lastbeat exec --max-restarts`` that is told to end, at each moment: nothing is left, and its status is right."""

import os
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from lastbeat.jobs.launchers import processes
from lastbeat.model.stop_request import StopRequest, encode_request
from lastbeat.model.times import parse_time
from support.cli import LASTBEAT, run
from support.started_in_place import WELL, by_start, document, starts
from support.waiting import LIMIT_S, until
from support.wrapped import exec_command, exec_under_way, left, settings, watched

AT_ONCE = ("--max-restarts", "9", "--grace", "1", "--policy", "always.yaml")
ALWAYS = """
policies:
  - mode: crash
    implementation: {class_name: AlwaysRestartPolicy, max_retries: 99}
same_step_times: 99
budgets: {window: {restarts: 99, hours: 24}}
"""
FAILS_AT_ONCE = "os._exit(3)"
HANGS = 'print("step 7/100 loss 2.5", flush=True); time.sleep(600)'
DEAF = f"signal.signal(signal.SIGTERM, signal.SIG_IGN); {HANGS}"


def started(
    folder: Path, *command: str, options: tuple[str, ...] = AT_ONCE, **more: str
) -> AbstractContextManager["subprocess.Popen[bytes]"]:
    """``exec`` in the background."""
    (folder / "always.yaml").write_text(ALWAYS)
    return exec_under_way(folder, *command, options=options, **more)


def told(folder: Path) -> str:
    return (folder / "stderr").read_text()


def runs(folder: Path) -> bool:
    """Its first start has made a step."""
    return starts(folder) == [0] and bool(document(folder, "progress.json"))


def between_two_starts(folder: Path) -> bool:
    """It waits before it starts again what has failed at once several times."""
    return document(folder, "metadata.json").get("phase") == "restarting in place" and len(starts(folder)) > 2


def went_on(folder: Path, before: list[int], *, late: bool) -> list[int]:
    """The starts after those that were there ``before``. With ``late``, the wait between two of them may have ended as
    the signal was sent, so one more is none."""
    return starts(folder)[len(before) + late :]


def asked_again(process: "subprocess.Popen[bytes]", number: int) -> bool:
    """Whether it has ended; else it is asked once more."""
    if process.poll() is None:
        process.send_signal(number)
    return process.poll() is not None


RUNS = ((HANGS,), AT_ONCE, runs)
ENDED = ((DEAF,), ("--max-restarts", "9", "--grace", "600", "--section-timeouts", "step:1"),
         lambda folder: "it is being ended" in told(folder))  # fmt: skip
BETWEEN = ((FAILS_AT_ONCE,) * 9, AT_ONCE, between_two_starts)
MOMENTS = [
    pytest.param(*RUNS, signal.SIGINT, id="Ctrl-C while its command runs"),
    pytest.param(*ENDED, signal.SIGTERM, id="in the grace of one that hangs"),
    pytest.param(*BETWEEN, signal.SIGHUP, id="its terminal closes between two starts"),
]


@pytest.mark.parametrize(("acts", "options", "at", "number"), MOMENTS)
def test_a_signal_ends_it_for_good(
    tmp_path: Path, acts: tuple[str, ...], options: tuple[str, ...], at: Any, number: signal.Signals
) -> None:
    with started(tmp_path, *by_start(*acts), options=options) as process:
        until(lambda: at(tmp_path))
        before = starts(tmp_path)
        below = list(processes.below(process.pid))
        process.send_signal(number)
        if "600" in options:
            # Its command does not heed SIGTERM, and hangs: whoever asks again has it killed.
            until(lambda: asked_again(process, number))
        assert process.wait(LIMIT_S) == -number, told(tmp_path)
        until(lambda: not any(processes.lives(each) for each in below))
    assert went_on(tmp_path, before, late=at is between_two_starts) == []
    assert (left(tmp_path, "_error") or "").startswith(f"Cancelled: received signal {int(number)} ({number.name}")
    assert watched(tmp_path)["cause"] == "cancelled"


def test_a_command_that_ends_well_when_it_is_asked_to_ends_well(tmp_path: Path) -> None:
    act = """
    signal.signal(signal.SIGTERM, lambda *_: (print("saved"), os._exit(0)))
    print("step 7/100 loss 2.5", flush=True)
    time.sleep(600)
    """
    with started(tmp_path, *by_start(act), options=("--max-restarts", "3")) as process:
        until(lambda: runs(tmp_path))
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0


def test_a_person_who_stops_the_run_between_two_starts_has_stopped_it(tmp_path: Path) -> None:
    with started(tmp_path, *by_start(FAILS_AT_ONCE)) as process:
        until(lambda: between_two_starts(tmp_path))
        before = starts(tmp_path)
        # A request to end the attempt that metadata.json shows, as of another machine, and no signal.
        said = document(tmp_path, "metadata.json")
        request = StopRequest(
            "ann@elsewhere", None, "wrong data", parse_time(said["start_time"]), said["attempt"], after_checkpoint=True
        )
        (tmp_path / "runs" / "run-1" / "_stop").write_bytes(encode_request(request))
        assert process.wait(LIMIT_S) in {3, 1}, told(tmp_path)
    assert went_on(tmp_path, before, late=True) == []
    assert "stopped by ann@elsewhere: wrong data" in (left(tmp_path, "_error") or "")
    assert watched(tmp_path)["status"] == "CANCELLED"


def test_the_signal_that_asks_training_to_end_is_heard_between_two_starts(tmp_path: Path) -> None:
    with started(tmp_path, *by_start(FAILS_AT_ONCE), LASTBEAT_EXIT_SIGNAL="SIGUSR1") as process:
        until(lambda: between_two_starts(tmp_path))
        before = starts(tmp_path)
        process.send_signal(signal.SIGUSR1)
        assert process.wait(LIMIT_S) == -signal.SIGUSR1, told(tmp_path)
    assert went_on(tmp_path, before, late=True) == []


def test_it_may_not_be_able_to_say_what_it_does(tmp_path: Path) -> None:
    """Its log is on a disk that is full."""
    command = exec_command(*by_start("os._exit(3)", WELL), options=("--max-restarts", "1", "--policy", "default"))
    with Path("/dev/full").open("wb") as full:
        done = run(command, cwd=tmp_path, env=settings(tmp_path), stderr=full)
    assert (done.returncode, starts(tmp_path)) == (0, [0, 1])


def test_each_start_reads_a_file_from_where_the_first_one_began(tmp_path: Path) -> None:
    """Else the second one has nothing to do, and ends well."""
    script = tmp_path / "train.py"
    script.write_text(
        'import sys\nfrom pathlib import Path\nran = Path("ran")\n'
        'ran.write_text((ran.read_text() if ran.exists() else "") + "x")\n'
        'sys.exit("RuntimeError: NCCL error: unhandled system error")\n'
    )
    command = exec_command(sys.executable, "-", options=("--max-restarts", "2"))
    with script.open("rb") as source:
        done = run(command, cwd=tmp_path, env=settings(tmp_path), stdin=source)
    assert (done.returncode, (tmp_path / "ran").read_text()) == (1, "xxx"), done.stderr.decode()


WITHOUT_RIGHT_TO_KILL = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(24, 5)  # PR_CAPBSET_DROP, CAP_KILL
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
GIVES_UP_SOON = """
import runpy
from lastbeat.training.exec.in_place import ending
ending.end_all.__kwdefaults__["killed_s"] = 1.0
runpy.run_module("lastbeat_cli", run_name="__main__", alter_sys=True)
"""
ANOTHER_USER = """
os.setresuid(65534, 65534, 65534)
print("step 7/100 loss 2.5", flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a process that it cannot end")
def test_what_cannot_be_ended_is_left_and_nothing_is_started_beside_it(tmp_path: Path) -> None:
    """As a process that hangs in a driver."""
    options = ("--max-restarts", "1", "--grace", "0", "--section-timeouts", "step:1")
    command = exec_command(*by_start(ANOTHER_USER), options=options)
    process = subprocess.Popen(
        [sys.executable, "-c", WITHOUT_RIGHT_TO_KILL, "-c", GIVES_UP_SOON, *command[len(LASTBEAT) :]],
        cwd=tmp_path,
        env=settings(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    below = set[processes.ProcessIdentity]()
    try:
        until(lambda: starts(tmp_path) == [0])
        below |= set(processes.below(process.pid))
        assert process.wait(LIMIT_S) == 1
    finally:
        process.kill()
        for each in below:
            processes.send(each, signal.SIGKILL)
        process.wait()
    assert starts(tmp_path) == [0]
    assert "some of its processes could not be ended, and still run" in (left(tmp_path, "_error") or "")
