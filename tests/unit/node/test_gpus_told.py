"""GPUs as the driver tells of them, and a driver that hangs, fails or is not there.

The driver is a small library of our own, which a process of its own loads as it would load NVIDIA's. No real GPU was at
hand: what NVIDIA's own driver answers is as its headers and documents say.
"""

import json
import os
import subprocess
import sys
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from support.checkout import ROOT
from support.nvml import StubDriver, compiled
from support.training import LIMIT_S

WELL = {
    "temperature_c": 45, "power_w": 350.5, "power_limit_w": 700.0, "throttle": [], "ecc_corrected": 0,
    "ecc_uncorrected": 0, "rows_remapped": 0, "rows_pending": False, "rows_failed": False, "nvlink_errors": 0,
    "processes": 1, "memory_total_bytes": 80 << 30,
}  # fmt: skip
A = {
    **WELL, "index": 0, "name": "Stub A", "uuid": "GPU-aaaa-0", "bus": "00000000:3B:00.0", "utilization": 0.97,
    "memory_used_bytes": 70 << 30,
}  # fmt: skip
B = {
    **WELL, "index": 1, "name": "Stub B", "uuid": "GPU-bbbb-1", "bus": "00000000:3C:00.0", "utilization": 0.05,
    "memory_used_bytes": 1 << 30,
}  # fmt: skip
NOT_SUPPORTED, NO_PERMISSION, LOST, RESET = "error 3", "error 4", "error 15", "error 16"
QUESTIONS = (
    "temperature", "power", "power_limit", "throttle", "ecc_corrected", "ecc_uncorrected", "rows_remapped",
    "rows_pending", "rows_failed", "pages_pending", "nvlink_errors", "processes", "utilization", "memory_used", "uuid",
    "bus", "name", "index",
)  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> StubDriver:
    return compiled(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def driver(library: StubDriver) -> StubDriver:
    return library.says()


def run(script: str, driver: StubDriver | None, **env: str) -> Any:
    """What ``script`` prints, as JSON."""
    settings = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{ROOT / 'core'}{os.pathsep}{ROOT / 'tests'}",
        "PYTHONWARNINGS": "error",
        # Not where it reports to.
        "LASTBEAT_LOG_LEVEL": "error",
        **(driver.env if driver is not None else {}),
        **env,
    }
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


LOOK = """
import json, sys
from lastbeat.training.node.gpus import GpuMonitor
print(json.dumps(GpuMonitor().read(30)))
"""

SHOWN = [
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
    pytest.param(
        {"CUDA_VISIBLE_DEVICES": "0", "SLURM_STEP_GPUS": "0,1"}, [A, B],
        id="all of a job's on this node, though each of its tasks is shown one",
    ),
    pytest.param({"SLURM_JOB_GPUS": "1"}, [B], id="of several jobs' GPUs those of this job"),
    pytest.param({"SLURM_JOB_GPUS": "6,7"}, [A, B], id="where Slurm hides the others, those that are left"),
    pytest.param({"SLURM_JOB_GPUS": "gpu:two"}, [A, B], id="what Slurm says in other words is left out"),
]  # fmt: skip


@pytest.mark.parametrize(("env", "expected"), SHOWN)
def test_which_gpus_are_told_of(driver: StubDriver, env: dict[str, str], expected: object) -> None:
    assert run(LOOK, driver, **env) == expected


TOLD = [
    pytest.param(["utilization error 3"], {"utilization": None}, id="a load that is not supported is unknown, not 0"),
    pytest.param(["1.temperature 91"], {"temperature_c": 91}, id="its temperature"),
    pytest.param(["power 0"], {"power_w": 0.0}, id="a power of 0 is a power"),
    pytest.param(["throttle 0x4"], {"throttle": []}, id="a power cap is how a busy GPU runs"),
    pytest.param(["throttle 0x1"], {"throttle": []}, id="and idling is no trouble"),
    pytest.param(["throttle 0x48"], {"throttle": ["hw_thermal"]}, id="heat, by its own name"),
    pytest.param(["throttle 0x8"], {"throttle": ["hw_slowdown"]}, id="a slowdown that says no more"),
    pytest.param(["throttle 0xa8"], {"throttle": ["sw_thermal", "hw_power_brake"]}, id="several reasons"),
    pytest.param(["1.ecc_uncorrected 3"], {"ecc_uncorrected": 3}, id="memory errors"),
    pytest.param(["1.rows_pending 1"], {"rows_pending": True}, id="a repair of its memory that waits"),
    pytest.param(["1.rows_failed 1"], {"rows_failed": True}, id="a repair that failed"),
    pytest.param(["rows_remapped error 3", "pages_pending 1"],
                 {"rows_remapped": None, "rows_pending": True, "rows_failed": None},
                 id="older GPUs retire pages instead"),
    pytest.param(["1.nvlink_errors 7"], {"nvlink_errors": 28}, id="NVLink's four kinds of errors together"),
    pytest.param(["nvlink_errors error 3"], {"nvlink_errors": None}, id="no NVLink"),
    pytest.param(["1.processes 3"], {"processes": 3}, id="processes"),
    pytest.param(["processes 0"], {"processes": 0}, id="no process"),
    pytest.param(["1.xid 79"], {"xids": [79]}, id="an Xid that the driver reports"),
    pytest.param(["1.xid 79", "0.register error 3"], {"xids": [79]},
                 id="a GPU that reports none does not hide the others"),
    pytest.param(["1.xid 79", "events error 4"], {}, id="without the right to hear of events there are none"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "expected"), TOLD)
def test_what_is_told_of_one(driver: StubDriver, lines: list[str], expected: dict[str, object]) -> None:
    told = run(LOOK, driver.says(*lines))[1]
    known = {**B, **expected}
    assert told == {name: value for name, value in known.items() if value is not None}


@pytest.mark.parametrize(("name", "code"), list(zip(QUESTIONS, cycle([NOT_SUPPORTED, NO_PERMISSION]), strict=False)))
def test_a_question_without_an_answer_costs_no_other_answer(driver: StubDriver, name: str, code: str) -> None:
    told = run(LOOK, driver.says(f"1.{name} {code}"))
    assert told[0] == A
    assert "lost" not in told[1]
    assert len(told[1]) >= len(B) - 3


@pytest.mark.parametrize("code", [LOST, RESET])
@pytest.mark.parametrize("name", ["handle", "temperature", "utilization", "processes"])
def test_a_gpu_that_is_lost_is_said_to_be(driver: StubDriver, name: str, code: str) -> None:
    found, lost = run(LOOK, driver.says(f"1.{name} {code}"))
    assert found == A
    assert (lost["index"], lost["lost"]) == (1, True)


ABSENT = [
    pytest.param(["init error 9"], None, id="a driver that does not start"),
    pytest.param(["count error 999"], None, id="a driver that cannot count"),
    pytest.param(["count 0"], [], id="a driver without GPUs"),
    pytest.param(["1.handle error 4"], [A, {"index": 1, "name": "GPU"}], id="one that nobody may look at is not lost"),
]


@pytest.mark.parametrize(("lines", "expected"), ABSENT)
def test_what_is_not_there(driver: StubDriver, lines: list[str], expected: object) -> None:
    assert run(LOOK, driver.says(*lines)) == expected


def test_sixteen_are_told_of_at_most(driver: StubDriver) -> None:
    assert len(run(LOOK, driver.says("count 64"))) == 16


def test_without_a_driver_nothing_is_known() -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a driver")
    assert run(LOOK, None) is None


TWICE = """
import json, os
from lastbeat.training.node.gpus import GpuMonitor
monitor = GpuMonitor()
print(json.dumps([[gpu.get("xids") for gpu in monitor.read(30)] for _ in range(2)]))
"""


def test_an_xid_is_told_of_once(driver: StubDriver) -> None:
    assert run(TWICE, driver.says("0.xid 48", "1.xid 79")) == [[[48], [79]], [None, None]]


TAKEN = """
import json
from lastbeat.training.node.gpus import GpuMonitor
monitor = GpuMonitor()
for _ in range(3):
    monitor.read(30)
print(json.dumps([[[gpu["index"], number] for gpu, number in monitor.take_xids()] for _ in range(2)]))
"""


def test_an_xid_waits_for_whoever_looks_less_often_than_beats_ask(driver: StubDriver) -> None:
    assert run(TAKEN, driver.says("0.xid 48", "1.xid 79")) == [[[0, 48], [1, 79]], []]


BEATS = """
import json, os
from functools import partial
from pathlib import Path
import lastbeat
from support import waiting

until = partial(waiting.until, limit_s=50)
run = lastbeat.run("run-1", root=os.environ["ROOT"])
metadata = Path(os.environ["ROOT"], "run-1", "metadata.json")
values = Path(os.environ["STUB_VALUES"])

def look():
    try:
        return json.loads(metadata.read_text())
    except (OSError, ValueError):
        return {}

def gpus():
    return look().get("resources", {}).get("gpus")

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
    pytest.param("init hang", "told = []; beats(5); told = gpus()", None, id="from the start"),
    pytest.param("", "until(gpus); values.write_text('utilization hang\\n'); beats(8); told = gpus()", [A, B],
                 id="later, when its last answer stands for a while"),
    pytest.param("init hang", "beats(5); values.write_text(''); told = until(gpus)", [A, B],
                 id="for a while, and then it answers"),
]  # fmt: skip


@pytest.mark.parametrize(("says", "script", "expected"), HANGS)
def test_a_driver_that_hangs_stops_no_heartbeat(
    driver: StubDriver, tmp_path: Path, says: str, script: str, expected: object
) -> None:
    env = {"LASTBEAT_BEAT_SECONDS": "0.1", "ROOT": str(tmp_path / "runs"), "HOME": str(tmp_path)}
    assert run(BEATS % script, driver.says(says), **env) == expected
    assert (tmp_path / "runs" / "run-1" / "_complete").exists()
