"""SIGTERM for a training that waits in native code, and for the processes that it forks."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.checkout import ROOT

START = """
import lastbeat, os, signal, sys, time
run = lastbeat.start("r")
def ready():
    print("ready", flush=True)
"""
# Neither lets a Python handler run before it is done, which takes minutes; the GIL is free meanwhile.
NATIVE = "import hashlib; ready(); hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)"
# A deadlock, as of a library whose peer is gone: no signal ends the wait, and it takes no processor.
DEADLOCK = (
    "import ctypes; wait = ctypes.CDLL(None).pthread_mutex_lock; mutex = ctypes.create_string_buffer(128);"
    " wait(mutex); ready(); wait(mutex)"
)
PYTHON = "ready(); time.sleep(300)"
LIMIT_S = 30.0


def start(folder: Path, script: str) -> subprocess.Popen[str]:
    environ = dict(os.environ) | {"PYTHONPATH": str(ROOT / "core"), "MONITORING_ROOT": str(folder)}
    command = [sys.executable, "-c", START + script]
    process = subprocess.Popen(command, env=environ, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def stop(process: subprocess.Popen[str]) -> str:
    """What it said until its end."""
    try:
        said, _ = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()
    return said


def computed_s(process: subprocess.Popen[str]) -> float:
    """Processor time of the process in s."""
    after_name = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(after_name[11]) / os.sysconf("SC_CLK_TCK")


def test_sigterm_ends_a_training_in_the_midst_of_native_code(tmp_path: Path) -> None:
    process = start(tmp_path, NATIVE)
    before, limit = computed_s(process), time.monotonic() + LIMIT_S
    # It says that it is ready just before; from here on it computes nothing else.
    while computed_s(process) < before + 0.2:
        assert time.monotonic() < limit, "it never began to compute"
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    stop(process)
    assert process.returncode == -signal.SIGTERM
    error = (tmp_path / "r" / "_error").read_text(encoding="utf-8")
    assert error == "Cancelled: received signal 15 (SIGTERM), in the midst of native code"


def test_a_training_that_looks_and_hangs_in_native_code_is_ended_by_a_later_sigterm(tmp_path: Path) -> None:
    process = start(tmp_path, f"run.should_stop; {DEADLOCK}")
    began = time.monotonic()
    try:
        while process.poll() is None and time.monotonic() < began + LIMIT_S:
            process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
    finally:
        stop(process)
    assert process.returncode == -signal.SIGTERM
    assert time.monotonic() > began + 5, "the first ones are one request, which it may still heed"


def test_sigterm_ends_a_training_in_the_midst_of_python(tmp_path: Path) -> None:
    process = start(tmp_path, PYTHON)
    process.send_signal(signal.SIGTERM)
    stop(process)
    assert process.returncode == -signal.SIGTERM
    # A signal that comes right before Python sleeps does not wake it, and says "in the midst of native code".
    assert (tmp_path / "r" / "_error").read_text(encoding="utf-8").startswith("Cancelled: received signal 15 (SIGTERM)")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            "ready(); child = os.fork()\nif child == 0: time.sleep(300)\n"
            "time.sleep(0.2); os.kill(child, 15); os.waitpid(child, 0); time.sleep(3); print('goes on')",
            id="a worker that is told to end is not the training",
        ),
        pytest.param(
            "signal.signal(15, lambda *_: None); ready(); os.kill(os.getpid(), 15); time.sleep(3); print('goes on')",
            id="a handler that training has put in the place of ours",
        ),
    ],
)
def test_training_goes_on_after(script: str, tmp_path: Path) -> None:
    process = start(tmp_path, script)
    assert stop(process) == "goes on\n"
    assert process.returncode == 0
    assert (tmp_path / "r" / "_complete").exists()
    assert not (tmp_path / "r" / "_error").exists()


def test_two_runs_of_one_process_both_end_with_it(tmp_path: Path) -> None:
    process = start(tmp_path, "time.sleep(0.3); other = lastbeat.start('s'); time.sleep(0.3); ready()")
    stop(process)
    assert (tmp_path / "r" / "_complete").exists()
    assert (tmp_path / "s" / "_complete").exists()


def test_a_process_without_a_descriptor_left_begins_and_ends_a_run_all_the_same(tmp_path: Path) -> None:
    script = """
import os, resource
import lastbeat.training.entry, lastbeat.training.sdk.process_exit, lastbeat.training.sdk.log_shipping
lastbeat.training.entry.load()  # It imports what it reads settings for.
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
try:
    while True:
        held.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
run = lastbeat.start("r", log_file="train.log", capture=True)
run.step(1)
for descriptor in held:
    os.close(descriptor)
"""
    environ = dict(os.environ) | {"PYTHONPATH": str(ROOT / "core"), "MONITORING_ROOT": str(tmp_path)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environ, cwd=tmp_path, timeout=LIMIT_S * 2, check=False)
    assert done.returncode == 0
    assert (tmp_path / "r" / "_complete").exists()
