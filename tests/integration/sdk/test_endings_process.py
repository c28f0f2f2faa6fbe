"""How a process with ``lastbeat.start()`` ends, and what the watchdog then says."""

import signal
from dataclasses import dataclass, replace

import pytest

from support.training import Site, end
from support.waiting import until

START = """\
import ctypes, os, signal, sys, threading, time
import lastbeat
run = lastbeat.start("run-1", total_steps=10)
for step in range(3):
    run.step(step, loss=2.0 - step)
def told():
    while run._reporter._written_steps < run.steps:
        time.sleep(0.005)
"""


@dataclass(frozen=True)
class End:
    """How the script goes on, its exit status, and what the watchdog says of it."""

    script: str
    exit: int
    status: str
    cause: str | None = None
    reason: str = ""
    said: str = ""


ENDS = [
    pytest.param(End("", 0, "SUCCEEDED"), id="the script's last line completes the run"),
    pytest.param(
        End("raise ValueError('bad batch')", 1, "FAILED", "exception", "bad batch", "ValueError: bad batch"),
        id="an uncaught exception fails it, and Python still shows it",
    ),
    pytest.param(End("sys.exit(0)", 0, "SUCCEEDED"), id="sys.exit(0) completes it"),
    pytest.param(End("sys.exit()", 0, "SUCCEEDED"), id="sys.exit() completes it"),
    pytest.param(
        End("sys.exit(3)", 3, "FAILED", reason="training ended with exit status 3"), id="sys.exit(3) fails it"
    ),
    pytest.param(End("exit(3)", 3, "FAILED", reason="training ended with exit status 3"), id="so does exit(3)"),
    pytest.param(
        End("sys.exit('no data')", 1, "FAILED", reason="no data", said="no data"),
        id="sys.exit(text) fails it with the text",
    ),
    pytest.param(End("sys.exit([])", 1, "FAILED", reason="[]"), id="so does whatever else sys.exit is given"),
    pytest.param(
        End("try:\n    sys.exit(3)\nexcept SystemExit:\n    print('went on')", 0, "SUCCEEDED", said="went on"),
        id="an exit that is caught is none",
    ),
    pytest.param(
        End(
            "told(); os.kill(os.getpid(), signal.SIGINT); time.sleep(60)",
            -signal.SIGINT,
            "CANCELLED",
            "cancelled",
            "Ctrl-C",
        ),
        id="Ctrl-C is a cancelled run",
    ),
    pytest.param(
        End("os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)", -signal.SIGTERM, "FAILED", "cancelled", "SIGTERM"),
        id="SIGTERM is a cancelled run, and the process still dies by SIGTERM",
    ),
    pytest.param(
        End(
            "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
            "os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)",
            7,
            "FAILED",
            reason="training ended with exit status 7",
        ),
        id="a handler for SIGTERM that training sets afterwards is the one that counts",
    ),
    pytest.param(
        End("run.complete()\nraise ValueError('while cleaning up')", 1, "SUCCEEDED", said="ValueError"),
        id="what comes after run.complete() is not the run's any more",
    ),
    pytest.param(
        End("run.fail('loss exploded'); run.fail('again'); run.complete()", 0, "FAILED", reason="loss exploded"),
        id="of several ends the first one counts",
    ),
]


@pytest.mark.parametrize("case", ENDS)
def test_an_end_that_python_tells_of(site: Site, case: End) -> None:
    trained = site.train(START + case.script)
    assert trained.exit == case.exit, trained.said
    assert case.said in trained.said
    # The daemon thread must leave no trace of its own in what training says.
    assert "lastbeat" not in trained.said.replace("lastbeat.start", ""), trained.said
    found = site.look()
    assert found["status"] == case.status, found
    assert case.cause in {None, found["cause"]}
    assert case.reason in found["reason"]
    assert found["step"] == 2


DEATHS = [
    pytest.param("os._exit(0)", 0, id="os._exit"),
    pytest.param("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, id="SIGKILL"),
    pytest.param("ctypes.string_at(0)", -signal.SIGSEGV, id="SIGSEGV"),
]


@pytest.mark.parametrize(("death", "status"), DEATHS)
def test_a_death_that_nobody_tells_of_is_a_time_out(site: Site, death: str, status: int) -> None:
    # As where its guardian goes down with it, or is switched off.
    trained = site.train(_dying(death), LASTBEAT_GUARDIAN="off")
    assert trained.exit == status, trained.said
    found = site.look_until("TIMED_OUT")
    assert found["reason"] == "Both heartbeats stale (>0.05m)"
    assert found["step"] == 2
    assert site.read("_error") is None
    assert site.read("_complete") is None


def _dying(death: str) -> str:
    # Only after the first heartbeat: before it there is no run to miss.
    return START + f"told()\n{death}\n"


def test_a_handler_that_training_had_before_is_left_alone(site: Site) -> None:
    script = """\
    import os, signal, sys, time
    import lastbeat
    def save_and_leave(number, frame):
        print("saved")
        sys.exit(0)
    signal.signal(signal.SIGTERM, save_and_leave)
    run = lastbeat.start("run-1")
    assert signal.getsignal(signal.SIGTERM) is save_and_leave
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
    """
    trained = site.train(script)
    assert (trained.exit, trained.said) == (0, "saved\n")
    assert site.look()["status"] == "SUCCEEDED"


def test_a_signal_from_outside_while_training_sleeps(directory: Site) -> None:
    process = directory.start(START + "print('asleep', flush=True)\ntime.sleep(600)")
    try:
        until(lambda: "asleep" in directory.said())
        until(lambda: directory.read("progress.json"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM
    finally:
        end(process)
    found = directory.look()
    assert (found["status"], found["cause"]) == ("FAILED", "cancelled")


def test_two_runs_of_one_process_end_with_it(site: Site) -> None:
    script = """\
    import lastbeat
    one, two = lastbeat.start("one"), lastbeat.start("two")
    one.step(1)
    two.step(2)
    one.complete()
    raise RuntimeError("after the first")
    """
    assert site.train(script).exit == 1
    assert site.look("one")["status"] == "SUCCEEDED"
    found = site.look("two")
    assert (found["status"], found["step"]) == ("FAILED", 2)


def test_two_runs_that_the_end_of_the_process_completes(site: Site) -> None:
    script = 'import lastbeat\none, two = lastbeat.start("one"), lastbeat.start("two")\none.step(1)\ntwo.step(2)\n'
    assert site.train(script).exit == 0
    assert [site.look(name)["status"] for name in ("one", "two")] == ["SUCCEEDED", "SUCCEEDED"]


@pytest.mark.parametrize("ending", ["", "sys.exit(5)"], ids=["normal end", "sys.exit(5)"])
def test_a_run_that_nobody_ends_does_not_disturb_the_end_of_the_interpreter(site: Site, ending: str) -> None:
    # Beats follow one another without a pause, so that the interpreter goes away in the middle of one.
    script = """\
    import sys, time, threading
    import lastbeat
    runs = [lastbeat.run(f"run-{n}") for n in range(3)]
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        for run in runs:
            run.step(time.monotonic_ns())
    """
    site = replace(site, env={**site.env, "STALE_MINUTES": "10"})
    trained = site.train(script + f"    {ending}\n", LASTBEAT_BEAT_SECONDS="0.001")
    status = 5 if ending else 0
    assert trained.exit == status, trained.said
    assert trained.said == ""
    for n in range(3):
        assert f"ended with exit status {status}, before its run" in site.look_until("FAILED", f"run-{n}")["reason"]


def test_a_signal_handler_that_reports_while_training_reports(site: Site) -> None:
    script = """\
    import signal, time
    import lastbeat
    run = lastbeat.start("run-1")
    called = 0
    def report(number, frame):
        global called
        called += 1
        run.step(called, loss=1.0)
        with run.phase("in the handler"):
            pass
        if called > 300:
            run.complete(wait_s=0.0)
    signal.signal(signal.SIGALRM, report)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    while called <= 300:
        run.step(called, loss=2.0)
        with run.phase("in the loop"):
            pass
    for _ in range(100):
        run.complete()
    signal.setitimer(signal.ITIMER_REAL, 0)
    """
    trained = site.train(script, LASTBEAT_BEAT_SECONDS="0.001")
    assert (trained.exit, trained.said) == (0, "")
    assert site.look()["status"] == "SUCCEEDED"
