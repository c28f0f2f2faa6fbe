"""Signals while the end is waited for: one wait in all, and a second signal shortens it."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lastbeat.training.sdk.run import END_WAIT_S
from support.proxy import FaultProxy, Stall
from support.s3 import S3Server
from support.training import LIMIT_S, Site, directory_site, end, s3_site
from support.waiting import until

START = """\
import os, signal, sys, threading, time
import lastbeat
run = lastbeat.start("run-1")
run.step(1)
def hang():
    while not os.path.exists("hang"):
        time.sleep(0.01)
"""
WHERE = [
    pytest.param("hang(); time.sleep(600)", id="that trains"),
    pytest.param("hang()", id="that has ended well, and waits"),
    pytest.param("hang(); raise ValueError('bad')", id="that has failed, and waits"),
    pytest.param("other = lastbeat.start('run-2'); hang()", id="with two runs, which waits"),
    pytest.param("hang(); run.fail('bad', wait_s=600)", id="that waits for as long as it likes"),
    pytest.param(
        "chain = signal.getsignal(15)\nsignal.signal(15, lambda *told: chain(*told))\nhang(); time.sleep(600)",
        id="that has put a handler before ours",
    ),
    # No Python handler runs before it is done, which takes minutes; the interpreter's lock is free meanwhile.
    pytest.param(
        "import hashlib; hang(); hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)", id="in the midst of native code"
    ),
]


@pytest.fixture
def site(tmp_path: Path, s3_server: S3Server) -> Site:
    return s3_site(tmp_path, s3_server)


@contextmanager
def stalled(site: Site, proxy: FaultProxy, script: str) -> "Iterator[subprocess.Popen[str]]":
    """A training whose store hangs from now on, and that has a request under way."""
    process = site.start(START + script, AWS_ENDPOINT_URL=proxy.url)
    try:
        until(lambda: site.read("progress.json"))
        proxy.inject(Stall())
        (site.folder / "hang").touch()
        before = proxy.count()
        until(lambda: proxy.count() > before)
        yield process
    finally:
        end(process)


@pytest.mark.parametrize("script", WHERE)
def test_however_many_signals_come_the_process_is_gone_soon(site: Site, fault_proxy: FaultProxy, script: str) -> None:
    with stalled(site, fault_proxy, script) as process:
        began = time.monotonic()
        while process.poll() is None:
            # Whoever sends one after the other must not hold up what they ask for.
            process.send_signal(signal.SIGTERM)
            with_patience = time.monotonic() + 0.5
            while process.poll() is None and time.monotonic() < with_patience:
                time.sleep(0.01)
            assert time.monotonic() - began < LIMIT_S, "each signal begins another wait"
        took = time.monotonic() - began
    assert process.returncode == -signal.SIGTERM, site.said()
    assert took < END_WAIT_S, "the second signal does not shorten the wait"


def test_one_signal_waits_for_the_sentinel_and_the_store_comes_back(site: Site, fault_proxy: FaultProxy) -> None:
    with stalled(site, fault_proxy, "hang(); time.sleep(600)") as process:
        process.send_signal(signal.SIGTERM)
        before = fault_proxy.count()
        fault_proxy.clear()
        assert process.wait(LIMIT_S) == -signal.SIGTERM
    assert before
    found = site.look()
    assert (found["status"], found["cause"]) == ("FAILED", "cancelled")


def test_a_second_ctrl_c_ends_the_wait_and_the_traceback_is_shown(site: Site, fault_proxy: FaultProxy) -> None:
    with stalled(site, fault_proxy, "hang(); time.sleep(600)") as process:
        began = time.monotonic()
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.5)
            assert time.monotonic() - began < LIMIT_S, "each Ctrl-C begins another wait"
        took = time.monotonic() - began
    assert took < END_WAIT_S
    assert "KeyboardInterrupt" in site.said()


BLOCK = """\
import os, signal, sys, time
import lastbeat
with lastbeat.run("run-1") as run:
    run.step(1)
    while run._reporter._written_steps < run.steps:
        time.sleep(0.005)
"""


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("    os.kill(os.getpid(), 15); time.sleep(600)", id="in Python"),
        pytest.param(
            "    import hashlib, threading\n    threading.Timer(0.3, os.kill, (os.getpid(), 15)).start()\n"
            "    hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)",
            id="in native code",
        ),
        pytest.param(
            "    with lastbeat.run('run-2'):\n        pass\n    os.kill(os.getpid(), 15); time.sleep(600)",
            id="after a block in the block",
        ),
    ],
)
def test_sigterm_in_a_block_is_told_without_a_guardian(tmp_path: Path, script: str) -> None:
    site = directory_site(tmp_path)
    trained = site.train(BLOCK + script, LASTBEAT_GUARDIAN="off")
    assert trained.exit == -signal.SIGTERM, trained.said
    found = site.look()
    assert (found["status"], found["cause"]) == ("FAILED", "cancelled")
    assert "received signal 15 (SIGTERM)" in found["reason"]


@pytest.mark.parametrize(
    ("script", "status"),
    [
        pytest.param(
            "print(signal.getsignal(15) == signal.SIG_DFL)", "SUCCEEDED", id="after the block it is as before"
        ),
        pytest.param(
            "    signal.signal(15, lambda *told: sys.exit(print(True)))\n    os.kill(os.getpid(), 15); time.sleep(600)",
            "SUCCEEDED",
            id="a handler that training installs in the block",
        ),
        pytest.param(
            "    if os.fork() == 0:\n        os.kill(os.getpid(), 15); time.sleep(600)\n"
            "    print(os.wait()[1] == 15, not run.ended)",
            "SUCCEEDED",
            id="the end of a fork is not the run's",
        ),
    ],
)
def test_sigterm_belongs_to_training(tmp_path: Path, script: str, status: str) -> None:
    site = directory_site(tmp_path)
    trained = site.train(BLOCK + script, LASTBEAT_GUARDIAN="off", PYTHONWARNINGS="default")
    assert trained.exit == 0, trained.said
    assert "True" in trained.said
    assert "False" not in trained.said
    assert site.look()["status"] == status


def test_a_handler_that_was_there_before_the_block_stays(tmp_path: Path) -> None:
    site = directory_site(tmp_path)
    before = "import signal\nsignal.signal(15, lambda *told: exec('raise RuntimeError(told[0])'))\n"
    trained = site.train(before + BLOCK + "    os.kill(os.getpid(), 15); time.sleep(600)", LASTBEAT_GUARDIAN="off")
    assert trained.exit == 1
    assert site.look()["reason"] == "RuntimeError: 15"
