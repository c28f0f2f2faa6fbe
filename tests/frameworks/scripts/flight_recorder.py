"""Gloo groups of four ranks that get stuck in each way, and the dumps of their flight recorders.

flight_recorder.py FOLDER: each way gets its own group of forks of this process, which loads torch once.
"""

import json
import os
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

os.environ["TORCH_FR_BUFFER_SIZE"] = "2000"

import torch
import torch._inductor.codecache  # a dump needs it, and loads it for seconds: in each rank, if not here
import torch.distributed as dist
from torch._C import _distributed_c10d as recorder

RANKS = 4
ODD = 2
"""The rank that does something else."""
LIMIT_S = 240
BEFORE = 6
"""Calls that all ranks make first."""
WAYS = ("sleeps", "leaves one out", "other sizes", "other types", "another order", "leaves", "sleeps in a pair")


def recorded() -> list[Any]:
    entries: list[Any] = json.loads(recorder._dump_fr_trace_json()).get("entries", [])
    return entries


def until(there: Any) -> None:
    end = time.monotonic() + LIMIT_S
    while not there():
        if time.monotonic() > end:
            os._exit(3)
        time.sleep(0.05)


def dump_once(folder: Path, rank: int, calls: int) -> None:
    """Dump as soon as ``calls`` are recorded; leave once all ranks have."""
    until(lambda: len(recorded()) >= calls)
    for name, data in (("rank_{}", recorder._dump_fr_trace()), ("trace_{}.json", recorder._dump_fr_trace_json())):
        part = folder / f".{rank}"
        part.write_bytes(data if isinstance(data, bytes) else data.encode())
        part.rename(folder / name.format(rank))
    until(lambda: len(list(folder.glob("trace_*.json"))) == RANKS)
    os._exit(0)


def train(way: str, folder: Path, rank: int) -> None:
    file = f"file://{folder}.store"
    dist.init_process_group("gloo", init_method=file, rank=rank, world_size=RANKS, timeout=timedelta(seconds=LIMIT_S))
    pair = dist.new_group([ODD, 3], group_desc="tp")
    odd = rank == ODD
    stays = odd and way in {"sleeps", "leaves", "sleeps in a pair"}
    calls = BEFORE + (0 if stays else 1)
    threading.Thread(target=dump_once, args=(folder, rank, calls), daemon=True).start()
    for _ in range(BEFORE // 2):
        dist.all_reduce(torch.ones(64))
        dist.broadcast(torch.ones(8), 0)
    if stays:
        # It sleeps, or its loop is over.
        until(lambda: False)
    if way in {"other sizes", "other types"} and not odd:
        # Gloo aborts the rank with less room once the others' data comes.
        until((folder / f"trace_{ODD}.json").exists)
    if way == "sleeps in a pair" and rank == 3:
        dist.all_reduce(torch.ones(64), group=pair)
    elif odd and way == "other sizes":
        dist.all_reduce(torch.ones(32))
    elif odd and way == "other types":
        dist.all_reduce(torch.ones(64, dtype=torch.float16))
    elif odd and way in {"leaves one out", "another order"}:
        dist.broadcast(torch.ones(8), 0)
        dist.all_reduce(torch.ones(64))
    else:
        dist.all_reduce(torch.ones(64))
    until(lambda: False)


def main() -> int:
    children = []
    for way in WAYS:
        folder = Path(sys.argv[1]) / way.replace(" ", "_")
        folder.mkdir(parents=True)
        for rank in range(RANKS):
            child = os.fork()
            if child == 0:
                try:
                    train(way, folder, rank)
                except RuntimeError:
                    # Another rank is gone; the dump is still to be written.
                    until(lambda: False)
                os._exit(4)
            children.append(child)
    for child in children:
        os.waitpid(child, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
