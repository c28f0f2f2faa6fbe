"""``lastbeat exec`` where its options say where the runs are: training below it reports to the same place."""

import json
import sys
from pathlib import Path

import pytest

from support.wrapped import run_exec

TRAIN = "import os, lastbeat; os.chdir('/')\nwith lastbeat.run() as run: run.step(7)"


@pytest.mark.parametrize(
    "more",
    [pytest.param((), id="once"), pytest.param(("--max-restarts", "1"), id="with restarts in place")],
)
def test_training_reports_where_the_options_say(tmp_path: Path, more: tuple[str, ...]) -> None:
    # A relative folder: training may go elsewhere before it begins.
    done = run_exec(tmp_path, sys.executable, "-c", TRAIN, options=("--root", "elsewhere", *more))
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.rglob("progress.json")) == [tmp_path / "elsewhere" / "run-1" / "progress.json"]
    assert json.loads((tmp_path / "elsewhere" / "run-1" / "progress.json").read_text())["step"] == 7
