"""A real little PyTorch training on the CPU: ``train.py CASE WAY FOLDER``.

It trains until the file ``go`` is in FOLDER, and then ends as CASE says. WAY is who it reports to: ``sdk``, ``wandb``,
``knockknock``, or ``plain``, which only prints. FOLDER/rank-N.json says which process it is, FOLDER/event-N.json when
and at which step it came to its end.
"""

import ctypes
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch

CASE, WAY, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3])
RANK, WORLD_SIZE = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
TOTAL_STEPS = 100_000
Report = Callable[[int, float], None]


def write(name: str, document: dict[str, object]) -> None:
    path = FOLDER / f"{name}-{RANK}.json"
    path.with_suffix(".new").write_text(json.dumps(document), encoding="utf-8")
    path.with_suffix(".new").replace(path)


def say(step: int, loss: float) -> None:
    sys.stdout.write(f"step {step}/{TOTAL_STEPS} loss {loss:.4f}\n")
    sys.stdout.flush()


def event(step: int) -> None:
    """What this case is about happens now."""
    write("event", {"at": time.time(), "step": step})


def train(report: Report) -> None:
    torch.manual_seed(RANK)
    model: torch.nn.Module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    if WORLD_SIZE > 1:
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    for step in range(1, TOTAL_STEPS):
        batch = torch.randn(32, 8)
        loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
        loss.backward()
        descend(model)
        if RANK == 0:
            say(step, loss.item())
        report(step, loss.item())
        time.sleep(0.1)
        if (FOLDER / "go").exists() and go_on(model, step, report):
            return


def descend(model: torch.nn.Module) -> None:
    """A step by the gradients, as torch.optim.SGD takes it; that loads torch's compiler, which keeps a core busy for as
    long again as torch itself."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.sub_(parameter.grad, alpha=0.01)
            parameter.grad = None


def go_on(model: torch.nn.Module, step: int, report: Report) -> bool:
    """How it ends; whether it has ended well."""
    if CASE == "exception":
        event(step)
        model(torch.randn(32, 9))
    elif CASE == "oom":
        event(step)
        torch.ones(64 << 30, dtype=torch.uint8)
    elif CASE == "segfault":
        event(step)
        ctypes.string_at(0)
    elif CASE == "lock":
        event(step)
        lock_in_two_orders()
    elif CASE == "collective":
        hang_in_a_collective(step)
    elif CASE == "nan":
        event(step)
        for further in range(step + 1, step + 20):
            loss = (model(torch.full((32, 8), torch.inf)) * torch.inf).square().mean()
            say(further, loss.item())
            report(further, loss.item())
            time.sleep(0.1)
        return True
    elif CASE == "disk":
        event(step)
        save(model)
    elif CASE == "end":
        event(step)
        return True
    # The others go on until they are sent a signal.
    return False


def lock_in_two_orders() -> None:
    """Two threads that take two locks in different orders."""
    queue_lock, cache_lock, met = threading.Lock(), threading.Lock(), threading.Barrier(2)

    def prefetch() -> None:
        with cache_lock:
            met.wait()
            queue_lock.acquire()

    threading.Thread(target=prefetch, name="prefetch", daemon=True).start()
    with queue_lock:
        met.wait()
        cache_lock.acquire()


def hang_in_a_collective(step: int) -> None:
    """One rank waits in a collective that the other never comes to."""
    event(step)
    if RANK == 0:
        torch.distributed.all_reduce(torch.ones(1))
    read_next_shard()


def read_next_shard() -> None:
    reader, _writer = os.pipe()
    os.read(reader, 1)


def save(model: torch.nn.Module) -> None:
    """Onto a disk without space: the kernel answers each write with ENOSPC."""
    checkpoint = FOLDER / "checkpoint.pt"
    checkpoint.symlink_to("/dev/full")
    torch.save(model.state_dict(), checkpoint)


def main() -> None:
    if WAY == "sdk":
        import lastbeat  # noqa: PLC0415 - only this way has it

        with lastbeat.run(CASE, total_steps=TOTAL_STEPS) as run:
            train(lambda step, loss: run.step(step, loss=loss))
    elif WAY == "wandb":
        import wandb  # noqa: PLC0415

        with wandb.init(project="matrix", mode="offline", dir=FOLDER) as tracked:
            train(lambda step, loss: tracked.log({"loss": loss}, step=step))
    elif WAY == "knockknock":
        from knockknock import slack_sender  # noqa: PLC0415

        told = slack_sender(webhook_url=os.environ["SLACK_URL"], channel="training")
        told(train)(lambda step, loss: None)
    else:
        train(lambda step, loss: None)


write("rank", {"pid": os.getpid()})
main()
