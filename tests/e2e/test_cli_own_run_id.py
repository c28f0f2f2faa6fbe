"""Commands that report a run and were given no id: they make one, or take the scheduler's, and say which."""

import json
import re
from pathlib import Path

import pytest

from support.cli import LASTBEAT, call

JOB = {"SLURM_JOB_ID": "77", "SLURM_JOB_NAME": "llama"}


def test_exec_makes_one_of_the_script_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text("echo trained\n", encoding="utf-8")
    done = call([*LASTBEAT, "exec", "--", "sh", "train.sh"], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "trained\n")
    told = re.fullmatch(r"lastbeat: reporting to (\S+) as run (train-\S+); see it with: .*\n", done.stderr)
    assert told is not None, done.stderr
    assert (tmp_path / "training-runs" / told[2] / "_complete").exists()


@pytest.mark.parametrize(
    "more",
    [pytest.param((), id="once"), pytest.param(("--max-restarts", "1"), id="with restarts in place")],
)
def test_a_training_under_exec_is_the_same_run_in_the_same_place(tmp_path: Path, more: tuple[str, ...]) -> None:
    """Though that is a relative folder, and training goes elsewhere before it begins."""
    (tmp_path / "train.py").write_text(
        "import os, lastbeat; os.chdir('/')\nwith lastbeat.run() as run:\n    run.step(7)\n", encoding="utf-8"
    )
    done = call([*LASTBEAT, "exec", "--root", "runs", *more, "--", "python", "train.py"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name.startswith("train-")
    assert list(tmp_path.rglob("progress.json")) == [run / "progress.json"]
    assert json.loads((run / "progress.json").read_text())["step"] == 7


def test_exec_and_training_make_the_same_run_of_a_name_that_is_no_run_id(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        'import lastbeat\nwith lastbeat.run("my exp!") as run:\n    run.step(3)\n', encoding="utf-8"
    )
    wrong = {"MONITORING_ROOT": "runs", "LASTBEAT_LEARN": "banana"}
    done = call([*LASTBEAT, "exec", "--run-id", "my exp!", "--", "python", "train.py"], cwd=tmp_path, **wrong)
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name == "my-exp"
    # Once by exec, and once by training.
    assert done.stderr.count("lastbeat calls this run my-exp") == 2
    assert done.stderr.count("LASTBEAT_LEARN='banana' is neither on nor off") == 2
    assert json.loads((run / "metadata.json").read_text("utf-8"))["ignored_settings"] == ["LASTBEAT_LEARN='banana'"]
    refused = call([*LASTBEAT, "show", "my exp!"], cwd=tmp_path, MONITORING_ROOT="runs")
    assert refused.returncode == 3, "people see at once what a command refuses"


def test_in_a_job_of_slurm_all_of_them_mean_that_job(tmp_path: Path) -> None:
    run = tmp_path / "training-runs" / "llama-77"
    begun = call([*LASTBEAT, "beat", "--start", "--step", "5"], cwd=tmp_path, **JOB)
    assert (begun.returncode, begun.stderr.count("as run llama-77; see it with: lastbeat show llama-77")) == (0, 1)
    assert json.loads((run / "progress.json").read_text("utf-8"))["step"] == 5
    again = call([*LASTBEAT, "beat", "--step", "6"], cwd=tmp_path, **JOB)
    assert (again.returncode, again.stderr) == (0, "")
    assert call([*LASTBEAT, "complete"], cwd=tmp_path, **JOB).returncode == 0
    assert (run / "_complete").exists()
