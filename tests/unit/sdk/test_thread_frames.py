"""The frames of all threads can be taken at any moment of a training."""

import gc
import subprocess
import sys
import threading

from lastbeat.training.sdk.threads import current_frames
from support.checkout import ROOT

COLLECTS_MEANWHILE = """
import gc, threading
from lastbeat.training.sdk.threads import current_frames

class Cycle:
    pass

def deep(levels):
    deep(levels - 1) if levels else leave.wait()

leave = threading.Event()
for _ in range(40):
    threading.Thread(target=deep, args=(5,), daemon=True).start()
gc.collect()
enable, take = gc.enable, current_frames
for _ in range(30):
    gc.disable()
    for _ in range(400):
        cycle = Cycle()
        cycle.me, cycle.local = cycle, threading.local()
        cycle.local.x = 1
    gc.set_threshold(1, 1, 1)
    enable(); frames = take()
    gc.disable()
print(len(frames))
"""


def test_a_collection_that_is_due_does_not_stop_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COLLECTS_MEANWHILE],
        env={"PYTHONPATH": str(ROOT / "core")},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout == "41\n"


def test_the_collector_is_left_as_training_has_it() -> None:
    try:
        gc.disable()
        assert threading.get_ident() in current_frames()
        assert not gc.isenabled()
    finally:
        gc.enable()
    current_frames()
    assert gc.isenabled()
