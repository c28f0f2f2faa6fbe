"""A training that looks at ``run.should_stop`` saves a checkpoint and ends early, whoever asks; one that never looks
ends as ever. Real processes and real signals."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.cli import LASTBEAT, call
from support.training import LIMIT_S, Site, directory_site, end
from support.waiting import until

LOOKS = """\
import lastbeat, os, signal, sys, time
{before}
with lastbeat.run("run-1", {options}) as run:
    step = 0
    while not run.should_stop:
        step += 1
        run.step(step)
        time.sleep(0.01)
    {after}
print("left the block", flush=True)
"""
SAVES = "run.preempted(f'ckpt/step_{step}', step=step)"
CANCELLED = "Cancelled: received signal 15 (SIGTERM)"
"""A signal that comes right before Python sleeps does not wake it: then "in the midst of native code" follows."""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = directory_site(tmp_path)
    return Site(made.folder, made.root, {"STALE_MINUTES": "10", "LASTBEAT_LOG_LEVEL": "info"})


@contextmanager
def training(
    site: Site, *, before: str = "", options: str = "", after: str = SAVES, **env: str
) -> "Iterator[subprocess.Popen[str]]":
    process = site.start(LOOKS.format(before=before, options=options, after=after), **env)
    try:
        until(lambda: site.read("progress.json"))
        yield process
    finally:
        end(process)


def preempted(site: Site) -> dict[str, object]:
    found: dict[str, object] = json.loads(site.read("_preempted") or "{}")
    return found


SIGNALS = [
    pytest.param(signal.SIGTERM, "", {}, id="SIGTERM, once it has looked"),
    pytest.param(signal.SIGUSR1, "exit_signal='SIGUSR1'", {}, id="a signal that training names"),
    pytest.param(signal.SIGUSR2, "", {"LASTBEAT_EXIT_SIGNAL": "usr2"}, id="one that the settings name"),
    pytest.param(signal.SIGTERM, "exit_signal=signal.SIGTERM", {}, id="SIGTERM by name"),
]


@pytest.mark.parametrize(("number", "options", "env"), SIGNALS)
def test_a_signal_lets_training_save_and_end(site: Site, number: int, options: str, env: dict[str, str]) -> None:
    with training(site, options=options, **env) as process:
        process.send_signal(number)
        assert process.wait(LIMIT_S) == 0
    step = preempted(site)["step"]
    said = f"received signal {int(number)} ({signal.Signals(number).name})"
    found = site.look()
    assert (found["status"], found["exit"]) == ("PREEMPTED", 1)
    assert found["reason"] == f"PREEMPTED, checkpoint at step {step}: ckpt/step_{step}; {said}"
    logged = site.said()
    assert f"Signal handler installed for {int(number)}" in logged
    assert logged.count(f"Received signal {int(number)}, initiating graceful stop") == 1
    assert ("exiting program after receiving SIGTERM." in logged) is (number == signal.SIGTERM)
    assert "left the block" in logged


def test_who_leaves_its_loop_without_naming_a_checkpoint_was_preempted_too(site: Site) -> None:
    with training(site, after="pass") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    assert site.look()["status"] == "PREEMPTED"


def test_who_was_done_when_it_was_told_to_stop_is_done(site: Site) -> None:
    with training(site, options="total_steps=5000000", after="run.step(4999999)") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    assert site.look()["status"] == "SUCCEEDED"


def test_an_error_while_it_saves_is_one(site: Site) -> None:
    with training(site, after="raise OSError('disk full')") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 1
    assert site.look()["reason"] == "OSError: disk full"


def test_a_signal_that_comes_twice_at_once_is_one_request_and_a_later_one_ends_it(site: Site) -> None:
    slow = "open('saving', 'w').close(); time.sleep(600)"
    with training(site, after=slow) as process:
        process.send_signal(signal.SIGTERM)
        until((site.folder / "saving").exists)
        process.send_signal(signal.SIGTERM)
        time.sleep(6.0)  # Longer than what counts as the same request.
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == -signal.SIGTERM
    assert site.look()["reason"].startswith(CANCELLED)


def test_one_that_never_looks_ends_as_ever(site: Site) -> None:
    script = """\
    import lastbeat, time
    with lastbeat.run("run-1") as run:
        run.step(1)
        time.sleep(600)
    """
    process = site.start(script)
    try:
        until(lambda: site.read("progress.json"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == -signal.SIGTERM
    finally:
        end(process)
    found = site.look()
    assert found["status"] == "FAILED"
    assert found["reason"].startswith(CANCELLED)


CHAINED = """\
def mine(number, frame):
    open('mine', 'w').close()
signal.signal(signal.SIGTERM, mine)
signal.signal(signal.SIGUSR1, mine)
import atexit
atexit.register(lambda: print(signal.getsignal(signal.SIGTERM) is signal.getsignal(signal.SIGUSR1) is mine, flush=True))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_handler_that_was_there_is_called_and_put_back(site: Site, number: int) -> None:
    with training(site, before=CHAINED, options="exit_signal='USR1'") as process:
        process.send_signal(number)
        assert process.wait(LIMIT_S) == 0
    assert (site.folder / "mine").exists()
    assert site.said().endswith("left the block\nTrue\n")
    assert site.look()["status"] == "PREEMPTED"


@pytest.mark.parametrize("calls", [True, False])
def test_a_handler_that_is_put_before_ours_decides_whether_ours_is_called(site: Site, calls: bool) -> None:
    later = f"""
    ours = signal.getsignal(signal.SIGTERM)
    def theirs(number, frame):
        open('theirs', 'w').close()
        if {calls}: ours(number, frame)
    signal.signal(signal.SIGTERM, theirs)"""
    script = LOOKS.replace("    step = 0\n", later + "\n    step = 0\n")
    process = site.start(script.format(before="", options="", after=SAVES))
    try:
        until(lambda: site.read("progress.json"))
        process.send_signal(signal.SIGTERM)
        until((site.folder / "theirs").exists)
        if calls:
            assert process.wait(LIMIT_S) == 0
            assert site.look()["status"] == "PREEMPTED"
        else:
            time.sleep(0.5)
            assert process.poll() is None
    finally:
        end(process)


WORKER = """\
def forked(run):
    if worker := os.fork():
        open('worker.new', 'w').write(str(worker))
        os.rename('worker.new', 'worker')
        return worker
    {told}
    while not os.path.exists('enough'):
        time.sleep(0.01)
    os._exit(0)
"""
ENDED = "open('enough', 'w').close(); print('worker', os.waitpid(worker, 0)[1]); " + SAVES
WORKERS = [
    pytest.param(signal.SIGUSR1, "pass", 0, id="the exit signal says nothing to it"),
    pytest.param(signal.SIGTERM, "lastbeat.ignore_stop_signals()", 0, id="nor SIGTERM, if it says so"),
    pytest.param(signal.SIGTERM, "pass", 15, id="SIGTERM ends it otherwise, as pools end their workers"),
]


@pytest.mark.parametrize(("number", "told", "status"), WORKERS)
def test_a_signal_to_a_worker(site: Site, number: int, told: str, status: int) -> None:
    script = LOOKS.replace("    step = 0\n", "    step = 0; worker = forked(run)\n")
    process = site.start(script.format(before=WORKER.format(told=told), options="exit_signal='SIGUSR1'", after=ENDED))
    try:
        until(lambda: site.read("progress.json"))
        worker = int(until(lambda: (site.folder / "worker").exists() and (site.folder / "worker").read_text()))
        time.sleep(0.2)
        os.kill(worker, number)
        time.sleep(0.2)
        assert process.poll() is None
        process.send_signal(signal.SIGUSR1)
        assert process.wait(LIMIT_S) == 0
    finally:
        end(process)
    assert f"worker {status}\n" in site.said()
    assert site.look()["status"] == "PREEMPTED"


def test_a_step_in_native_code_is_not_cut_short(site: Site) -> None:
    native = "import hashlib; open('deep', 'w').close(); hashlib.pbkdf2_hmac('sha256', b'', b'', 8_000_000)"
    script = LOOKS.replace(
        "        time.sleep(0.01)\n", "        time.sleep(0.01)\n        if step == 20:\n            {native}\n"
    )
    process = site.start(script.format(before="", options="", after=SAVES, native=native))
    try:
        until((site.folder / "deep").exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    finally:
        end(process)
    assert site.look()["status"] == "PREEMPTED"


def test_it_stops_before_the_time_limit_of_its_slurm_job(site: Site) -> None:
    ends = str(int(time.time()) + 64)
    with training(site, SLURM_JOB_END_TIME=ends, SLURM_JOB_ID="7") as process:
        assert process.poll() is None
        assert process.wait(LIMIT_S) == 0
    assert str(site.look()["reason"]).endswith("; 1m before the time limit of its Slurm job")


def test_without_a_margin_no_time_limit_stops_it(site: Site) -> None:
    past = str(int(time.time()) - 60)
    with training(site, SLURM_JOB_END_TIME=past, LASTBEAT_TIME_MARGIN_SECONDS="0") as process:
        time.sleep(1.0)
        assert process.poll() is None


def stop(site: Site, *more: str) -> "subprocess.CompletedProcess[str]":
    return call([*LASTBEAT, "stop", "run-1", *more], cwd=site.folder, MONITORING_ROOT=site.root)


def test_a_person_may_ask_for_it(site: Site) -> None:
    with training(site) as process:
        until(lambda: "heeds_stop" in (site.read("metadata.json") or ""))
        done = stop(site, "--after-checkpoint", "--why", "maintenance", "--wait")
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith("Run run-1: PREEMPTED\n")
        assert process.wait(LIMIT_S) == 0
    found = site.look()
    assert ": maintenance" in found["reason"]
    assert json.loads(site.read("_watchdog.json") or "")["stopped_by"] in found["reason"]


def test_one_that_would_not_save_is_not_asked_to(site: Site) -> None:
    process = site.start(
        "import lastbeat, time\nwith lastbeat.run('run-1') as run:\n    run.step(1); time.sleep(600)\n"
    )
    try:
        until(lambda: site.read("progress.json"))
        done = stop(site, "--after-checkpoint")
        assert done.returncode == 3
        assert "has not looked at run.should_stop" in done.stderr
        assert site.read("_stop") is None
    finally:
        end(process)
