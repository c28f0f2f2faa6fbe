"""GPUs as the driver tells of them, and a driver that hangs, fails or is not there.

The driver is a small library of our own, which a process of its own loads as it would load NVIDIA's. No real GPU was at
hand: what NVIDIA's own driver answers is as its headers and documents say.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from support.checkout import ROOT
from support.nvml import StubDriver, compiled
from support.waiting import LIMIT_S

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


def run(script: str, driver: StubDriver | None, *arguments: str, **env: str) -> Any:
    """What ``script`` prints, as JSON."""
    settings = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{ROOT / 'core'}{os.pathsep}{ROOT / 'tests'}",
        "PYTHONWARNINGS": "error",
        # Not where it reports to.
        "LASTBEAT_OWN_LOG": "error",
        **(driver.env if driver is not None else {}),
        **env,
    }
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


LOOKS = """
import json, os, sys
from lastbeat.training.node.gpus import GpuMonitor
found = {}
for name, (lines, env) in json.loads(sys.argv[1]).items():
    with open(os.environ["STUB_VALUES"], "w") as values:
        values.writelines(f"{line}\\n" for line in lines)
    found[name] = GpuMonitor(os.environ | env).read(30)
print(json.dumps(found))
"""


def told(driver: StubDriver, rows: Mapping[str, tuple[Sequence[str], Mapping[str, str]]]) -> dict[str, Any]:
    """What a monitor tells for each row: what the driver says, and the environment of training. One process asks for
    all of them."""
    found: dict[str, Any] = run(LOOKS, driver, json.dumps(rows))
    return found


SHOWN: dict[str, tuple[dict[str, str], list[dict[str, object]]]] = {
    "all of them": ({}, [A, B]),
    "in the order that CUDA shows them in": ({"CUDA_VISIBLE_DEVICES": "1, 0"}, [B, A]),
    "by the beginning of a UUID": ({"CUDA_VISIBLE_DEVICES": "GPU-bb"}, [B]),
    "not by what several begin with": ({"CUDA_VISIBLE_DEVICES": "GPU-"}, []),
    "a slice of one by its UUID": ({"CUDA_VISIBLE_DEVICES": "MIG-1"}, [B]),
    "a slice that is not there": ({"CUDA_VISIBLE_DEVICES": "MIG-2"}, []),
    "none": ({"CUDA_VISIBLE_DEVICES": ""}, []),
    "up to a wrong name, as CUDA does": ({"CUDA_VISIBLE_DEVICES": "0,-1,1"}, [A]),
    "up to a number that there is not": ({"CUDA_VISIBLE_DEVICES": "0,7,1"}, [A]),
    "all of a job's on this node, though each of its tasks is shown one":
        ({"CUDA_VISIBLE_DEVICES": "0", "SLURM_STEP_GPUS": "0,1"}, [A, B]),
    "of several jobs' GPUs those of this job": ({"SLURM_JOB_GPUS": "1"}, [B]),
    "where Slurm hides the others, those that are left": ({"SLURM_JOB_GPUS": "6,7"}, [A, B]),
    "what Slurm says in other words is left out": ({"SLURM_JOB_GPUS": "gpu:two"}, [A, B]),
}  # fmt: skip


def test_which_gpus_are_told_of(driver: StubDriver) -> None:
    found = told(driver, {name: ((), env) for name, (env, _) in SHOWN.items()})
    assert found == {name: expected for name, (_, expected) in SHOWN.items()}


TOLD: dict[str, tuple[list[str], dict[str, object]]] = {
    "a load that is not supported is unknown, not 0": (["utilization error 3"], {"utilization": None}),
    "a power of 0 is a power": (["power 0"], {"power_w": 0.0}),
    "a power cap is how a busy GPU runs": (["throttle 0x4"], {"throttle": []}),
    "and idling is no trouble": (["throttle 0x1"], {"throttle": []}),
    "heat, by its own name": (["throttle 0x48"], {"throttle": ["hw_thermal"]}),
    "a slowdown that says no more": (["throttle 0x8"], {"throttle": ["hw_slowdown"]}),
    "several reasons": (["throttle 0xa8"], {"throttle": ["sw_thermal", "hw_power_brake"]}),
    "memory errors": (["1.ecc_uncorrected 3"], {"ecc_uncorrected": 3}),
    "a repair of its memory that waits": (["1.rows_pending 1"], {"rows_pending": True}),
    "a repair that failed": (["1.rows_failed 1"], {"rows_failed": True}),
    "older GPUs retire pages instead":
        (["rows_remapped error 3", "pages_pending 1"],
         {"rows_remapped": None, "rows_pending": True, "rows_failed": None}),
    "NVLink's four kinds of errors together": (["1.nvlink_errors 7"], {"nvlink_errors": 28}),
    "no NVLink": (["nvlink_errors error 3"], {"nvlink_errors": None}),
    "no process": (["processes 0"], {"processes": 0}),
    "an Xid that the driver reports": (["1.xid 79"], {"xids": [79]}),
    "a GPU that reports none does not hide the others": (["1.xid 48", "0.register error 3"], {"xids": [48]}),
    "without the right to hear of events there are none": (["1.xid 79", "events error 4"], {}),
}  # fmt: skip


def test_what_is_told_of_one(driver: StubDriver) -> None:
    found = told(driver, {name: (lines, {}) for name, (lines, _) in TOLD.items()})
    for name, (_, expected) in TOLD.items():
        known = {key: value for key, value in {**B, **expected}.items() if value is not None}
        assert (name, found[name][1]) == (name, known)


def test_a_question_without_an_answer_costs_no_other_answer(driver: StubDriver) -> None:
    codes = zip(QUESTIONS, cycle([NOT_SUPPORTED, NO_PERMISSION]), strict=False)
    for name, gpus in told(driver, {name: ([f"1.{name} {code}"], {}) for name, code in codes}).items():
        assert gpus[0] == A, name
        assert ("lost" not in gpus[1], len(gpus[1]) >= len(B) - 3) == (True, True), name


def test_a_gpu_that_is_lost_is_said_to_be(driver: StubDriver) -> None:
    says = {"handle": LOST, "temperature": RESET, "utilization": LOST, "processes": RESET}
    for name, (found, lost) in told(driver, {name: ([f"1.{name} {code}"], {}) for name, code in says.items()}).items():
        assert (found, lost["index"], lost["lost"]) == (A, 1, True), name


ABSENT: dict[str, tuple[list[str], object]] = {
    "a driver that does not start": (["init error 9"], None),
    "a driver that cannot count": (["count error 999"], None),
    "a driver without GPUs": (["count 0"], []),
    "one that nobody may look at is not lost": (["1.handle error 4"], [A, {"index": 1, "name": "GPU"}]),
}


def test_what_is_not_there(driver: StubDriver) -> None:
    found = told(driver, {name: (lines, {}) for name, (lines, _) in ABSENT.items()})
    assert found == {name: expected for name, (_, expected) in ABSENT.items()}


def test_sixteen_are_told_of_at_most(driver: StubDriver) -> None:
    assert len(told(driver, {"many": (["count 64"], {})})["many"]) == 16


def test_without_a_driver_nothing_is_known() -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a driver")
    look = "import json; from lastbeat.training.node.gpus import GpuMonitor; print(json.dumps(GpuMonitor().read(30)))"
    assert run(look, None) is None


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
