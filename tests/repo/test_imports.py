"""What `import lastbeat` costs whoever puts it into a training script."""

import json
import os
import subprocess
import sys

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
