"""From a hang to the first step of the start that follows it in the same job: ``lastbeat exec --max-restarts``, beside
what torchrun and nvidia-resiliency-ext do within a job."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench.sdk import PEERS
from bench.server import CHECKOUT

CHILD = str(CHECKOUT / "bench" / "hangs_child.py")
LIMIT_S = 2
"""How long a step may take, for all of them."""
_GRACE_S = 5
_WAIT_S = 120.0
_EXEC = (
    *(sys.executable, "-m", "lastbeat_cli", "exec", "--run-id", "run", "--max-restarts", "2"),
    *("--grace", f"{_GRACE_S}", "--section-timeouts", f"step:{LIMIT_S}", "--"),
)
_TORCHRUN = (str(PEERS / "bin" / "torchrun"), "--nnodes=1", "--nproc-per-node=1", "--master-port=0")
_FT = (
    *(str(PEERS / "bin" / "ft_launcher"), "--nnodes=1", "--nproc-per-node=1", "--max-restarts=2"),
    *("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", f"--ft-param-rank_heartbeat_timeout={LIMIT_S}"),
    *("--ft-param-initial_rank_heartbeat_timeout=60", "--ft-param-workload_check_interval=0.5"),
)
Command = Callable[[Path], Sequence[str]]


def _child(folder: Path, how: str, what: str) -> tuple[str, ...]:
    return CHILD, str(folder), how, what


_WAYS: dict[str, Command] = {
    "`lastbeat exec`, a program that prints its steps": lambda at: (
        *_EXEC, sys.executable, *_child(at, "prints", "hang")),
    "`lastbeat exec`, a job with `run.step`": lambda at: (*_EXEC, sys.executable, *_child(at, "sdk", "hang")),
    f"the same, which ignores SIGTERM, with `--grace {_GRACE_S}`": lambda at: (
        *_EXEC, sys.executable, *_child(at, "sdk", "deaf")),
    "`lastbeat exec -- torchrun`, a job with `run.step`": lambda at: (
        *_EXEC, *_TORCHRUN, *_child(at, "sdk", "hang")),
    "nvidia-resiliency-ext's `ft_launcher`, which looks each 0.5 s": lambda at: (*_FT, *_child(at, "nvrx", "hang")),
    "`lastbeat exec`, a crash": lambda at: (*_EXEC, sys.executable, *_child(at, "prints", "crash")),
    "`lastbeat exec -- torchrun`, a crash": lambda at: (*_EXEC, *_TORCHRUN, *_child(at, "prints", "crash")),
    "`torchrun --max-restarts 2`, a crash": lambda at: (
        *_TORCHRUN, "--max-restarts=2", *_child(at, "prints", "crash")),
}  # fmt: skip


def tables(progress: Callable[[str], None], times: int) -> Iterator[str]:
    yield (
        f"| from a hang (a step may take {LIMIT_S} s) or a crash to the next start's first step | median | most "
        "| until it is noticed | stacks | until all has ended, and is judged | until the first step |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for name, command in _WAYS.items():
        progress(name)
        if ("torchrun" in name or "ft_launcher" in name) and not Path(command(Path())[0]).exists():
            yield f"| {name} | not installed | | | | | |"
            continue
        found = []
        for _ in range(times):
            with tempfile.TemporaryDirectory(prefix="lb-", dir="/tmp") as folder:
                found.append(_once(Path(folder), command(Path(folder))))
        totals = [each[-1] for each in found]
        parts = [
            "" if None in column else f"{statistics.median(filter(None.__ne__, column)):.1f} s"
            for column in zip(*(each[:-1] for each in found), strict=True)
        ]
        yield f"| {name} | {statistics.median(totals):.1f} s | {max(totals):.1f} s | {' | '.join(parts)} |"


def _once(folder: Path, command: Sequence[str]) -> tuple[float | None, float | None, float | None, float | None, float]:
    """Its parts in s, as the columns of the table have them, and the whole."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("LASTBEAT_", "MONITORING_"))},
        "PYTHONPATH": f"{CHECKOUT}/core{os.pathsep}{CHECKOUT}/cli",
        "MONITORING_ROOT": str(folder / "runs"),
        "LASTBEAT_RUN_ID": "run",
    }  # fmt: skip
    lines: list[tuple[float, str]] = []
    with subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as process:  # fmt: skip
        said = process.stderr

        def read() -> None:
            lines.extend((time.time(), line) for line in said or ())

        reading = threading.Thread(target=read)
        reading.start()
        process.wait(_WAIT_S)
        reading.join()
    events = [json.loads(line) for line in (folder / "events").read_text().splitlines()]

    def at(what: str, number: int = 0) -> float | None:
        found = [when for name, when in events if name == what]
        return found[number] if len(found) > number else None

    over, step = at("over"), at("step", 1)
    if over is None or step is None:
        raise RuntimeError(f"{command}: it was not started again:\n{''.join(line for _, line in lines)}")
    noticed = next((when for when, line in lines if "it is being ended" in line), None)
    asked, judged = at("asked"), next((when for when, line in lines if "restarting in place" in line), None)
    ended_from = asked if asked is not None else over
    return (
        None if noticed is None else noticed - over,
        None if noticed is None or asked is None else asked - noticed,
        None if judged is None else judged - ended_from,
        None if judged is None else step - judged,
        step - over,
    )
