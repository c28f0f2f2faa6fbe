"""What a look at a node costs: a sample in the beat thread, the bytes that it adds to a heartbeat, and check-node."""

import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench import measure
from bench.server import CHECKOUT

_SAMPLES = 300
_EACH_S = 30.0
_LIMIT_S = 300.0


def tables(progress: Callable[[str], None], folder: Path, times: int) -> Iterator[str]:
    """The tables; ``times`` is how often each process is started."""
    progress("samples of a node")
    yield "| a sample of a node, once in 30 s, in the beat thread | wall, median | wall, longest | CPU | of a core |"
    yield "|---|---:|---:|---:|---:|"
    kinds = {"no GPU": {}, "two GPUs, the driver a stand-in": _driver(folder)}
    found = {}
    for name, environment in kinds.items():
        if environment is None:
            yield f"| {name} | no C compiler here | | | |"
            continue
        told = found[name] = _child(folder, environment)
        median, longest = statistics.median(told["wall_s"]) * 1e3, max(told["wall_s"]) * 1e3
        cpu = told["cpu_s"] / _SAMPLES
        yield f"| {name} | {median:.2f} ms | {longest:.2f} ms | {cpu * 1e3:.2f} ms | {cpu / _EACH_S:.4%} |"
    yield ""
    yield "| what a look at a node costs besides | |"
    yield "|---|---:|"
    without = found["no GPU"]
    yield f"| its modules, imported in the beat thread | {without['import_s'] * 1e3:.1f} ms |"
    most = max(told["bytes"] for told in found.values())
    yield f"| in metadata.json, with a history of four hours | {most / 1e3:.1f} KB |"
    progress("check-node")
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": f"{CHECKOUT / 'core'}:{CHECKOUT / 'cli'}",
        "HOME": str(folder),
    }
    # Its exit status tells of this machine, and is no fault of the command's.
    command = [sys.executable, "-c", "from lastbeat_cli.main import main; main(['check-node'])"]
    runs = measure.in_turn({"check-node": command}, environment, folder, times)["check-node"]
    yield f"| `lastbeat check node` without GPUs, start to exit, median | {runs.wall_s * 1e3:.0f} ms |"


def _child(folder: Path, environment: dict[str, str]) -> dict[str, Any]:
    environment = {"PYTHONPATH": str(CHECKOUT / "core"), "HOME": str(folder), **environment}
    command = [sys.executable, str(CHECKOUT / "bench" / "health_child.py"), str(_SAMPLES)]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=True, timeout=_LIMIT_S
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def _driver(folder: Path) -> dict[str, str] | None:
    """What makes a process meet the stand-in of NVIDIA's driver; None where it cannot be compiled."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    source = CHECKOUT / "tests" / "support" / "nvml.c"
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source)], check=True)
    return {"LD_LIBRARY_PATH": str(folder)}
