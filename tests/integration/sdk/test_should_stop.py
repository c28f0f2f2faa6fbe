"""A training that looks at ``run.should_stop`` saves a checkpoint and ends early, whoever asks; one that never looks
ends as ever. Real processes and real signals."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from support.cli import LASTBEAT, call
from support.training import DEADLOCK, Site
from support.waiting import LIMIT_S, text_in, until

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
def patient(directory: Site) -> Site:
    return replace(directory, env={"LASTBEAT_OWN_LOG": "info"})


@contextmanager
def training(
    site: Site, *, before: str = "", options: str = "", after: str = SAVES, **env: str
) -> "Iterator[subprocess.Popen[str]]":
    with site.running(LOOKS.format(before=before, options=options, after=after), **env) as process:
        until(lambda: site.read("progress.json"))
        yield process


def goes_on(site: Site, steps: int = 30) -> None:
    """Wait until training has made so many more steps."""

    def step() -> int:
        return int(json.loads(site.read("progress.json") or "{}").get("step", 0))

    before = step()
    until(step, lambda now: now >= before + steps)


def preempted(site: Site) -> dict[str, object]:
    found: dict[str, object] = json.loads(site.read("_preempted") or "{}")
    return found


SIGNALS = [
    pytest.param(signal.SIGTERM, "", {}, id="SIGTERM, once it has looked"),
    pytest.param(signal.SIGUSR1, "exit_signal='SIGUSR1'", {}, id="a signal that training names"),
    pytest.param(signal.SIGUSR2, "", {"LASTBEAT_EXIT_SIGNAL": "usr2"}, id="one that the settings name"),
]


@pytest.mark.parametrize(("number", "options", "env"), SIGNALS)
def test_a_signal_lets_training_save_and_end(patient: Site, number: int, options: str, env: dict[str, str]) -> None:
    with training(patient, options=options, **env) as process:
        process.send_signal(number)
        assert process.wait(LIMIT_S) == 0
    step = preempted(patient)["step"]
    said = f"received signal {int(number)} ({signal.Signals(number).name})"
    found = patient.look()
    assert (found["status"], found["exit"]) == ("PREEMPTED", 1)
    assert found["reason"] == f"PREEMPTED, checkpoint at step {step}: ckpt/step_{step}; {said}"
    logged = patient.said()
    assert f"Signal handler installed for {int(number)}" in logged
    assert logged.count(f"Received signal {int(number)}, initiating graceful stop") == 1
    assert ("exiting program after receiving SIGTERM." in logged) is (number == signal.SIGTERM)
    assert "left the block" in logged


SAVING = """step += 1
    while True:
        run.step(step := step + 1)
        open('saving', 'w').close()
        time.sleep(0.01)"""


@pytest.mark.parametrize(
    "saving", [pytest.param(SAVING, id="in Python"), pytest.param("deadlock('saving')", id="in native code")]
)
def test_a_signal_that_comes_twice_at_once_is_one_request_and_a_later_one_ends_it(patient: Site, saving: str) -> None:
    with training(patient, before=DEADLOCK, after=saving) as process:
        process.send_signal(signal.SIGTERM)
        until((patient.folder / "saving").exists)
        process.send_signal(signal.SIGTERM)
        if saving == SAVING:
            goes_on(patient)
        assert process.poll() is None

        def ended() -> bool:
            process.send_signal(signal.SIGTERM)
            return process.poll() is not None

        until(ended)
    assert process.returncode == -signal.SIGTERM
    assert str(patient.look()["reason"]).startswith(CANCELLED)


CHAINED = """\
def mine(number, frame):
    open('mine', 'w').close()
signal.signal(signal.SIGTERM, mine)
signal.signal(signal.SIGUSR1, mine)
import atexit
atexit.register(lambda: print(signal.getsignal(signal.SIGTERM) is signal.getsignal(signal.SIGUSR1) is mine, flush=True))
"""


def test_a_handler_that_was_there_is_called_and_put_back(patient: Site) -> None:
    with training(patient, before=CHAINED, options="exit_signal='USR1'") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    assert (patient.folder / "mine").exists()
    assert patient.said().endswith("left the block\nTrue\n")
    assert patient.look()["status"] == "PREEMPTED"


def test_a_handler_that_is_put_before_ours_may_call_ours(patient: Site) -> None:
    later = """
    ours = signal.getsignal(signal.SIGTERM)
    def theirs(number, frame):
        open('theirs', 'w').close()
        ours(number, frame)
    signal.signal(signal.SIGTERM, theirs)"""
    script = LOOKS.replace("    step = 0\n", later + "\n    step = 0\n")
    with patient.running(script.format(before="", options="", after=SAVES)) as process:
        until(lambda: patient.read("progress.json"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    assert (patient.folder / "theirs").exists()
    assert patient.look()["status"] == "PREEMPTED"


WORKER = """\
def forked(run):
    if worker := os.fork():
        return worker
    {told}
    open('worker.new', 'w').write(str(os.getpid()))
    os.rename('worker.new', 'worker')
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
def test_a_signal_to_a_worker(patient: Site, number: int, told: str, status: int) -> None:
    script = LOOKS.replace("    step = 0\n", "    step = 0; worker = forked(run)\n")
    script = script.format(before=WORKER.format(told=told), options="exit_signal='SIGUSR1'", after=ENDED)
    with patient.running(script) as process:
        until(lambda: patient.read("progress.json"))
        os.kill(int(text_in(patient.folder / "worker")), number)
        goes_on(patient)
        assert process.poll() is None
        process.send_signal(signal.SIGUSR1)
        assert process.wait(LIMIT_S) == 0
    assert f"worker {status}\n" in patient.said()
    assert patient.look()["status"] == "PREEMPTED"


# It holds no interpreter lock, and lasts until lastbeat has asked training to stop.
NATIVE = """if step == 20:
            import ctypes, threading
            library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(128)
            def unlock():
                while run.stop_wanted is None:
                    time.sleep(0.01)
                library.pthread_mutex_unlock(mutex)
            threading.Thread(target=unlock).start()
            library.pthread_mutex_lock(mutex)
            open('deep', 'w').close()
            library.pthread_mutex_lock(mutex)
"""


def test_a_step_in_native_code_is_not_cut_short(patient: Site) -> None:
    script = LOOKS.replace("        time.sleep(0.01)\n", f"        time.sleep(0.01)\n        {NATIVE}")
    with patient.running(script.format(before="", options="", after=SAVES)) as process:
        until((patient.folder / "deep").exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    assert patient.look()["status"] == "PREEMPTED"


def stop(site: Site, *more: str) -> "subprocess.CompletedProcess[str]":
    return call([*LASTBEAT, "stop", "run-1", *more], cwd=site.folder, MONITORING_ROOT=site.root)


def test_a_person_may_ask_for_it(patient: Site) -> None:
    with training(patient) as process:
        until(lambda: "heeds_stop" in (patient.read("metadata.json") or ""))
        done = stop(patient, "--after-checkpoint", "--why", "maintenance", "--wait")
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith("Run run-1: PREEMPTED\n")
        assert process.wait(LIMIT_S) == 0
    found = patient.look()
    assert ": maintenance" in found["reason"]
    assert json.loads(patient.read("_watchdog.json") or "")["stopped_by"] in found["reason"]


def test_one_that_would_not_save_is_not_asked_to(patient: Site) -> None:
    script = "import lastbeat, time\nwith lastbeat.run('run-1') as run:\n    run.step(1); time.sleep(600)\n"
    with patient.running(script):
        until(lambda: patient.read("progress.json"))
        done = stop(patient, "--after-checkpoint")
        assert done.returncode == 3
        assert "has not looked at run.should_stop" in done.stderr
        assert patient.read("_stop") is None
