"""Four ranks that compute, and then reduce, in step; ``stragglers.py WHO HOW MEASURED``.

WHO is the rank that is slow, ``all`` or ``none``. HOW is ``sleep`` or ``pressure`` (it is kept from its CPU).
MEASURED is ``section``, or ``hooks``: then what collectives leave of a step counts. Training ends once the run's
heartbeat says what is expected, or after many reports.
"""

import json
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import lastbeat
from lastbeat.integrations.torch import watch_steps

EXPECTED, MOST_REPORTS, LIMIT_S = 4, 60, 150.0
who, how, section = sys.argv[1], sys.argv[2], sys.argv[3] == "section"
rank = int(os.environ["RANK"])
is_slow = who in {"all", str(rank)}


def hold_up(process: int) -> None:
    """Let ``process`` run for a quarter of the time, in pieces shorter than a step. What else a busy machine has to do
    holds all ranks up alike, so it stays the slow one."""
    # Told to end, it leaves none stopped.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    while signal.sigtimedwait({signal.SIGTERM}, 0.02) is None and os.getppid() == process:
        os.kill(process, signal.SIGSTOP)
        time.sleep(0.06)
        os.kill(process, signal.SIGCONT)


def compute(windows: float) -> None:
    if how == "pressure":
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass
        return
    # A busy machine adds to each of these as much again, and more.
    time.sleep(0.04)
    if is_slow:
        # What is slow from the start is no slower than it was.
        late = max(0.0, windows - 1.5) if who == "all" else 1.0
        time.sleep(0.2 * min(late, 1.0))


def told() -> dict[str, Any]:
    metadata = Path(os.environ["MONITORING_ROOT"]) / "stragglers/metadata.json"
    found: dict[str, Any] = json.loads(metadata.read_text(encoding="utf-8")).get("stragglers", {})
    return found


if how == "pressure" and is_slow:
    multiprocessing.get_context("fork").Process(target=hold_up, args=(os.getpid(),), daemon=True).start()
dist.init_process_group("gloo")
with lastbeat.run("stragglers", stragglers=os.environ.get("WORD", "on")) as run:
    watch_steps(run)
    began, over = time.monotonic(), torch.zeros(1)
    every_s = float(os.environ["LASTBEAT_STRAGGLERS"].removeprefix("seconds:"))
    for step in range(1_000_000):
        spent_s = time.monotonic() - began
        if section:
            with run.section("compute"):
                compute(spent_s / every_s)
        else:
            compute(spent_s / every_s)
        if rank == 0 and step % 10 == 0 and step:
            report = told()
            number = report.get("number", 0)
            named = report.get("count", 0) != 0
            if who == "none":
                expected = number >= EXPECTED
            else:
                expected = named if who != "all" else report.get("slow") is not None and not named
            over[0] = float(expected or number >= MOST_REPORTS)
            over[0] = max(over[0], float(spent_s > LIMIT_S))
            over[0] = 0.0 if os.environ.get("WORD") == "stop" and spent_s < LIMIT_S else over[0]
            # The last heartbeat may have a later report, of a window that the end cut short.
            Path(os.environ["SEEN"]).write_text(json.dumps(report), encoding="utf-8")
        # All wait for the slowest here.
        dist.all_reduce(over, op=dist.ReduceOp.MAX)
        run.step(step)
        if run.all_should_stop():
            run.preempted(f"checkpoints/step_{step}", step=step)
            break
        if over.item():
            break
    dist.barrier()
dist.destroy_process_group()
