"""A failure that was seen before: two runs fail of one cause, and people hear of the first one with the second."""

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from support.cli import LASTBEAT, RunFolder, call

TRACEBACK = """{first}
Traceback (most recent call last):
  File "{folder}/train.py", line {line}, in main
    loss = model(batch)
{first}
"""
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {} GiB. GPU {} has a total capacity of 79.15 GiB"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def put(root: Path, key: str, text: str) -> None:
    file = root / key
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_the_second_run_that_fails_of_a_cause_names_the_first(root: Path) -> None:
    def ask(*arguments: str) -> CompletedProcess[str]:
        return call(LASTBEAT, *arguments, "--root", str(root), cwd=root.parent)

    for run_id in ("first", "second", "third"):
        RunFolder(root, run_id).metadata()
    assert ask("sweep", "--once").returncode == 0
    put(root, "first/_error", TRACEBACK.format(first=OOM.format("2.00", 0), folder="/data/a", line=33))
    assert ask("sweep", "--once").returncode == 2
    put(root, "second/_error", TRACEBACK.format(first=OOM.format("12.50", 7), folder="/mnt/b/c", line=58))
    put(
        root,
        "third/_error",
        TRACEBACK.format(first="ValueError: the tokenizer has no pad token", folder="/data/a", line=33),
    )
    told = ask("watch", "--once", "--run-id", "second").stdout
    assert "Seen before: same as run first on " in told
    assert " (2 runs so far)" in told
    assert "Seen before: same as run first on " in ask("show", "second").stdout
    assert "Seen before: same as run first on " in ask("explain", "second").stdout
    assert "same as" not in ask("watch", "--once", "--run-id", "third").stdout
    costs = json.loads(ask("causes", "--json").stdout)
    assert {each["error_type"]: each["failures"] for each in costs["causes"]}["oom"] == 2
    assert sorted(each["failures"] for each in costs["causes"]) == [1, 2]
