"""A training says how its node is, and a watcher tells people. The driver is a small library of our own; no real GPU
was at hand."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.checkout import ROOT
from support.cli import LASTBEAT, call
from support.nvml import StubDriver, compiled
from support.waiting import LIMIT_S

TRAINING = """
import json, os
from pathlib import Path
import lastbeat
from support.waiting import until

folder = Path("runs/run-1")
values = Path(os.environ["STUB_VALUES"])

def health():
    try:
        return json.loads((folder / "metadata.json").read_text()).get("health") or {}
    except (OSError, ValueError):
        return {}

def conditions():
    return [each["name"] for each in health().get("conditions", [])]

run = lastbeat.run("run-1", root="runs", total_steps=100)
run.step(1, loss=2.5)
until(lambda: "sampled_at" in health())
%s
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> StubDriver:
    return compiled(tmp_path_factory.mktemp("driver"))


def run(folder: Path, script: str, driver: StubDriver | None, **env: str) -> subprocess.CompletedProcess[str]:
    settings = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{ROOT / 'core'}{os.pathsep}{ROOT / 'tests'}",
        "HOME": str(folder),
        "LASTBEAT_BEAT_SECONDS": "0.1,health:0.1",
        **(driver.env if driver is not None else {}),
        **env,
    }
    command = [sys.executable, "-c", script]
    return subprocess.run(
        command, cwd=folder, env=settings, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )


def train(folder: Path, script: str, driver: StubDriver | None, **env: str) -> subprocess.CompletedProcess[str]:
    """Rank 0 of a training, which goes on with ``script`` once its node was sampled."""
    return run(folder, TRAINING % script, driver, **env)


def metadata(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "runs" / "run-1" / "metadata.json").read_text())
    return found


ILL = """
until(lambda: json.loads((folder / "metadata.json").read_text()).get("resources", {}).get("gpus"))
until(lambda: "gpu" in health().get("history", {}).get("series", {}))
assert conditions() == [], conditions()
values.write_text("1.handle error 15\\n")
until(lambda: conditions() == ["gpu_lost"])
until(lambda: (folder / "ranks" / "0.health").exists())
os.kill(os.getpid(), 9)
"""


def test_what_happens_to_a_gpu_reaches_people(library: StubDriver, tmp_path: Path) -> None:
    """The whole chain: driver, beat thread, document, watcher."""
    done = train(tmp_path, ILL, library.says(), LASTBEAT_GUARDIAN="off")
    assert done.returncode == -9, done.stderr

    said = call(LASTBEAT, "watch", "--run-id", "run-1", "--root", "runs", "--once", "--json", cwd=tmp_path)

    found = json.loads(said.stdout)
    # It has been dead for a moment, which may have been noticed.
    assert (found["status"], found["conditions"][0]) == ("RUNNING", "gpu_lost")
    text = "GPU 1 is lost to the driver"
    assert text in metadata(tmp_path)["health"]["conditions"][0]["text"]
    shown = call(LASTBEAT, "show", "run-1", "--root", "runs", cwd=tmp_path)
    assert text in shown.stdout
    assert "scontrol update nodename=NODE state=drain" in " ".join(shown.stdout.split())


def test_a_node_says_what_is_known_of_it_and_leaves_no_mark_while_it_is_well(
    library: StubDriver, tmp_path: Path
) -> None:
    script = "until(lambda: health().get('history', {}).get('series', {}).get('cpu'))\nrun.complete()"
    done = train(tmp_path, script, library.says())
    assert done.returncode == 0, done.stderr

    told = metadata(tmp_path)["health"]
    assert told["conditions"] == []
    assert told["disks"][0]["total_bytes"] > 0
    assert {"gpu", "gpu_temperature_c", "gpu_power_w", "memory", "disk"} <= told["history"]["series"].keys()
    assert told["history"]["series"]["gpu"][-1] == 0.51
    assert len(json.dumps(metadata(tmp_path))) < 64 * 1024
    assert not (tmp_path / "runs" / "run-1" / "ranks").exists()


OTHER_NODE = """
import json, os
from pathlib import Path
import lastbeat
from support.waiting import until

mark, values = Path("runs/run-1/ranks/8.health"), Path(os.environ["STUB_VALUES"])
run = lastbeat.run("run-1", root="runs")
until(lambda: Path("runs/run-1/ranks/8.json").exists())
assert not mark.exists()
values.write_text("1.handle error 15\\n")
told = json.loads(until(lambda: mark.exists() and mark.read_text()))
run.complete()
print(json.dumps([told, mark.exists()]))
"""


def test_the_first_rank_of_another_node_leaves_a_mark_while_that_is_ill(library: StubDriver, tmp_path: Path) -> None:
    where = {"RANK": "8", "WORLD_SIZE": "16", "LOCAL_RANK": "0", "LASTBEAT_BEAT_SECONDS": "ranks:0.1,health:0.1"}
    done = run(tmp_path, OTHER_NODE, library.says(), LASTBEAT_GUARDIAN="off", **where)
    assert done.returncode == 0, done.stderr
    told, left_behind = json.loads(done.stdout)
    assert (told["rank"], bool(told["host"]), left_behind) == (8, True, False)
    assert [each["name"] for each in told["conditions"]] == ["gpu_lost"]
