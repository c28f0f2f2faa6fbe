"""Faults on purpose, in real trainings: what happens in training, what it says, and what watchers make of it."""

import json
import os
import signal
import subprocess
from contextlib import AbstractContextManager, ExitStack

from support.training import Site
from support.waiting import LIMIT_S, until

STEPS = """\
import os, time
import lastbeat
with lastbeat.run("run-1", total_steps=10_000) as run:
    step = 0
    while not os.path.exists("enough"):
        step += 1
        time.sleep(0.01)
        run.step(step, loss=1.0)
"""


def started(site: Site, script: str, fault: str, **env: str) -> AbstractContextManager["subprocess.Popen[str]"]:
    return site.running(script, LASTBEAT_SIMULATE_FAULT=fault, **env)


def trained(site: Site, fault: str, script: str = STEPS, **env: str) -> int:
    """Its exit status, once the fault has ended it."""
    with started(site, script, fault, **env) as process:
        return process.wait(LIMIT_S)


def test_a_preemption(directory: Site) -> None:
    script = STEPS.replace(
        "        run.step(step, loss=1.0)\n",
        "        run.step(step, loss=1.0)\n"
        "        if run.should_stop:\n"
        '            run.preempted("ckpt", step=step)\n'
        "            break\n",
    )
    assert trained(directory, "preempt:0:0.5", script) == 0
    assert "Received signal 15" in directory.said()
    assert directory.look_until("PREEMPTED")["exit"] == 1


def test_a_hang_answers_no_signal_and_is_late_in_its_step(directory: Site) -> None:
    step = STEPS.replace(
        "        time.sleep(0.01)\n", "        with run.section('step'):\n            time.sleep(0.01)\n"
    )
    script = f"import signal\nsignal.signal(signal.SIGTERM, lambda *_: print('handled', flush=True))\n{step}"
    with started(directory, script, "rank_hung:0:0.5", LASTBEAT_SECTION_TIMEOUTS="step:1") as process:
        until(lambda: "FT: Simulating fault: rank_hung" in directory.said())
        os.kill(process.pid, signal.SIGTERM)
        # Where the machine stood still, its beats are old at first: then nobody can say that it hangs.
        found = until(directory.look, lambda found: found["cause"] == "hang")
        assert (found["status"], found["reason"].partition(" for")[0]) == ("TIMED_OUT", "step")
        assert "handled" not in directory.said()
        assert process.poll() is None


def test_each_run_has_its_fault_once(directory: Site) -> None:
    assert trained(directory, "gpu_error:0:0.3") == 1
    mark = json.loads(directory.read("_simulated_fault.json") or "")
    assert (mark["type"], mark["rank"], mark["after_s"]) == ("gpu_error", 0, 0.3)
    assert "FT: Simulating fault: gpu_error; rank to fail: 0" in directory.said()
    found = directory.look_until("FAILED")
    assert (found["cause"], "simulated by lastbeat" in found["reason"]) == ("hardware", True)
    with started(directory, STEPS, "gpu_error:0:0.3") as process:
        until(lambda: "has had one" in directory.said())
        (directory.folder / "enough").touch()
        assert process.wait(LIMIT_S) == 0
    assert directory.look_until("SUCCEEDED")["attempt"] == 2


def test_a_store_that_cannot_be_written_means_no_fault(directory: Site) -> None:
    """Nobody knows whether there was one; a training that had one at each start would never get on."""
    directory.folder.mkdir(parents=True)
    (directory.folder / "runs").write_text("a file where a directory should be")
    # Its end does not wait until the store has it.
    with started(directory, f"{STEPS}    os._exit(0)\n", "rank_killed:0:0.1", MONITORING_ROOT="runs") as process:
        until(directory.said, lambda said: "cannot write" in said or "is off" in said)
        (directory.folder / "enough").touch()
        assert process.wait(LIMIT_S) == 0


def test_of_four_ranks_that_share_nothing_but_their_run_one_fails_and_all_agree_which(directory: Site) -> None:
    with ExitStack() as open_:
        env = {"LASTBEAT_SIMULATE_FAULT": "rank_killed::0.5", "WORLD_SIZE": "4"}
        ranks = [
            open_.enter_context(directory.running(STEPS, log=f"{rank}.log", RANK=str(rank), **env)) for rank in range(4)
        ]
        killed = until(lambda: [rank for rank, process in enumerate(ranks) if process.poll() == -signal.SIGKILL])
        assert len(killed) == 1
        until(lambda: f"rank_killed of rank {killed[0]}" in directory.said("0.log"))
        (directory.folder / "enough").touch()
        ends = [process.wait(LIMIT_S) for process in ranks]
    assert sorted(ends) == [-signal.SIGKILL, 0, 0, 0]
