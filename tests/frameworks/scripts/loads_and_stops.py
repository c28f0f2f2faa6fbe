"""A training with real DataLoader workers whose whole process group gets a signal, as some schedulers send it.

``loads_and_stops.py SIGNAL``: with SIGTERM the workers are told to ignore it.
"""

import os
import signal
import sys
import time
from pathlib import Path

import torch

import lastbeat

number = signal.Signals[sys.argv[1]]
workers = {"worker_init_fn": lastbeat.ignore_stop_signals} if number is signal.SIGTERM else {}
os.setpgid(0, 0)
with lastbeat.run("loads", exit_signal="SIGUSR1") as run:
    data = torch.utils.data.TensorDataset(torch.ones(100_000, 1))
    loader = torch.utils.data.DataLoader(data, num_workers=2, multiprocessing_context="fork", **workers)
    # More batches than are fetched ahead have to come after the signal.
    after = 0
    for step, _ in enumerate(loader):
        run.step(step)
        if step == 5:
            os.killpg(0, number)
        after += run.should_stop
        if after == 50:
            run.preempted("checkpoints/kept", step=step)
            break
        time.sleep(0.001)
    Path("after").write_text(str(after), encoding="utf-8")
