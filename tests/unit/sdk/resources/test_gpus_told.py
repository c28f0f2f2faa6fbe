"""GPUs as the driver tells of them, and a driver that hangs, fails or is not there.

The driver is a small library of our own, which a process of its own loads as it would load NVIDIA's.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.checkout import ROOT
from support.training import LIMIT_S

A = {"name": "Stub A", "utilization": 0.97, "memory_used_bytes": 70 << 30, "memory_total_bytes": 80 << 30}
B = {"name": "Stub B", "utilization": 0.05, "memory_used_bytes": 1 << 30, "memory_total_bytes": 80 << 30}


def without(gpu: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in gpu.items() if name not in names}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a library that stands in for the driver's."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler here")
    if importlib.util.find_spec("pynvml") is None:
        pytest.skip("nvidia-ml-py (the extra gpu) is not installed")
    folder = tmp_path_factory.mktemp("driver")
    source = ROOT / "tests" / "support" / "nvml.c"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(folder / "libnvidia-ml.so.1"), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S)
    return folder


def run(script: str, driver: Path | None, **env: str) -> Any:
    """What ``script`` prints, as JSON."""
    settings = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{ROOT / 'core'}{os.pathsep}{ROOT / 'tests'}",
        "PYTHONWARNINGS": "error",
        # Not where it reports to.
        "LASTBEAT_LOG_LEVEL": "error",
        **({"LD_LIBRARY_PATH": str(driver)} if driver is not None else {}),
        **env,
    }
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


LOOK = """
import json, sys
from lastbeat.sdk.gpus import GpuMonitor
print(json.dumps(GpuMonitor().read(30)))
"""

TOLD = [
    pytest.param({}, [A, B], id="all of them"),
    pytest.param({"CUDA_VISIBLE_DEVICES": "1"}, [B], id="the one that CUDA shows"),
    pytest.param({"CUDA_VISIBLE_DEVICES": "1, 0"}, [B, A], id="in the order that CUDA shows them in"),
    pytest.param({"CUDA_VISIBLE_DEVICES": "GPU-bb"}, [B], id="by the beginning of a UUID"),
    pytest.param({"CUDA_VISIBLE_DEVICES": "GPU-"}, [], id="not by what several begin with"),
    pytest.param({"CUDA_VISIBLE_DEVICES": "MIG-1"}, [B], id="a slice of one by its UUID"),
    pytest.param({"CUDA_VISIBLE_DEVICES": "MIG-2"}, [], id="a slice that is not there"),
    pytest.param({"CUDA_VISIBLE_DEVICES": ""}, [], id="none"),
    pytest.param({"CUDA_VISIBLE_DEVICES": "0,-1,1"}, [A], id="up to a wrong name, as CUDA does"),
    pytest.param({"CUDA_VISIBLE_DEVICES": "0,7,1"}, [A], id="up to a number that there is not"),
    pytest.param({"STUB_FAILS": "load"}, [without(A, "utilization"), without(B, "utilization")], id="without a load"),
    pytest.param({"STUB_FAILS": "lost"}, [A, {"name": "GPU"}], id="one that is lost is one of which nothing is known"),
    pytest.param({"STUB_FAILS": "init"}, None, id="a driver that does not start"),
    pytest.param({"STUB_COUNT": "0"}, [], id="a driver without GPUs"),
    pytest.param({"STUB_COUNT": "64"}, 16, id="sixteen at most"),
]


@pytest.mark.parametrize(("env", "expected"), TOLD)
def test_what_the_driver_tells(driver: Path, env: dict[str, str], expected: object) -> None:
    found = run(LOOK, driver, **env)
    assert (len(found) if isinstance(expected, int) else found) == expected


def test_without_a_driver_nothing_is_known() -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a driver")
    assert run(LOOK, None) is None


BEATS = """
import json, os
from functools import partial
from pathlib import Path
import lastbeat
from support import waiting

until = partial(waiting.until, limit_s=50)
run = lastbeat.run("run-1", root=os.environ["ROOT"])
metadata = Path(os.environ["ROOT"], "run-1", "metadata.json")

def look():
    try:
        return json.loads(metadata.read_text())
    except (OSError, ValueError):
        return {}

def beats(count):
    seen = set()
    def found():
        seen.add(look().get("last_update"))
        return len(seen) > count
    until(found)

%s
run.complete()
print(json.dumps(told))
"""

HANGS = [
    pytest.param("init", "told = []; beats(5); told = look()['resources'].get('gpus')", None, id="from the start"),
    pytest.param(
        "later",
        "until(lambda: look().get('resources', {}).get('gpus')); beats(8); told = look()['resources'].get('gpus')",
        [A, B],
        id="later, when its last answer stands for a while",
    ),
    pytest.param(
        "init",
        "beats(5); Path(os.environ['STUB_RELEASE']).touch(); "
        "told = until(lambda: look().get('resources', {}).get('gpus'))",
        [A, B],
        id="for a while, and then it answers",
    ),
]


@pytest.mark.parametrize(("hangs", "script", "expected"), HANGS)
def test_a_driver_that_hangs_stops_no_heartbeat(
    driver: Path, tmp_path: Path, hangs: str, script: str, expected: object
) -> None:
    env = {"STUB_HANGS": hangs, "STUB_RELEASE": str(tmp_path / "release"), "LASTBEAT_BEAT_SECONDS": "0.1"}
    found = run(BEATS % script, driver, ROOT=str(tmp_path / "runs"), HOME=str(tmp_path), **env)
    assert found == expected
    assert (tmp_path / "runs" / "run-1" / "_complete").exists()
