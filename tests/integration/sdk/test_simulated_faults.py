"""Faults on purpose, in real trainings: what happens in training, what it says, and what watchers make of it."""

import json
import os
import signal
import subprocess
from contextlib import AbstractContextManager, ExitStack

import pytest

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
SECTIONS = """\
import os, sys, time
import lastbeat
run = lastbeat.start("run-1")

@run.section("checkpointing")
def save():
    print("saving", flush=True)

step = 0
while not os.path.exists("enough"):
    step += 1
    with run.section("step"):
        print("in the step", flush=True)
        time.sleep(0.01)
    run.step(step, loss=1.0)
    if step % 20 == 0:
        save()
"""


def started(site: Site, script: str, fault: str, **env: str) -> AbstractContextManager["subprocess.Popen[str]"]:
    return site.running(script, LASTBEAT_SIMULATE_FAULT=fault, **env)


def trained(site: Site, fault: str, script: str = STEPS, **env: str) -> int:
    """Its exit status, once the fault has ended it."""
    with started(site, script, fault, **env) as process:
        return process.wait(LIMIT_S)


def test_a_killed_process(directory: Site) -> None:
    assert trained(directory, "rank_killed:0:0.5") == -signal.SIGKILL
    assert "FT: Simulating fault: rank_killed; rank to fail: 0" in directory.said()
    assert "SIGKILL" in directory.look_until("FAILED")["reason"]


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
    script = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: print('handled', flush=True))\n" + SECTIONS
    with started(directory, script, "rank_hung:0:0.5", LASTBEAT_SECTION_TIMEOUTS="step:1") as process:
        until(lambda: "FT: Simulating fault: rank_hung" in directory.said())
        os.kill(process.pid, signal.SIGTERM)
        # Where the machine stood still, its beats are old at first: then nobody can say that it hangs.
        found = until(directory.look, lambda found: found["cause"] == "hang")
        assert (found["status"], found["reason"].partition(" for")[0]) == ("TIMED_OUT", "step")
        assert "handled" not in directory.said()
        assert process.poll() is None


def test_a_loss_that_is_not_a_number(directory: Site) -> None:
    with started(directory, STEPS, "nan:0:0.5") as process:
        until(lambda: "loss_nan" in directory.look()["conditions"])
        assert process.poll() is None


def test_a_slow_rank_is_slow_where_no_other_waits_for_it(directory: Site) -> None:
    script = SECTIONS.replace(
        "        time.sleep(0.01)\n",
        "        began = time.monotonic()\n        with run.section('compute'):\n            time.sleep(0.05)\n"
        "        print('computed', time.monotonic() - began, flush=True)\n        time.sleep(0.05)\n",
    )
    with started(directory, script, "slow_rank:0:1"):
        until(lambda: directory.said().partition("FT: Simulating")[2].count("computed") > 10)
    after = directory.said().partition("as asked, FT: Simulating")[2]
    computed = [float(line.split()[1]) for line in after.splitlines() if line.startswith("computed")]
    # The first may have begun before the fault. Any other takes its own 0.05 s, and once more what a step takes.
    assert min(computed[1:]) >= 0.15, "all that it is late by"


def test_where_training_has_sections_a_full_disk_happens_in_one(directory: Site) -> None:
    assert trained(directory, "disk_full:0:0.3", SECTIONS) == 1
    before_trace = directory.said().partition("Traceback")[0].splitlines()
    assert "as asked" in before_trace[-1]
    # The section that it was in was left: nothing is late.
    assert "enter" in directory.said()
    assert directory.look_until("FAILED")["cause"] == "storage"


def test_a_section_that_has_a_limit_counts_before_it_was_ever_entered(directory: Site) -> None:
    with started(directory, STEPS, "disk_full:0:0.2", LASTBEAT_SECTION_TIMEOUTS="step:60,checkpointing:60") as process:
        until(lambda: directory.read("_simulated_fault.json"))
        seen = json.loads(directory.read("progress.json") or "{}").get("step", 0)
        until(lambda: json.loads(directory.read("progress.json") or "{}").get("step", 0), lambda step: step > seen + 20)
        assert process.poll() is None


def test_a_training_that_logs_instead_of_stepping(directory: Site) -> None:
    assert trained(directory, "gpu_error:0:0.3", STEPS.replace("run.step(step, loss=1.0)", "run.log(loss=1.0)")) == 1


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


NO_FAULTS = [
    pytest.param("10_000)", "gpu_error:7:0", "no rank 7 among 1", id="a rank that is not there"),
    pytest.param("10_000, simulate_fault='gpu_eror')", "", "did you mean gpu_error", id="a slip"),
    pytest.param("10_000, simulate_fault=3)", "", "is no text", id="a number"),
]


@pytest.mark.parametrize(("argument", "fault", "said"), NO_FAULTS)
def test_what_cannot_be_simulated_is_said_and_training_goes_on(
    directory: Site, argument: str, fault: str, said: str
) -> None:
    with started(directory, STEPS.replace("10_000)", argument), fault) as process:
        until(lambda: said in directory.said().lower())
        (directory.folder / "enough").touch()
        assert process.wait(LIMIT_S) == 0


def test_the_argument_outranks_the_setting(directory: Site) -> None:
    script = STEPS.replace("10_000)", "10_000, simulate_fault='disk_full:0:0.2')")
    assert trained(directory, "rank_killed:0:0", script) == 1
    assert "No space left on device" in directory.said()


LAUNCHES = [
    pytest.param({"MASTER_PORT": "29511"}, id="of one launch"),
    pytest.param({}, id="that share nothing but their run"),
]


@pytest.mark.parametrize("launch", LAUNCHES)
def test_of_four_ranks_one_fails_and_all_agree_which(directory: Site, launch: dict[str, str]) -> None:
    with ExitStack() as open_:
        env = {"LASTBEAT_SIMULATE_FAULT": "rank_killed::0.5", "WORLD_SIZE": "4", **launch}
        ranks = [
            open_.enter_context(directory.running(STEPS, log=f"{rank}.log", RANK=str(rank), **env)) for rank in range(4)
        ]
        killed = until(lambda: [rank for rank, process in enumerate(ranks) if process.poll() == -signal.SIGKILL])
        assert len(killed) == 1
        until(lambda: f"rank_killed of rank {killed[0]}" in directory.said("0.log"))
        (directory.folder / "enough").touch()
        ends = [process.wait(LIMIT_S) for process in ranks]
    assert sorted(ends) == [-signal.SIGKILL, 0, 0, 0]


def test_nobody_who_does_not_ask_loads_it(directory: Site) -> None:
    script = (
        "import sys, lastbeat\nwith lastbeat.run('run-1') as run:\n    run.step(1)\n"
        "print('simulated' in ' '.join(sys.modules))\n"
    )
    done = directory.train(script)
    assert (done.exit, done.said) == (0, "False\n")
