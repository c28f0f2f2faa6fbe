"""A training with Lightning that is told to stop saves one checkpoint and ends; the next process goes on where it
was."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: see .ci/run")

from frameworks.trained import SCRIPTS, Trained, train

NAME, OTHER_NAME = "lightning.pytorch", "pytorch_lightning"
"""Two copies of one package: a test of each stops."""


def stops(folder: Path, name: str, *how: str) -> Trained:
    return train(folder, [str(SCRIPTS / "lit_stops.py"), name, *how])


def seen(folder: Path, rank: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"seen-{rank}.json").read_text(encoding="utf-8"))
    return found


def checkpoints(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.ckpt"))


def test_sigterm_saves_one_checkpoint_and_the_next_process_goes_on_at_the_same_step(tmp_path: Path) -> None:
    first = stops(tmp_path, NAME)
    assert first.status == 0, first.output
    assert first.names("stops") == {"metadata.json", "progress.json", "_preempted"}, first.output
    said = first.document("stops", "_preempted")
    assert (said["step"], said["why"]) == (5, "received signal 15 (SIGTERM)")
    kept = tmp_path / said["checkpoint"]
    assert checkpoints(tmp_path) == [str(kept.relative_to(tmp_path))]
    assert kept.name == "epoch=0-step=5.ckpt"
    assert seen(tmp_path)["steps"] == [0, 1, 2, 3, 4], "it does not go on to the end of its epoch"
    second = stops(tmp_path, NAME)
    assert second.status == 0, second.output
    assert second.names("stops") == {"metadata.json", "progress.json", "_complete"}
    assert seen(tmp_path)["steps"] == [*range(5, 24)], "no step is lost, and none is taken twice"


def test_a_handler_that_was_there_is_called_and_put_back(tmp_path: Path) -> None:
    done = stops(tmp_path, OTHER_NAME, "handler")
    assert done.status == 0, done.output
    assert (tmp_path / "mine").read_text() == "15"
    assert seen(tmp_path)["restored"] is True
    assert done.document("stops", "_preempted")["step"] == 5


def test_two_ranks_stop_at_the_same_step_with_one_checkpoint_though_one_alone_is_told(tmp_path: Path) -> None:
    done = stops(tmp_path, NAME, "ranks")
    assert done.status == 0, done.output
    assert done.names("stops") >= {"_preempted"}, done.output
    assert done.document("stops", "_preempted")["step"] == 5
    assert checkpoints(tmp_path) == ["kept/checkpoints/epoch=0-step=5.ckpt"]
    assert [len(seen(tmp_path, rank)["steps"]) for rank in (0, 1)] == [5, 5]
