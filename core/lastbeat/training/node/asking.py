"""Queries the GPUs of this node in a separate process, so that a driver that hangs blocks only that process.

``python -m lastbeat.training.node.asking`` is that process; it prints one JSON object.
"""

import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from lastbeat.training.node.gpus import Gpu, GpuMonitor

_MOST_BYTES: Final = 256 * 1024
_REAP_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class GpusAsked:
    """The driver's answer."""

    gpus: tuple[Gpu, ...] | None = None
    """State of the GPUs; None without an answer."""
    why: str = ""
    """Why there is no answer."""
    hangs: bool = False
    """Whether the driver did not answer in time."""


def ask_gpus(limit_s: float) -> GpusAsked:
    """Query the driver, for little more than ``limit_s`` seconds at most. Never raises for a fault of the driver."""
    command = [sys.executable, "-m", __name__, str(limit_s)]
    # In a session of its own, so that Ctrl-C does not interrupt it; it has nothing to clean up.
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        said, _ = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        child.kill()
        # A process that hangs in a driver can neither be killed nor waited for.
        with suppress(subprocess.TimeoutExpired):
            child.communicate(timeout=_REAP_S)
        return GpusAsked(why=f"it has not answered within {limit_s:g} s", hangs=True)
    try:
        told = json.loads(said[:_MOST_BYTES])
        gpus = told["gpus"]
        return GpusAsked(None if gpus is None else tuple(gpus), str(told["why"]))
    except (ValueError, KeyError, TypeError):
        return GpusAsked(why=f"asking it ended with exit status {child.returncode}")


def _main(limit_s: float) -> None:
    monitor = GpuMonitor()
    gpus = monitor.read(limit_s)
    why = monitor.absent_because or ("" if gpus is not None else "it gave no answer that can be read")
    sys.stdout.write(json.dumps({"gpus": gpus, "why": why}))


if __name__ == "__main__":
    _main(float(sys.argv[1]))
