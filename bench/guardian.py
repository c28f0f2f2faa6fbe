"""Measures the guardian of a job: the cost of its start, its memory, the delay of its report, and its end."""

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from bench.server import CHECKOUT

T = TypeVar("T")

_LIMIT_S = 60.0
_STARTS = 500
_TIMED = """
import json, socket, time, lastbeat.training.entry, lastbeat.training.guardian.start
began = time.perf_counter()
run = lastbeat.run("bench")
print(json.dumps(time.perf_counter() - began), flush=True)
run.complete()
"""
_WAITS = """
import time, lastbeat
with lastbeat.run("bench") as run:
    print("begun", flush=True)
    time.sleep(600)
"""
_MANY = f"""
import lastbeat
for n in range({_STARTS}):
    with lastbeat.run(f"bench-{{n % 10}}") as run:
        run.step(n)
"""


def table(folder: Path, times: int) -> Iterator[str]:
    yield "| the guardian of a job, in a directory | median | longest |"
    yield "|---|---:|---:|"
    for name, setting in (("on", "on"), ("off", "off")):
        spent = [_start_s(folder, setting) for _ in range(times)]
        yield _row(f"`lastbeat.run(…)`, modules loaded, guardian {name}", spent, 1e3, "ms")
    waited = [_waiting(folder) for _ in range(times)]
    yield _row("resident memory of the guardian", [one[0] for one in waited], 1e-6, "MB")
    yield _row("of which no other process has", [one[1] for one in waited], 1e-6, "MB")
    yield _row("from SIGKILL of the job to `_error`", [one[2] for one in waited], 1e3, "ms")
    subprocess.run(_command(_MANY), env=_environment(folder, "on"), check=True, timeout=600)
    time.sleep(1.0)
    yield f"| processes left one second after {_STARTS} runs | {len(_guardians(folder))} | |"


def _row(name: str, found: list[float], scale: float, unit: str) -> str:
    return f"| {name} | {statistics.median(found) * scale:.1f} {unit} | {max(found) * scale:.1f} {unit} |"


def _command(script: str) -> list[str]:
    return [sys.executable, "-c", script]


def _environment(folder: Path, guardian: str) -> Mapping[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": str(CHECKOUT / "core"),
        "MONITORING_ROOT": str(folder / "guarded"),
        "LASTBEAT_GUARDIAN": guardian,
    }


def _start_s(folder: Path, guardian: str) -> float:
    done = subprocess.run(
        _command(_TIMED), env=_environment(folder, guardian), capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def _waiting(folder: Path) -> tuple[float, float, float]:
    """Resident bytes of a guardian, bytes of its own, and seconds from the kill to the sentinel."""
    error = folder / "guarded" / "bench" / "_error"
    with subprocess.Popen(_command(_WAITS), env=_environment(folder, "on"), stdout=subprocess.PIPE) as training:
        assert training.stdout is not None
        training.stdout.readline()
        try:
            (guardian,) = _until(lambda: [g for g in _guardians(folder) if _holds_pidfd(g)])
            memory = Path(f"/proc/{guardian}/smaps_rollup").read_text(encoding="ascii").splitlines()
            size = {line.split()[0]: int(line.split()[1]) * 1024 for line in memory[1:]}
            _until((folder / "guarded" / "bench" / "metadata.json").exists)
            _until(lambda: not error.exists())
            began = time.perf_counter()
            training.send_signal(signal.SIGKILL)
            _until(error.exists)
            return size["Rss:"], size["Private_Dirty:"] + size["Private_Clean:"], time.perf_counter() - began
        finally:
            training.kill()


def _guardians(folder: Path) -> list[int]:
    found = []
    for process in Path("/proc").iterdir():
        try:
            command, environment = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
        except OSError:
            continue
        if b"guardian/__main__.py" in command and f"HOME={folder}\0".encode() in environment:
            found.append(int(process.name))
    return found


def _holds_pidfd(guardian: int) -> bool:
    """Whether it watches somebody already."""
    try:
        links = [link.readlink() for link in Path(f"/proc/{guardian}/fd").iterdir()]
    except OSError:
        # A file that it has just closed, or it is gone.
        return False
    return any("pidfd" in str(link) for link in links)


def _until(found: Callable[[], T]) -> T:
    deadline = time.monotonic() + _LIMIT_S
    while not (thing := found()):
        if time.monotonic() > deadline:
            raise RuntimeError("the guardian did not come, or did not tell")
        time.sleep(0.002)
    return thing
