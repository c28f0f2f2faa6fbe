"""Calls in a thread of their own: whoever asks waits for so long and no longer, and nothing raises into it."""

import subprocess
import sys
import threading

import pytest

from lastbeat.stores.timed_calls import CallThread, call_with_timeout
from support.checkout import ROOT
from support.hostile import Panic
from support.waiting import until

LIMIT_S = 30.0


def status_of(script: str) -> int:
    """How a process that runs it ends."""
    environ = {"PYTHONPATH": str(ROOT / "core")}
    return subprocess.run([sys.executable, "-c", script], env=environ, timeout=60, check=False).returncode


def throw(error: BaseException) -> int:
    raise error


ERRORS = [ValueError("bad"), SystemExit(3), Panic("index out of bounds")]


def test_once_returns_what_the_call_returns() -> None:
    assert call_with_timeout(lambda: 7, LIMIT_S, 0) == 7


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_what_the_call_raises_does_not_leave_its_thread(error: BaseException) -> None:
    assert call_with_timeout(lambda: throw(error), LIMIT_S, 0) == 0


def test_a_call_that_hangs_is_left_behind() -> None:
    released = threading.Event()
    try:
        assert call_with_timeout(lambda: released.wait(LIMIT_S), 0.02, False) is False
    finally:
        released.set()


def test_one_call_at_a_time_and_what_is_late_is_dropped() -> None:
    worker: CallThread[int] = CallThread("lastbeat-test")
    released = threading.Event()
    try:
        with pytest.raises(TimeoutError):
            worker.call(lambda: int(released.wait(LIMIT_S)), 0.02)
        assert worker.busy
        with pytest.raises(TimeoutError):
            worker.call(lambda: 2, LIMIT_S)
    finally:
        released.set()
    until(lambda: not worker.busy)
    assert worker.call(lambda: 3, LIMIT_S) == 3
    worker.close()


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_who_asks_is_told_what_the_call_raised(error: BaseException) -> None:
    worker: CallThread[int] = CallThread("lastbeat-test")
    with pytest.raises(type(error)):
        worker.call(lambda: throw(error), LIMIT_S)
    assert worker.call(lambda: 4, LIMIT_S) == 4, "and its thread goes on"
    worker.close()


def test_a_signal_handler_may_ask_whatever_it_has_interrupted() -> None:
    # threading.Thread.start() holds a lock that a handler which interrupts it would wait for in vain.
    script = """
import signal, sys, threading, time
from lastbeat.stores.timed_calls import call_with_timeout
asked = 0
def handler(number, frame):
    global asked
    asked += call_with_timeout(lambda: 1, 30.0, 0)
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
while asked < 300:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
signal.setitimer(signal.ITIMER_REAL, 0)
"""
    assert status_of(script) == 0


def test_ctrl_c_while_it_is_waited_for_is_not_kept_back() -> None:
    script = """
import os, signal, sys, threading
from lastbeat.stores.timed_calls import call_with_timeout
release = threading.Event()
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    call_with_timeout(release.wait, 30.0, None)
except KeyboardInterrupt:
    sys.exit(7)
"""
    assert status_of(script) == 7
