"""A little training that ends as it is told: FOLDER HOW TIMES. It keeps its step in FOLDER, and tells there when it
begins and ends."""

import json
import os
import sys
import time
from pathlib import Path

STEPS, EACH_S = 60, 0.05
CRASH = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1331, unhandled system error"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB"


def tell(folder: Path, what: str) -> int:
    """How often that has been told before."""
    before = sum(f'"{what}"' in line for line in told(folder))
    event = {"what": what, "at": time.time(), "pid": os.getpid(), "job": os.environ.get("SLURM_JOB_ID")}
    with (folder / "events").open("a") as events:
        events.write(json.dumps(event) + "\n")
    return before


def told(folder: Path) -> list[str]:
    events = folder / "events"
    return events.read_text().splitlines() if events.exists() else []


def main() -> None:
    folder, how, times = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    number = tell(folder, "begin")
    at = folder / "step"
    step = int(at.read_text()) if at.exists() else 0
    while step < STEPS:
        step += 1
        print(f"step {step}/{STEPS} loss 2.5", flush=True)
        time.sleep(EACH_S)
        if number < times and step % (STEPS // 4) == 0:
            # What is done once is not lost; an oom comes at the same step each time.
            at.write_text(str(0 if how == "oom" else step))
            if how == "wait":
                time.sleep(600)
            line = OOM if how == "oom" else CRASH
            print(f'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n{line}', flush=True)
            tell(folder, "end")
            sys.exit(1)
    tell(folder, "done")


if __name__ == "__main__":
    main()
