"""``lastbeat exec``: signals reach the command, and whoever dies of one is told to have."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from support.waiting import LIMIT_S, until
from support.wrapped import left, python, start_exec, watched

# Not print(): a handler may interrupt another's.
TELLS = """
import os, signal, sys, time
def tell(number, frame):
    os.write(1, signal.Signals(number).name.encode() + b'\\n')
    if number == signal.SIGTERM: sys.exit(42)
for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGCONT,
               signal.SIGWINCH, signal.SIGTERM):
    signal.signal(number, tell)
os.write(1, b'ready\\n')
# Not pause(): a signal that comes just before it would be told of only after the next.
while True: time.sleep(0.05)
"""


def _ready(wrapper: "subprocess.Popen[bytes]") -> None:
    assert wrapper.stdout is not None
    assert wrapper.stdout.readline() == b"ready\n"


def test_signals_are_passed_on_one_by_one(tmp_path: Path) -> None:
    wrapper = start_exec(tmp_path, *python(TELLS))
    _ready(wrapper)
    assert wrapper.stdout is not None
    for name in ("SIGUSR1", "SIGUSR2", "SIGHUP", "SIGQUIT", "SIGCONT", "SIGWINCH", "SIGINT"):
        os.kill(wrapper.pid, signal.Signals[name])
        assert wrapper.stdout.readline() == name.encode() + b"\n"
    os.kill(wrapper.pid, signal.SIGTERM)
    assert wrapper.communicate(timeout=LIMIT_S)[0] == b"SIGTERM\n"
    assert wrapper.returncode == 42


ENDINGS = [
    pytest.param(signal.SIGTERM, "SIGTERM", id="SIGTERM"),
    pytest.param(signal.SIGINT, "SIGINT, KeyboardInterrupt", id="SIGINT"),
]


@pytest.mark.parametrize(("number", "name"), ENDINGS)
def test_a_signal_that_ends_it_is_a_cancelled_run(tmp_path: Path, number: signal.Signals, name: str) -> None:
    wrapper = start_exec(tmp_path, "sh", "-c", "echo ready; exec sleep 1000")
    _ready(wrapper)
    os.kill(wrapper.pid, number)
    wrapper.communicate(timeout=LIMIT_S)
    assert wrapper.returncode == -number, "shells and schedulers see what they would have seen"
    first = (left(tmp_path, "_error") or "").splitlines()[0]
    assert first.startswith("Cancelled: ")
    assert f"received signal {int(number)} ({name}); sh was killed by" in first
    # A person presses Ctrl-C; other signals are a scheduler's.
    assert watched(tmp_path)["status"] == ("CANCELLED" if number == signal.SIGINT else "FAILED")
    assert watched(tmp_path)["cause"] == "cancelled"


def test_what_was_ignored_stays_ignored(tmp_path: Path) -> None:
    wrapper = start_exec(
        tmp_path, "sh", "-c", "echo ready; read line; exit 5",
        stdin=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    _ready(wrapper)
    os.kill(wrapper.pid, signal.SIGHUP)
    wrapper.communicate(b"\n", timeout=LIMIT_S)
    assert wrapper.returncode == 5, "as under nohup"


def test_a_kill_of_the_whole_group_reaches_the_command_once(tmp_path: Path) -> None:
    source = TELLS.replace("if number == signal.SIGTERM: sys.exit(42)", "signal.alarm(1)").replace(
        "os.write(1, b'ready", "signal.signal(signal.SIGALRM, lambda *_: sys.exit(43))\nos.write(1, b'ready"
    )
    wrapper = start_exec(tmp_path, *python(source), start_new_session=True)
    _ready(wrapper)
    os.killpg(wrapper.pid, signal.SIGTERM)
    assert wrapper.communicate(timeout=LIMIT_S)[0] == b"SIGTERM\n"
    assert wrapper.returncode == 43


def _child_of(wrapper: "subprocess.Popen[bytes]", tmp_path: Path) -> int:
    assert wrapper.stdout is not None
    return int(wrapper.stdout.readline())


def test_a_wrapper_that_is_killed_leaves_a_run_that_times_out(tmp_path: Path) -> None:
    wrapper = start_exec(tmp_path, "sh", "-c", "echo $$; exec sleep 1000")
    child = _child_of(wrapper, tmp_path)
    until(lambda: "training" in (left(tmp_path, "metadata.json") or ""))
    assert watched(tmp_path)["status"] == "RUNNING"
    os.kill(wrapper.pid, signal.SIGKILL)
    wrapper.wait(LIMIT_S)
    last = json.loads(left(tmp_path, "metadata.json") or "")["last_update"]
    until(lambda: watched(tmp_path, "--stale-minutes", "0.01")["status"] == "TIMED_OUT")
    assert json.loads(left(tmp_path, "metadata.json") or "")["last_update"] == last
    assert (left(tmp_path, "_error"), left(tmp_path, "_complete")) == (None, None)
    os.kill(child, signal.SIGKILL)
    wrapper.communicate()
