"""Signals while the end is waited for: one wait in all, and a second signal shortens it."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lastbeat.sdk.run import END_WAIT_S
from support.proxy import FaultProxy, Stall
from support.s3 import S3Server
from support.training import LIMIT_S, Site, end, s3_site, until

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
