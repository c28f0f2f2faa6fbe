"""Four ranks that train with the re-run state machine, on chips with made-up names: one of them may be broken.

python rerun.py KIND: transient, persistent, deterministic or none, in the loss of rank 2 at step 7.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import lastbeat
from frameworks.scripts.by_hand import Descent
from lastbeat.rerun import RerunDataIterator, RerunStateMachine

kind = sys.argv[1]
dist.init_process_group("gloo")
rank, attempt = dist.get_rank(), int(os.environ.get("LASTBEAT_ATTEMPT", "1"))
# The second job of a broken chip gets the same chips, the third one others.
node = "a" if attempt <= (2 if kind == "persistent" else 1) else "b"
chip = f"GPU-{node}{rank}"

torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
descent = Descent(model)
torch.manual_seed(100 + rank)
rerun = RerunStateMachine(mode="validate_results", device=chip)


def loader(first: int) -> Iterator[torch.Tensor]:
    for step in range(first, 12):
        generator = torch.Generator().manual_seed(1000 * rank + step)
        yield torch.randn(16, 8, generator=generator)


first, batches = 0, RerunDataIterator(loader(0))
if place := os.environ.get("LASTBEAT_RESUME_FROM"):
    saved = torch.load(Path(place, "model.pt"))
    model.load_state_dict(saved["model"])
    descent.load(saved["descent"])
    first = saved["step"]
    # The batch of that step is in the state.
    batches = RerunDataIterator(loader(first + 1))
    rerun.load_state_dict(torch.load(Path(place, f"rerun-{rank}.pt")))


def save(step: int) -> None:
    place = Path("ckpt", f"step_{step}")
    place.mkdir(parents=True, exist_ok=True)
    torch.save(rerun.state_dict(batches), place / f"rerun-{rank}.pt")
    if rank == 0:
        torch.save({"model": model.state_dict(), "descent": descent.state(), "step": step}, place / "model.pt")
    dist.barrier()
    if rank == 0:
        (place / "commit_success.txt").touch()
    dist.barrier()


def spoilt(loss: torch.Tensor, step: int, passes: int) -> torch.Tensor:
    if rank == 2 and step == 7:
        broken = {"transient": passes == 0 and attempt == 1, "persistent": node == "a", "deterministic": True}
        if broken.get(kind):
            return loss * float("nan")
    return loss


seen: list[list[Any]] = []
with lastbeat.run("run", rank=rank, world_size=dist.get_world_size()) as run:
    for step in range(first, 12):
        passes = 0
        while rerun.should_run_forward_backward(batches):
            descent.forget()
            data = next(batches)
            loss = spoilt(torch.nn.functional.mse_loss(model(data), data.sum(dim=1, keepdim=True)), step, passes)
            rerun.validate(loss)
            loss.backward()
            passes += 1
        seen.append([step, passes, loss.item(), [each.verdict.value for each in rerun.verdicts]])
        Path(f"seen-{attempt}-{rank}.json").write_text(json.dumps(seen))
        should_checkpoint, should_exit, exit_code = rerun.should_checkpoint_and_exit()
        if should_checkpoint:
            save(step)
        if should_exit:
            dist.barrier()
            sys.exit(exit_code)
        if not rerun.verdicts or rerun.verdicts[0].verdict.value != "correct_result":
            descent.step()
        run.step(step, loss=loss.detach())
dist.barrier()
dist.destroy_process_group()
