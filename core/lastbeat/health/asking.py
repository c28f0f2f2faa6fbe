"""The GPUs of this node, asked for in a process of its own: a driver that hangs keeps that one, and nobody else.

``python -m lastbeat.health.asking`` is that process; it prints one JSON object.
"""

import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from lastbeat.sdk.gpus import Gpu

_MOST_BYTES: Final = 256 * 1024
_REAP_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class GpusAsked:
    """What came of asking the driver."""

    gpus: tuple[Gpu, ...] | None = None
    """None: it told nothing."""
    why: str = ""
    """Why it did not."""
    hangs: bool = False
    """It did not answer in time."""


def ask_gpus(limit_s: float) -> GpusAsked:
    """Ask the driver, for ``limit_s`` seconds at most and a moment more. Never raises for the driver."""
    command = [sys.executable, "-m", __name__, str(limit_s)]
    # Of its own session, so that Ctrl-C does not leave it half ended; it has nothing to tidy up.
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        said, _ = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        child.kill()
        # A process inside a driver that hangs cannot be killed, nor waited for.
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
    from lastbeat.sdk.gpus import GpuMonitor  # noqa: PLC0415 - in the process that asks

    monitor = GpuMonitor()
    gpus = monitor.read(limit_s)
    why = monitor.absent_because or ("" if gpus is not None else "it gave no answer that can be read")
    sys.stdout.write(json.dumps({"gpus": gpus, "why": why}))


if __name__ == "__main__":
    _main(float(sys.argv[1]))
