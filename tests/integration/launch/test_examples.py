"""The scripts of docs/examples, as people run them, against a real Ray."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from integration.launch.conftest import Head
from support.checkout import ROOT

EXAMPLES = ROOT / "docs" / "examples"
LIMIT_S = 240


def run(script: str, *arguments: object) -> str:
    """What the script prints; it has to end well."""
    command = [sys.executable, str(EXAMPLES / script), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "core")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_restart_loop_of_ones_own_trains_to_the_end(
    by_dashboard: Head, checkpoints: Path, training: Callable[[str], str]
) -> None:
    said = run("ray_restart_loop.py", by_dashboard.head_pod, checkpoints, training("hang"), 1)

    assert "attempt 1: FAILED at step 15" in said
    assert f"from {checkpoints}/checkpoint-10" in said
    assert "attempt 2: SUCCEEDED at step 30" in said
    assert "stands still at step 15" in said


def test_a_pipeline_trains_to_the_end_and_says_how_everything_is(
    by_dashboard: Head, checkpoints: Path, training: Callable[[str], str]
) -> None:
    said = run("ray_pipeline.py", by_dashboard.head_pod, checkpoints, training("crash"), 2)

    assert "Ray has 2 GPUs" in said
    assert "success: True at step 30 after 1 restarts" in said
    assert "Checkpoints:" in said


def test_a_thread_waits_while_the_script_does_something_else(
    by_dashboard: Head, training: Callable[[str], str]
) -> None:
    job = by_dashboard.submit(training("well"))

    said = run("ray_background.py", by_dashboard.head_pod, job, 0.5)

    assert "of 30, loss" in said
    assert "SUCCEEDED at step 30" in said
