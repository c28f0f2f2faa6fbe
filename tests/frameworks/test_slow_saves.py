"""A checkpoint and an evaluation that take longer than a step may: ``lastbeat exec`` ends none of them as a hang."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: see .ci/run")

from frameworks.trained import ROOT, SCRIPTS, Trained, train

STEP_LIMIT_S, SLOW_S = 10, 15
TRAININGS = ["lightning", "keras"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trained]:
    """All of them at once, since they mostly sleep."""
    with ThreadPoolExecutor(len(TRAININGS)) as pool:
        return dict(zip(TRAININGS, pool.map(_train, map(tmp_path_factory.mktemp, TRAININGS), TRAININGS), strict=True))


def _train(folder: Path, framework: str) -> Trained:
    limits = f"step:{STEP_LIMIT_S},checkpointing:120,evaluation:120"
    own = ["--run-id", "slow", "--max-restarts", "1", "--grace", "3", "--section-timeouts", limits]
    command = [sys.executable, str(SCRIPTS / "slow_saves.py"), framework]
    python_path = f"{ROOT / 'core'}:{ROOT / 'cli'}"
    more = {"PYTHONPATH": python_path, "LASTBEAT_GUARDIAN": "off", "SLOW_S": f"{SLOW_S}"}
    return train(folder, ["-m", "lastbeat_cli", "exec", *own, "--", *command], more)


@pytest.mark.parametrize("framework", TRAININGS)
def test_a_long_save_and_a_long_evaluation_are_no_hang(trained: dict[str, Trained], framework: str) -> None:
    found = trained[framework]
    assert found.status == 0, found.output
    assert "restarting in place" not in found.output
    assert not (found.root / "slow" / "in_place").exists(), "no start was ended"
    assert "_complete" in found.names("slow")
