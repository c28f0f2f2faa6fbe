"""What reporting costs training: one call, a whole loop, the start; beside what people use for logging."""

import json
import os
import socket
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench import sdk_child
from bench.server import BUCKET, CHECKOUT, PREFIX, S3

PEERS = CHECKOUT / "build" / "bench-peers"
# torch first: another package would pull in what needs a GPU.
_INSTALL = (
    ("torch==2.13.0",),
    ("mlflow-skinny", "wandb", "tensorboard", "setuptools<81"),
    ("nvidia-resiliency-ext==0.4.1",),
)
_LOGGERS = {
    "nothing": "nothing",
    "lastbeat": "`run.step`, three metrics",
    "section": "`with run.section(…)`, entered and left",
    "rerun_disabled": "a step of `lastbeat.rerun`, `disabled`",
    "rerun_validates": "a step of `lastbeat.rerun`, `validate_results`, a tensor of torch",
    "tensorboard": "TensorBoard `add_scalar`, three",
    "wandb": "wandb offline `run.log`, three metrics",
    "mlflow": "mlflow `log_metric`, three, files",
    "nvrx": "nvidia-resiliency-ext 0.4.1 rank monitor, heartbeat",
}
_CALLS_S, _LOOP_S = 9.0, 6.0

Found = Mapping[str, float]


def install_peers() -> None:
    """The peers in a virtual environment of their own, below ``build``."""
    python = PEERS / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
    for packages in _INSTALL:
        done = subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=False)
        if done.returncode != 0:
            print(f"not installed: {' '.join(packages)}", file=sys.stderr)


def _child(logger: str, what: str, folder: Path, environment: Mapping[str, str], seconds: float = 0.0) -> Found | str:
    """What the child measured, or why it could not."""
    ours = logger in {"nothing", "lastbeat", "section", "should_stop", "all_should_stop"}
    python = sys.executable if ours else str(PEERS / "bin" / "python")
    if not Path(python).exists():
        return "not installed"
    environment = {**environment, "PYTHONPATH": os.pathsep.join((str(CHECKOUT / "core"), str(CHECKOUT)))}
    command = [python, str(CHECKOUT / "bench" / "sdk_child.py"), what, logger, str(folder), str(seconds)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            found: Found = json.loads(line)
            return found
    if "ModuleNotFoundError" in done.stderr:
        return "not installed"
    last = done.stderr.strip().splitlines()[-1:] or [f"exit {done.returncode}"]
    return f"did not run: {last[0][:80]}"


def _environment(folder: Path, **settings: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, "MONITORING_ROOT": str(folder / "runs"), "LASTBEAT_BEAT_SECONDS": "1", **settings}


def calls(folder: Path) -> Iterator[str]:
    yield "| one call in the caller's thread | tight loop, median | after a sleep of 20 ms, median | longest |"
    yield "|---|---:|---:|---:|"
    rows = {name: (logger, _environment(folder)) for logger, name in _LOGGERS.items() if logger != "nothing"}
    with _store_that_hangs() as endpoint:
        hanging = _environment(folder, MONITORING_ROOT="s3://hangs/runs", AWS_ENDPOINT_URL=endpoint, **_KEYS)
        ranks = {"RANK": "0", "WORLD_SIZE": "4"}
        looking = {
            "`run.should_stop`, with a call around it": ("should_stop", _environment(folder)),
            "`run.all_should_stop()` without torch.distributed": ("all_should_stop", _environment(folder, **ranks)),
            "the same while the store hangs": ("all_should_stop", {**hanging, **ranks}),
            "the same as an all-reduce of two processes (gloo)": ("all_reduce", _environment(folder)),
        }
        rows = {"`run.step`, three metrics, while the store hangs": ("lastbeat", hanging), **looking, **rows}
        for name, (logger, environment) in rows.items():
            print(f"measuring calls: {logger} …", file=sys.stderr, flush=True)
            found = _child(logger, "calls", folder, environment, _CALLS_S)
            if isinstance(found, str):
                yield f"| {name} | {found} | | |"
                continue
            tight, later, longest = (found[key] * 1e6 for key in ("tight", "after_sleep", "longest"))
            yield f"| {name} | {tight:.2f} µs | {later:.1f} µs | {longest:,.0f} µs |"


def loops(folder: Path, rounds: int) -> Iterator[str]:
    """In turn, so that all meet the same machine."""
    yield "| a step of 1 ms, a beat every second: above nothing | wall, median | wall, least | CPU of its thread |"
    yield "|---|---:|---:|---:|"
    environment = _environment(folder, BENCH_ROUNDS=str(sdk_child.rounds_a_millisecond()))
    taken: dict[str, list[Found]] = {logger: [] for logger in _LOGGERS}
    missing: dict[str, str] = {}
    for number in range(rounds):
        print(f"measuring loops: round {number + 1} of {rounds} …", file=sys.stderr, flush=True)
        for logger in _LOGGERS:
            if logger in missing:
                continue
            found = _child(logger, "loop", folder, environment, _LOOP_S)
            if isinstance(found, str):
                missing[logger] = found
            else:
                taken[logger].append(found)
    bare = _of(taken["nothing"])
    for logger, name in _LOGGERS.items():
        if logger in missing:
            yield f"| {name} | {missing[logger]} | | |"
            continue
        one = _of(taken[logger])
        if logger == "nothing":
            yield f"| {name} | " + " | ".join(f"{spent * 1e3:.3f} ms" for spent in one) + " |"
        else:
            shares = [(mine / nothing - 1) * 100 for mine, nothing in zip(one, bare, strict=True)]
            yield f"| {name} | " + " | ".join(f"{share:+.2f} %" for share in shares) + " |"


def _of(found: list[Found]) -> tuple[float, float, float]:
    """Wall time a step in the middle and at best, CPU time of the thread a step."""
    wall, cpu = (statistics.median(one[key] for one in found) for key in ("wall", "cpu"))
    return wall, min(one["least"] for one in found), cpu


def starts(server: S3, folder: Path, times: int) -> Iterator[str]:
    yield "| `with lastbeat.run(…)` that does nothing, numpy being loaded | import | to the first line | to the end |"
    yield "|---|---:|---:|---:|"
    s3 = {**server.environment, "MONITORING_ROOT": f"s3://{BUCKET}/{PREFIX}"}
    for name, environment in (("a directory", _environment(folder)), ("moto", _environment(folder, **s3))):
        runs: list[Found] = []
        for _ in range(times):
            found = _child("lastbeat", "start", folder, environment)
            if isinstance(found, str):
                raise RuntimeError(  # noqa: TRY004 - no wrong type, but why there is nothing
                    f"the block could not be measured: {found}"
                )
            runs.append(found)
        spent = (statistics.median(run[key] for run in runs) * 1e3 for key in ("import", "enter", "leave"))
        yield f"| {name} | " + " | ".join(f"{one:.1f} ms" for one in spent) + " |"


_KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_EC2_METADATA_DISABLED": "true"}


@contextmanager
def _store_that_hangs() -> Iterator[str]:
    """An address that takes connections and says nothing."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(64)
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
