"""A loop on several ranks; ``hangs.py WHERE RANK`` lets that rank hang in the first start: ``step`` or ``outside``."""

import os
import sys
import time

import torch
import torch.distributed as dist

import lastbeat

where, hangs = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
rank = dist.get_rank()
# The first time that ranks meet they connect, which on a busy machine takes longer than a section may.
dist.all_reduce(torch.ones(1))


def work(step: int) -> None:
    """What a rank does by itself."""
    if os.environ["LASTBEAT_RESTARTS_IN_PLACE"] == "0" and (step, rank) == (5, hangs):
        time.sleep(10_000)


with lastbeat.run(total_steps=20) as run:
    for step in range(20):
        if where == "outside":
            with run.section("step"):
                time.sleep(0.01)
            # All are told of the step before they meet: the one that hangs is behind.
            work(step)
        else:
            with run.section("step"):
                work(step)
        run.step(step)
        dist.all_reduce(torch.ones(1))
dist.destroy_process_group()
