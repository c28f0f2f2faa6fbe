"""A plain PyTorch loop on two ranks; ``ddp.py [RANK WHEN]`` lets that rank raise: early, late, or once."""

import os
import sys
import time

import torch
import torch.distributed as dist

import lastbeat

raises, when = (int(sys.argv[1]), sys.argv[2]) if len(sys.argv) > 1 else (-1, "")
rank = int(os.environ["RANK"])
if when == "early" and rank != raises:
    # The other rank fails before this one has begun to report.
    time.sleep(3)

run = lastbeat.start("ddp", total_steps=20)
if when == "early" and rank == raises:
    raise ValueError("no such data set")
if when == "once":
    # In the first attempt alone; before the ranks talk to each other, so that nothing else goes wrong.
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        if rank == raises:
            raise ValueError("only once")
        time.sleep(60)
    sys.exit(0)
# After an early failure the other rank waits here, in native code, until torchrun stops it.
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(20):
    if when == "late" and rank == raises and step == 10:
        raise ValueError("bad batch")
    loss = model(torch.ones(2, 4)).square().mean()
    loss.backward()
    optimizer.step()
    run.step(step, loss=loss.detach())
    time.sleep(0.05)
dist.destroy_process_group()
