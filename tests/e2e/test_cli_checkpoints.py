"""``checkpoints`` as users run it, and the same as a function."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support import checkpoint_files as made
from support.cli import LASTBEAT, call, environment
from support.waiting import LIMIT_S

FUNCTION = "import lastbeat; found = lastbeat.find_checkpoints('ckpt'); print(found.chosen.step, found.chosen.url)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    hour_ago = time.time() - 3600
    for name, files in (("checkpoint-100", made.huggingface(100)), ("checkpoint-200", made.huggingface(200))):
        for file, body in files.items():
            path = tmp_path / "ckpt" / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
            os.utime(path, (hour_ago, hour_ago))
    (tmp_path / "ckpt" / "checkpoint-200" / "trainer_state.json").unlink()
    return tmp_path


def test_the_one_to_resume_from_and_why_not_the_newer_one(folder: Path) -> None:
    said = call(LASTBEAT, "checkpoints", "ckpt", cwd=folder)
    assert said.returncode == 0, said.stderr
    head, newest, taken = said.stdout.splitlines()
    assert head.endswith("ckpt: 2 checkpoints; a restart would take checkpoint-100 (step 100)")
    assert newest.endswith("incomplete: trainer_state.json is missing, which is written last")
    assert taken.startswith("> checkpoint-100")
    found = json.loads(call(LASTBEAT, "checkpoints", "ckpt", "--json", cwd=folder).stdout)
    assert (found["chosen"]["step"], found["chosen"]["url"]) == (100, str(folder / "ckpt" / "checkpoint-100"))


def test_the_same_as_a_function(folder: Path) -> None:
    command = [sys.executable, "-c", FUNCTION]
    said = subprocess.run(
        command, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    assert said.stdout.split() == ["100", str(folder / "ckpt" / "checkpoint-100")]


def test_none_is_there(tmp_path: Path) -> None:
    (tmp_path / "ckpt").mkdir()
    said = call(LASTBEAT, "checkpoints", "ckpt", cwd=tmp_path)
    assert (said.returncode, "no checkpoints; training would begin from the start" in said.stdout) == (1, True)


@pytest.mark.parametrize("place", ["nowhere", "s3://", "ftp://host/x"])
def test_a_place_that_cannot_be_read_is_told(tmp_path: Path, place: str) -> None:
    said = call(LASTBEAT, "checkpoints", place, cwd=tmp_path)
    assert (said.returncode, said.stdout) == (3, "")
    assert "Traceback" not in said.stderr
    assert place in said.stderr
    assert "MONITORING_ROOT" not in said.stderr, "the fleet root is another place"
