"""A plain PyTorch loop on several ranks that stops early when any of them is told to; rank 0 saves one checkpoint.

``stops.py EVERY``. Each rank writes its process number, so that a test may signal one of them.
"""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import lastbeat
from frameworks.scripts.by_hand import Descent

rank, every = int(os.environ["RANK"]), int(sys.argv[1])
dist.init_process_group("gloo")
with lastbeat.run("stops") as run:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    descent = Descent(model)
    for step in range(1_000_000):
        descent.forget()
        loss = model(torch.ones(2, 4)).square().mean()
        loss.backward()
        descent.step()
        run.step(step, loss=loss.detach())
        if step == 5:
            Path(f"process-{rank}").write_text(str(os.getpid()), encoding="utf-8")
        if run.all_should_stop(every=every):
            if rank == 0:
                with Path("checkpoints").open("a", encoding="utf-8") as kept:
                    kept.write(f"{step}\n")
            run.preempted(f"checkpoints/step_{step}", step=step)
            break
        # Ranks differ in how long a step takes.
        time.sleep(0.002 * (rank + 1))
    Path(f"stopped-{rank}").write_text(f"{step} {run.stop_wanted}", encoding="utf-8")
    dist.barrier()
dist.destroy_process_group()
