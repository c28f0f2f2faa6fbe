"""Signals while the end is waited for: one wait in all, and a second signal shortens it."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from support.proxy import Fault, FaultProxy, Stall, s3_error
from support.training import DEADLOCK, WRITTEN, Site
from support.waiting import LIMIT_S, until

START = f"""\
import os, signal, sys, threading, time
import lastbeat
import lastbeat.training.sdk.run as runs, lastbeat.training.sdk.termination as termination
# Longer than any test waits: what is to end sooner has to shorten it.
runs.END_WAIT_S = termination.END_WAIT_S = 3600.0
{DEADLOCK}
run = lastbeat.start("run-1")
run.step(1)
def hang():
    while not os.path.exists("hang"):
        time.sleep(0.01)
"""
WHERE = [
    pytest.param("hang(); time.sleep(600)", id="that trains"),
    pytest.param("hang(); raise ValueError('bad')", id="that has failed, and waits"),
    pytest.param(
        "chain = signal.getsignal(15)\nsignal.signal(15, lambda *told: chain(*told))\nhang(); time.sleep(600)",
        id="that has put a handler before ours",
    ),
    pytest.param("hang(); deadlock('deep')", id="in the midst of native code"),
]


STALL = Stall()


@contextmanager
def faulty(site: Site, proxy: FaultProxy, script: str, fault: Fault = STALL) -> "Iterator[subprocess.Popen[str]]":
    """A training whose store hangs from now on, or has another ``fault``, and that has met it."""
    with site.running(START + script, AWS_ENDPOINT_URL=proxy.url) as process:
        until(lambda: site.read("progress.json"))
        proxy.inject(fault)
        (site.folder / "hang").touch()
        before = proxy.count()
        until(lambda: proxy.count() > before)
        yield process


def ended(process: "subprocess.Popen[str]", number: int) -> bool:
    """Whether it has ended, half a second after one more signal."""
    process.send_signal(number)
    with suppress(subprocess.TimeoutExpired):
        process.wait(0.5)
    return process.poll() is not None


@pytest.mark.parametrize("script", WHERE)
def test_however_many_signals_come_the_second_one_shortens_the_wait(
    in_s3: Site, fault_proxy: FaultProxy, script: str
) -> None:
    with faulty(in_s3, fault_proxy, script) as process:
        until(lambda: ended(process, signal.SIGTERM))
    assert process.returncode == -signal.SIGTERM, in_s3.said()


def test_one_signal_waits_for_the_sentinel_and_the_store_comes_back(in_s3: Site, fault_proxy: FaultProxy) -> None:
    with faulty(in_s3, fault_proxy, "hang(); time.sleep(600)", s3_error(503, "SlowDown")) as process:
        process.send_signal(signal.SIGTERM)
        fault_proxy.clear()
        assert process.wait(LIMIT_S) == -signal.SIGTERM
    found = in_s3.look()
    assert (found["status"], found["cause"]) == ("FAILED", "cancelled")


def test_a_second_ctrl_c_ends_the_wait_and_the_traceback_is_shown(in_s3: Site, fault_proxy: FaultProxy) -> None:
    with faulty(in_s3, fault_proxy, "hang(); time.sleep(600)") as process:
        until(lambda: ended(process, signal.SIGINT))
    assert "KeyboardInterrupt" in in_s3.said()


BLOCK = f"""\
import os, signal, sys, time
import lastbeat
{WRITTEN}{DEADLOCK}
with lastbeat.run("run-1") as run:
    run.step(1)
    written(run)
"""
IN_A_BLOCK = [
    pytest.param("os.kill(os.getpid(), 15); time.sleep(600)", id="in Python"),
    pytest.param("with lastbeat.run('run-2'): pass\n    os.kill(os.getpid(), 15); time.sleep(600)",
                 id="after a block in the block"),
]  # fmt: skip


@pytest.mark.parametrize("script", IN_A_BLOCK)
def test_sigterm_in_a_block_is_told_without_a_guardian(directory: Site, script: str) -> None:
    trained = directory.train(f"{BLOCK}    {script}", LASTBEAT_GUARDIAN="off")
    assert trained.exit == -signal.SIGTERM, trained.said
    found = directory.look()
    assert (found["status"], found["cause"]) == ("FAILED", "cancelled")
    assert "received signal 15 (SIGTERM)" in found["reason"]


def test_sigterm_in_the_midst_of_native_code_is_told_and_obeyed(directory: Site) -> None:
    with directory.running(f"{BLOCK}    deadlock('deep')", LASTBEAT_GUARDIAN="off") as process:
        until((directory.folder / "deep").exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == -signal.SIGTERM
    assert directory.read("_error") == "Cancelled: received signal 15 (SIGTERM), in the midst of native code"


AFTERWARDS = [
    pytest.param("pass\nprint(signal.getsignal(15) == signal.SIG_DFL)", id="after the block it is as before"),
    pytest.param("if os.fork() == 0:\n        os.kill(os.getpid(), 15); time.sleep(600)\n"
                 "    print(os.wait()[1] == 15, not run.ended)", id="the end of a fork is not the run's"),
]  # fmt: skip


@pytest.mark.parametrize("script", AFTERWARDS)
def test_sigterm_belongs_to_training(directory: Site, script: str) -> None:
    trained = directory.train(f"{BLOCK}    {script}", LASTBEAT_GUARDIAN="off", PYTHONWARNINGS="default")
    assert trained.exit == 0, trained.said
    assert "True" in trained.said
    assert "False" not in trained.said
    assert directory.look()["status"] == "SUCCEEDED"
