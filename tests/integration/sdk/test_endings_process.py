"""How a process with ``lastbeat.start()`` ends, and what the watchdog then says."""

import signal

import pytest

from support.training import WRITTEN, Site

START = f"""\
import os, signal, sys, threading, time
import lastbeat
{WRITTEN}
run = lastbeat.start("run-1", total_steps=10)
for step in range(3):
    run.step(step, loss=2.0 - step)
"""
SIGTERM = "os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)"
HANDLER = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\nos.kill(os.getpid(), signal.SIGTERM); time.sleep(60)"
CAUGHT = "try:\n    sys.exit(3)\nexcept SystemExit:\n    print('went on')"
ENDS = [
    pytest.param("", 0, "SUCCEEDED", "", "", id="the script's last line completes the run"),
    pytest.param("raise ValueError('bad batch')", 1, "FAILED", "bad batch", "ValueError: bad batch",
                 id="an uncaught exception fails it, and Python still shows it"),
    pytest.param("exit('no data')", 1, "FAILED", "no data", "no data", id="exit(text) fails it with the text"),
    pytest.param(CAUGHT, 0, "SUCCEEDED", "", "went on", id="an exit that is caught is none"),
    pytest.param("written(run); os.kill(os.getpid(), signal.SIGINT); time.sleep(60)", -signal.SIGINT, "CANCELLED",
                 "Ctrl-C", "", id="Ctrl-C is a cancelled run"),
    pytest.param(SIGTERM, -signal.SIGTERM, "FAILED", "SIGTERM", "",
                 id="SIGTERM is a cancelled run, and the process still dies by SIGTERM"),
    pytest.param(HANDLER, 7, "FAILED", "training ended with exit status 7", "",
                 id="a handler for SIGTERM that training sets afterwards is the one that counts"),
]  # fmt: skip


@pytest.mark.parametrize(("script", "exits", "status", "reason", "said"), ENDS)
def test_an_end_that_python_tells_of(
    directory: Site, script: str, exits: int, status: str, reason: str, said: str
) -> None:
    trained = directory.train(START + script)
    assert trained.exit == exits, trained.said
    assert said in trained.said
    # The daemon thread must leave no trace of its own in what training says.
    assert "lastbeat" not in trained.said.replace("lastbeat.start", ""), trained.said
    found = directory.look()
    assert (found["status"], found["step"]) == (status, 2), found
    assert reason in found["reason"]
    # An exit status alone names no cause.
    causes = {"bad batch": "exception", "SIGTERM": "cancelled", "Ctrl-C": "cancelled"}
    assert found["cause"] == causes.get(reason, found["cause"])


def test_a_death_that_nobody_tells_of_is_a_time_out(directory: Site) -> None:
    # As where its guardian goes down with it, or is switched off. Before the first heartbeat there is no run to miss.
    trained = directory.train(f"{START}written(run)\nos.kill(os.getpid(), 9)\n", LASTBEAT_GUARDIAN="off")
    assert trained.exit == -signal.SIGKILL, trained.said
    found = directory.impatient().look_until("TIMED_OUT")
    assert (found["reason"], found["step"]) == ("Both heartbeats stale (>0.05m)", 2)
    assert directory.read("_error") is None
    assert directory.read("_complete") is None


def test_a_handler_that_training_had_before_is_left_alone(directory: Site) -> None:
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
    trained = directory.train(script)
    assert (trained.exit, trained.said) == (0, "saved\n")
    assert directory.look()["status"] == "SUCCEEDED"


def test_two_runs_of_one_process_end_with_it(directory: Site) -> None:
    script = """\
    import lastbeat
    one, two = lastbeat.start("one"), lastbeat.start("two")
    one.step(1)
    two.step(2)
    one.complete()
    raise RuntimeError("after the first")
    """
    assert directory.train(script).exit == 1
    assert directory.look("one")["status"] == "SUCCEEDED"
    found = directory.look("two")
    assert (found["status"], found["step"]) == ("FAILED", 2)


def test_a_run_that_nobody_ends_does_not_disturb_the_end_of_the_interpreter(site: Site) -> None:
    # Beats follow one another without a pause, so that the interpreter goes away in the middle of one.
    script = """\
    import sys
    import lastbeat
    runs = [lastbeat.run(f"run-{n}") for n in range(3)]
    steps = 0
    while any(run._reporter._rank is None or run._reporter._rank._written_steps < 10 for run in runs):
        steps += 1
        for run in runs:
            run.step(steps)
    sys.exit(5)
    """
    trained = site.train(script, LASTBEAT_BEAT_SECONDS="0.001")
    assert (trained.exit, trained.said) == (5, "")
    for n in range(3):
        assert "ended with exit status 5, before its run" in site.look_until("FAILED", f"run-{n}")["reason"]


def test_a_signal_handler_that_reports_while_training_reports(directory: Site) -> None:
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
    trained = directory.train(script, LASTBEAT_BEAT_SECONDS="0.001")
    assert (trained.exit, trained.said) == (0, "")
    assert directory.look()["status"] == "SUCCEEDED"


def test_a_process_without_a_descriptor_left_begins_and_ends_a_run_all_the_same(directory: Site) -> None:
    script = """\
    import os, resource
    import lastbeat
    import lastbeat.training.entry, lastbeat.training.sdk.process_exit, lastbeat.training.sdk.log_shipping
    lastbeat.training.entry.load()  # It imports what it reads settings for.
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    held = []
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    run = lastbeat.start("run-1", log_file="train.log", capture=True)
    run.step(1)
    for descriptor in held:
        os.close(descriptor)
    """
    assert directory.train(script, PYTHONWARNINGS="default").exit == 0
    assert directory.look()["status"] == "SUCCEEDED"
