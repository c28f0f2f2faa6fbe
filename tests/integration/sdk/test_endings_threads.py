"""Exceptions that end only a thread of training: how the process ends decides, and people are told of both."""

import json
import signal
import textwrap

import pytest

from support.training import WRITTEN, Site
from support.waiting import LIMIT_S, until

START = f"""\
import os, queue, signal, sys, threading, time
import lastbeat
{WRITTEN}
def work():
    raise ValueError("shard 7 is torn")
def die(name="loader"):
    thread = threading.Thread(target=work, name=name)
    thread.start()
    thread.join()
"""
PROCESS = START + 'run = lastbeat.start("run-1")\nrun.step(1)\n'
NOTE = "a thread of it had ended with an exception: loader: ValueError: shard 7 is torn"


SUCCEEDED = "Training completed (_complete found)"
LATER = "threading.Thread(target=lambda: (time.sleep(0.3), work()), name='loader').start()"
ENDS = [
    pytest.param("die()", 0, "SUCCEEDED", f"{SUCCEEDED}; {NOTE}", None, id="a process that ends well has succeeded"),
    pytest.param("die(); die('other'); run.complete()", 0, "SUCCEEDED", f"{SUCCEEDED}; {NOTE}", None,
                 id="the first of several is told"),
    pytest.param(LATER, 0, "SUCCEEDED", f"{SUCCEEDED}; {NOTE}", None, id="a thread that outlives the main thread"),
    pytest.param("die(); sys.exit(3)", 3, "FAILED", f"SystemExit: training ended with exit status 3; {NOTE}",
                 "exception", id="an exit status fails it, and the thread's error explains it"),
    pytest.param("die(); os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)", -signal.SIGTERM, "FAILED",
                 f"Cancelled: received signal 15 (SIGTERM); {NOTE}", "cancelled", id="somebody ends what hangs since"),
    pytest.param("threading.Thread(target=sys.exit, args=(3,)).start()", 0, "SUCCEEDED", SUCCEEDED, None,
                 id="a thread that only exits says nothing"),
    pytest.param("die = threading.Thread(target=sys.exit, args=(3,)); die.start(); die.join(); raise SystemExit", 0,
                 "SUCCEEDED", SUCCEEDED, None, id="nor where the main thread leaves without a word"),
]  # fmt: skip


@pytest.mark.parametrize(("script", "exits", "status", "reason", "cause"), ENDS)
def test_a_thread_that_dies_is_not_training_that_dies(
    directory: Site, script: str, exits: int, status: str, reason: str, cause: str | None
) -> None:
    trained = directory.train(PROCESS + script)
    assert trained.exit == exits, trained.said
    found = directory.look()
    assert (found["status"], found["reason"], found["cause"]) == (status, reason, cause)
    if NOTE in reason:
        # Python shows it as ever.
        assert "ValueError: shard 7 is torn" in trained.said
        told = json.loads(directory.read("metadata.json") or "")
        assert told["thread_error"] == "loader: ValueError: shard 7 is torn"
    if NOTE in reason and status == "SUCCEEDED":
        # The log and the sentinel say that it counts as a success.
        line = "a thread of this training ended with an exception (loader: ValueError: shard 7 is torn); "
        assert trained.said.count(line) == 1
        complete = directory.read("_complete") or ""
        assert complete.startswith("Thread loader of this process ended with an exception at ")
        assert 'raise ValueError("shard 7 is torn")' in complete


def test_the_end_of_a_block_is_told_with_it(directory: Site) -> None:
    block = "with lastbeat.run('run-1') as run:\n    run.step(1)\n    die()\n    raise RuntimeError('no data')\n"
    trained = directory.train(START + block)
    found = directory.look()
    assert (found["status"], found["reason"]) == ("FAILED", f"RuntimeError: no data; {NOTE}"), trained.said


def test_a_thread_that_died_outside_of_a_block_is_not_its_own(directory: Site) -> None:
    directory.train(START + 'die()\nwith lastbeat.run("run-1"):\n    pass\ndie()\n')
    assert directory.look()["reason"] == SUCCEEDED


def test_a_training_that_falls_silent_has_said_what_may_be_the_reason(directory: Site) -> None:
    with directory.running(PROCESS + "written(run)\ndie()\nqueue.Queue().get()\n", LASTBEAT_GUARDIAN="off") as process:
        until(lambda: "thread_error" in (directory.read("metadata.json") or ""))
        process.kill()
        process.wait(LIMIT_S)
    assert directory.impatient().look_until("TIMED_OUT")["reason"] == f"Both heartbeats stale (>0.05m); {NOTE}"


def test_a_training_that_hangs_since_says_so_at_once(directory: Site) -> None:
    with directory.running(PROCESS + "written(run)\ndie()\nqueue.Queue().get()\n", LASTBEAT_BEAT_SECONDS="3600"):
        until(lambda: "thread_error" in (directory.read("metadata.json") or ""))
        found = directory.look()
        assert (found["status"], found["exit"]) == ("RUNNING", 0)
        assert found["reason"].endswith(f"; {NOTE}")


def test_hooks_that_training_chains_are_all_called(directory: Site) -> None:
    chained = """\
    import threading
    def hook(name, before):
        def called(args):
            print(name, args.exc_type.__name__, flush=True)
            before(args)
        return called
    threading.excepthook = hook("before", threading.excepthook)
    """
    after = 'threading.excepthook = hook("after", threading.excepthook)\nother = lastbeat.start("run-2")\ndie()\n'
    trained = directory.train(textwrap.dedent(chained) + PROCESS + after)
    assert [line for line in trained.said.splitlines() if line.endswith(" ValueError")] == [
        "after ValueError",
        "before ValueError",
    ]
    for run_id in ("run-1", "run-2"):
        assert directory.look(run_id)["reason"].endswith(NOTE)


def test_nothing_of_a_thread_that_died_is_kept_alive(directory: Site) -> None:
    script = (
        PROCESS
        + """
import gc, time, weakref
class Weights: pass
def hold():
    weights = Weights()
    kept.append(weakref.ref(weights))
    raise ValueError("out of memory")
kept = []
thread = threading.Thread(target=hold); thread.start(); thread.join()
del thread
# A beat that looks at all threads has their frames for a moment.
limit = time.monotonic() + 100
while kept[0]() is not None and time.monotonic() < limit:
    time.sleep(0.01)
    gc.collect()
assert kept[0]() is None, "its frames are kept, and all that they hold"
assert run.thread_error is not None
"""
    )
    trained = directory.train(script)
    assert trained.exit == 0, trained.said


def test_an_exception_of_a_forked_childs_thread_is_the_childs(directory: Site) -> None:
    script = PROCESS + "if os.fork() == 0:\n    die()\n    os._exit(0)\nos.wait()\n"
    directory.train(script)
    assert directory.look()["reason"] == SUCCEEDED
