"""``lastbeat explain`` of a run, and of names that are nearly right."""

import json
from pathlib import Path

import pytest

from support.cli import LASTBEAT, RunFolder, call

STEPS = "step 100/1000 loss 2.5\nstep 200/1000 loss 2.4\n"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "training-runs", "my-run")
    folder.metadata()
    return folder


def test_a_run_whose_program_was_never_changed_is_explained_from_the_logs_of_this_machine(run: RunFolder) -> None:
    (run.root.parent / "train.log").write_text(STEPS + OOM)
    done = call(LASTBEAT, "explain", "my-run", "--json", cwd=run.root.parent, LASTBEAT_LOGS="train*.log")
    told = json.loads(done.stdout)["cause"]
    assert (told["error_type"], told["evidence"]["file"], told["evidence"]["line"]) == ("oom", "train.log", 3)


def test_the_logs_of_this_machine_may_be_of_another_run_than_one_that_has_its_own(run: RunFolder) -> None:
    run.put("logs/train.log", STEPS)
    (run.root.parent / "train.log").write_text(STEPS + OOM)
    done = call(LASTBEAT, "explain", "my-run", "--json", cwd=run.root.parent, LASTBEAT_LOGS="train.log")
    assert json.loads(done.stdout)["cause"] is None


def test_without_any_log_it_is_said_where_one_could_be(run: RunFolder) -> None:
    done = call(LASTBEAT, "explain", "my-run", cwd=run.root.parent)
    assert done.returncode == 3
    assert "LASTBEAT_LOGS" in done.stderr


def test_a_fleet_root_in_place_of_a_run(run: RunFolder) -> None:
    for number in range(7):
        other = RunFolder(run.root, f"run-{number}")
        other.metadata()
        other.put("_error", OOM)
    run.put("logs/train.log", STEPS)
    done = call(LASTBEAT, "explain", "training-runs", cwd=run.root.parent)
    assert (done.returncode, done.stdout) == (3, "")
    assert "training-runs is a fleet root" in done.stderr
    assert "run-6, " in done.stderr
    assert "(8 in all)" in done.stderr
    assert "Name one: lastbeat explain training-runs/" in done.stderr
    named = done.stderr.rpartition("lastbeat explain ")[2].strip()
    assert call(LASTBEAT, "explain", named, cwd=run.root.parent).returncode == 0


def test_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    done = call(LASTBEAT, "explain", "x" * 5000, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "File name too long" in done.stderr
    assert len(done.stderr) < 500


def test_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "latest.log").symlink_to("gone.log")
    done = call(LASTBEAT, "explain", "latest.log", cwd=tmp_path)
    assert done.returncode == 3
    assert "latest.log is a link to gone.log, which is not there" in done.stderr
