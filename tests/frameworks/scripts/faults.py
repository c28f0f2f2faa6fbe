"""A plain PyTorch loop on several ranks with sections and checkpoints, which goes on from the newest one.

``faults.py STEPS``. Rank 0 leaves the last loss in ``final``. Whatever happens on the way, it is the same at the end.
"""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import lastbeat
from frameworks.scripts.by_hand import Descent

rank, steps = int(os.environ["RANK"]), int(sys.argv[1])
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
descent = Descent(model)
data = torch.randn(64, 8, generator=torch.Generator().manual_seed(1 + rank))
target = data.sum(dim=1, keepdim=True)
first = 0
# Where no signal is named, one that comes before training has looked for it ends it.
with lastbeat.run("faults", total_steps=steps, exit_signal="SIGTERM") as run:
    with run.section("setup"):
        dist.init_process_group("gloo")
        if place := os.environ.get("LASTBEAT_RESUME_FROM"):
            saved = torch.load(place)
            model.load_state_dict(saved["model"])
            descent.load(saved["descent"])
            first = saved["step"]

    def save(step: int) -> str:
        """Its checkpoint, whole or not there at all."""
        place = Path("ckpt", f"step_{step}.pt")
        if rank == 0:
            state = {"model": model.state_dict(), "descent": descent.state(), "step": step}
            torch.save(state, place.with_suffix(".new"))
            place.with_suffix(".new").rename(place)
        return str(place)

    for step in range(first + 1, steps + 1):
        with run.section("step"):
            with run.section("compute"):
                loss = torch.nn.functional.mse_loss(model(data), target)
                time.sleep(0.05)
            descent.forget()
            loss.backward()
            descent.step()
        run.step(step, loss=loss.detach())
        if rank == 0 and step == first + 1:
            with Path("first_steps").open("a", encoding="utf-8") as kept:
                kept.write(f"{step} {time.time()}\n")
        if step % 10 == 0:
            with run.section("checkpointing"):
                save(step)
                dist.barrier()
        if run.all_should_stop():
            run.preempted(save(step), step=step)
            break
    else:
        mean = loss.detach()
        dist.all_reduce(mean)
        if rank == 0:
            Path("final").write_text(f"{mean.item() / dist.get_world_size():.12e}", encoding="utf-8")
dist.destroy_process_group()
