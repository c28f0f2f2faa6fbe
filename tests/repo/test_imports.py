"""What `import lastbeat` costs whoever puts it into a training script."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.checkout import ROOT

HEAVY = (
    "asyncio", "boto3", "botocore", "click", "concurrent", "dotenv", "email", "http", "logging", "numpy", "obstore",
    "pydantic", "requests", "rich", "socket", "ssl", "subprocess", "urllib3",
)  # fmt: skip

PROBE = (
    "import sys, json; before = set(sys.modules); import {name}; print(json.dumps(sorted(set(sys.modules) - before)))"
)


def _loaded_by(name: str) -> set[str]:
    environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join([str(ROOT / "core"), str(ROOT / "cli")])}
    # Without site: an editable install's own hooks may load what lastbeat does not.
    command = [sys.executable, "-S", "-c", PROBE.format(name=name)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return {module.split(".")[0] for module in json.loads(done.stdout)}


@pytest.mark.parametrize("heavy", HEAVY)
def test_import_lastbeat_leaves_alone(heavy: str, loaded: set[str]) -> None:
    assert heavy not in loaded


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    return _loaded_by("lastbeat")


PASS = (
    "import sys, json; from lastbeat_cli.main import main; main(sys.argv[1:]); print(json.dumps(sorted(sys.modules)))"
)
CHECKS_FILES = ("yaml", "pydantic", "lastbeat.handwritten", "lastbeat.signals.catalogue_files")
READS_LOGS = (
    "lastbeat.observe.logs",
    "lastbeat.signals.loading",
    "lastbeat.scanning.matching",
    "lastbeat.model.signal",
)


@pytest.mark.parametrize("log", [False, True], ids=["no log", "a log"])
def test_what_reads_logs_is_loaded_where_there_are_logs(tmp_path: Path, log: bool) -> None:
    run = tmp_path / "runs" / "run-1"
    run.mkdir(parents=True)
    (run / "metadata.json").write_text("{}")
    if log:
        (run / "logs").mkdir()
        (run / "logs" / "rank0.log").write_text("step 1 loss 2.5\n")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "core"), str(ROOT / "cli")]),
    }
    command = [sys.executable, "-c", PASS, "watch", "--run-id", "run-1", "--once", "--root", "runs"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert {name in loaded for name in READS_LOGS} == {log}
    assert loaded.isdisjoint(CHECKS_FILES), "these are for a user's own catalogue alone"
