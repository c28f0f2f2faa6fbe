"""One logger in one training loop, in a process of its own, also with the interpreter of the peers.

python bench/sdk_child.py WHAT LOGGER FOLDER SECONDS

WHAT is ``calls`` (the cost of one call), ``loop`` (a loop with a step of about 1 ms) or ``start`` (what a block adds).
Prints one JSON object. Times in seconds.
"""

import hashlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

Log = Callable[[int], None]
_BUFFER = bytes(1 << 16)


def nothing(_folder: Path) -> tuple[Log, Callable[[], None]]:
    return lambda _step: None, lambda: None


def lastbeat(_folder: Path) -> tuple[Log, Callable[[], None]]:
    import lastbeat  # noqa: PLC0415 - each logger in its own process

    run = lastbeat.run("bench", total_steps=1_000_000)
    step = run.step

    def log(n: int) -> None:
        step(n, loss=1.5, learning_rate=3e-4, grad_norm=0.5)

    def close() -> None:
        run.complete(wait_s=0.5)

    return log, close


def section(_folder: Path) -> tuple[Log, Callable[[], None]]:
    import lastbeat  # noqa: PLC0415 - as above

    run = lastbeat.run("bench", total_steps=1_000_000, sections={"checkpointing": 420})

    def log(_n: int) -> None:
        with run.section("step"):
            pass

    def close() -> None:
        run.complete(wait_s=0.5)

    return log, close


def should_stop(_folder: Path) -> tuple[Log, Callable[[], None]]:
    import lastbeat  # noqa: PLC0415 - as above

    run = lastbeat.run("bench")

    def look(_n: int) -> None:
        _ = run.should_stop

    return look, lambda: None


def all_should_stop(_folder: Path) -> tuple[Log, Callable[[], None]]:
    """Without torch.distributed: one of the ranks that the environment says."""
    import lastbeat  # noqa: PLC0415 - as above

    run = lastbeat.run("bench")

    def look(_n: int) -> None:
        run.all_should_stop()

    return look, lambda: None


def all_reduce(folder: Path) -> tuple[Log, Callable[[], None]]:
    """By torch.distributed, with another process that asks as often."""
    first = os.fork() != 0
    import torch.distributed as dist  # type: ignore[import-not-found,unused-ignore] # noqa: PLC0415 - as above

    import lastbeat  # noqa: PLC0415 - as above

    rank = 0 if first else 1
    dist.init_process_group("gloo", init_method=(folder / "meet").as_uri(), rank=rank, world_size=2)
    run = lastbeat.run("bench", rank=rank, world_size=2)
    if not first:
        with suppress(RuntimeError):
            # Until the other one is done.
            while True:
                run.all_should_stop()
        os._exit(0)

    def look(_n: int) -> None:
        run.all_should_stop()

    return look, lambda: None


def rerun_disabled(_folder: Path) -> tuple[Log, Callable[[], None]]:
    return _rerun("disabled")


def rerun_validates(_folder: Path) -> tuple[Log, Callable[[], None]]:
    return _rerun("validate_results")


def _rerun(mode: str) -> tuple[Log, Callable[[], None]]:
    """All that a step calls, with the random number generators of Python, numpy and torch to keep."""
    import numpy  # noqa: F401, PLC0415 - as above
    import torch  # noqa: PLC0415 - as above

    from lastbeat.rerun import RerunStateMachine  # noqa: PLC0415 - as above

    machine, loss = RerunStateMachine(mode=mode), torch.tensor(2.5)

    def step(_n: int) -> None:
        while machine.should_run_forward_backward():
            machine.validate(loss)
        machine.should_checkpoint_and_exit()

    return step, lambda: None


def mlflow(folder: Path) -> tuple[Log, Callable[[], None]]:
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import mlflow  # type: ignore[import-not-found] # noqa: PLC0415 - as above

    mlflow.set_tracking_uri((folder / "mlflow").as_uri())
    mlflow.start_run()

    def log(n: int) -> None:
        mlflow.log_metric("loss", 1.5, step=n)
        mlflow.log_metric("learning_rate", 3e-4, step=n)
        mlflow.log_metric("grad_norm", 0.5, step=n)

    return log, mlflow.end_run


def wandb(folder: Path) -> tuple[Log, Callable[[], None]]:
    import wandb  # noqa: PLC0415 - as above

    settings = wandb.Settings(silent=True, x_disable_stats=True)
    run = wandb.init(mode="offline", project="bench", dir=str(folder), settings=settings)

    def log(n: int) -> None:
        run.log({"loss": 1.5, "learning_rate": 3e-4, "grad_norm": 0.5}, step=n)

    return log, lambda: run.finish(quiet=True)


def tensorboard(folder: Path) -> tuple[Log, Callable[[], None]]:
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - as above

    writer = SummaryWriter(str(folder / "tensorboard"))

    def log(n: int) -> None:
        writer.add_scalar("loss", 1.5, n)
        writer.add_scalar("learning_rate", 3e-4, n)
        writer.add_scalar("grad_norm", 0.5, n)

    return log, writer.close


def nvrx(folder: Path) -> tuple[Log, Callable[[], None]]:
    from bench.sdk_nvrx import monitored  # noqa: PLC0415 - as above

    return monitored(folder)


_STOPS = (should_stop, all_should_stop, all_reduce)
_RERUNS = (rerun_disabled, rerun_validates)
LOGGERS = {
    one.__name__: one for one in (nothing, lastbeat, section, *_STOPS, *_RERUNS, mlflow, wandb, tensorboard, nvrx)
}


def calls(log: Log, seconds: float) -> dict[str, float]:
    """Median in a tight loop, median after a sleep of 20 ms, the longest of a loop of sleeps of 1 ms."""
    clock = time.perf_counter
    tight: list[float] = []
    deadline, n = clock() + seconds / 3, 0
    while clock() < deadline:
        began = clock()
        for n in range(n, n + 50):  # noqa: B020 - steps go on
            log(n)
        tight.append((clock() - began) / 50)
        n += 1
    return {
        "tight": statistics.median(tight),
        "after_sleep": statistics.median(_after(log, n, 0.02, seconds / 3)),
        "longest": max(_after(log, n + 1000, 0.001, seconds / 3)),
    }


def _after(log: Log, first: int, sleep_s: float, seconds: float) -> list[float]:
    taken: list[float] = []
    clock = time.perf_counter
    deadline, n = clock() + seconds, first
    while clock() < deadline:
        time.sleep(sleep_s)
        n += 1
        began = clock()
        log(n)
        taken.append(clock() - began)
    return taken


def loop(log: Log, seconds: float) -> dict[str, float]:
    """Seconds a step, of steps that hash for about a millisecond with the interpreter's lock let go, as a framework
    does. How much one hashes is fixed, so that the time of one process compares with that of another."""
    hashed, clock, n = hashlib.sha256, time.perf_counter, 0
    rounds = int(os.environ["BENCH_ROUNDS"])
    taken: list[float] = []
    burnt: list[float] = []
    deadline = clock() + seconds
    while clock() < deadline:
        # A second each, so that each has a heartbeat in it.
        began, cpu = clock(), time.thread_time()
        for _ in range(1000):
            for _ in range(rounds):
                hashed(_BUFFER)
            n += 1
            log(n)
        taken.append((clock() - began) / 1000)
        burnt.append((time.thread_time() - cpu) / 1000)
    return {"wall": statistics.median(taken), "least": min(taken), "cpu": statistics.median(burnt)}


def rounds_a_millisecond() -> int:
    """How often the buffer is hashed in a millisecond on this machine."""
    taken = []
    for _ in range(200):
        began = time.perf_counter()
        hashlib.sha256(_BUFFER)
        taken.append(time.perf_counter() - began)
    return max(1, round(0.001 / statistics.median(taken)))


def start(_folder: Path) -> dict[str, float]:
    """A block that does nothing, in a process that has loaded what every training has."""
    import numpy  # noqa: F401, PLC0415 - as training does

    began = time.perf_counter()
    import lastbeat  # noqa: PLC0415 - measured

    imported = time.perf_counter()
    with lastbeat.run("bench"):
        entered = time.perf_counter()
    return {"import": imported - began, "enter": entered - imported, "leave": time.perf_counter() - entered}


def main(what: str, logger: str, folder: str, seconds: str) -> int:
    if what == "start":
        print(json.dumps(start(Path(folder))))
        return 0
    log, close = LOGGERS[logger](Path(folder))
    for n in range(20):
        log(n)
    print(json.dumps((calls if what == "calls" else loop)(log, float(seconds))), flush=True)
    close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
