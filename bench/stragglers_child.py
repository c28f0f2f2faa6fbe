"""One way to time steps, in a process of its own: ``python -m bench.stragglers_child WAY FOLDER SECONDS``.

Prints one JSON object, with times in seconds.
"""

import json
import logging
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.sdk_child import Log, calls

_LOG_EACH = 10
_STEP_S = 0.02


def _reporting(**more: object) -> tuple[Log, object]:
    import lastbeat  # noqa: PLC0415 - each way in its own process

    run = lastbeat.run("bench", total_steps=1_000_000, **more)  # type: ignore[arg-type]

    def step(number: int) -> None:
        with run.section("compute"):
            pass
        run.step(number, loss=1.5, learning_rate=3e-4, grad_norm=0.5)

    return step, run


def _without(_folder: Path) -> Log:
    return _reporting()[0]


def stragglers(_folder: Path) -> Log:
    return _reporting(stragglers=True)[0]


def watched(_folder: Path) -> Log:
    from torch._C._distributed_c10d import FakeWork  # type: ignore[import-not-found,unused-ignore] # noqa: PLC0415

    from lastbeat.integrations.torch import watch_steps  # noqa: PLC0415 - as above

    step, run = _reporting(stragglers=True)
    watch_steps(run)  # type: ignore[arg-type]
    over = FakeWork()

    def both(number: int) -> None:
        over.wait()
        step(number)

    return both


def torchtitan(folder: Path) -> Log:
    log = logging.getLogger("titan")
    log.addHandler(logging.FileHandler(folder / "titan.log"))
    log.setLevel(logging.INFO)
    taken: list[float] = []

    def step(number: int) -> None:
        began = time.perf_counter()
        taken.append(time.perf_counter() - began)
        if number % _LOG_EACH == 0:
            log.info("step: %d loss: %.4f time_metrics/data_loading(s): %.6f", number, 1.5, sum(taken) / len(taken))
            taken.clear()

    return step


def nvrx(_folder: Path) -> Log:
    from nvidia_resiliency_ext.straggler import Detector  # type: ignore[import-not-found] # noqa: PLC0415 - as above

    # What Detector.initialize does, but for CUPTI.
    Detector.initialized, Detector.profiling_interval, Detector.custom_sections = True, 1, {}

    def step(_number: int) -> None:
        with Detector.detection_section("step", profile_cuda=False):
            pass

    return step


WAYS: dict[str, Callable[[Path], Log]] = {
    "lastbeat": _without,
    "stragglers": stragglers,
    "watched": watched,
    "torchtitan": torchtitan,
    "nvrx": nvrx,
}


def after_work(log: Log, seconds: float) -> float:
    """The median call after 20 ms in which this thread worked: in Python, and through 4 MB of memory."""
    clock, block = time.perf_counter, bytearray(4 << 20)
    taken: list[float] = []
    deadline, number = clock() + seconds, 1_000_000
    while clock() < deadline:
        until = clock() + _STEP_S
        while clock() < until:
            sum(block[::4096])
        number += 1
        began = clock()
        log(number)
        taken.append(clock() - began)
    return statistics.median(taken)


if __name__ == "__main__":
    way, folder, seconds = sys.argv[1:]
    step = WAYS[way](Path(folder))
    found = calls(step, float(seconds))
    print(json.dumps({**found, "after_work": after_work(step, float(seconds) / 2)}), flush=True)
