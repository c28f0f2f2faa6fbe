"""A plain loop under torchrun: two ranks that talk through gloo, and report as one run."""

import platform
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: see .ci/run")

from frameworks.trained import SCRIPTS, Trained, torchrun, train
from support.row_by_row import labelled


def two_ranks(folder: Path, *args: str, options: tuple[str, ...] = ()) -> Trained:
    return train(folder, [*torchrun(2, *options), str(SCRIPTS / "ddp.py"), *args])


def test_two_ranks_are_one_run(tmp_path: Path) -> None:
    trained = two_ranks(tmp_path)
    assert trained.status == 0, trained.output
    ranks = {"ranks/0.json", "ranks/1.json"}
    assert trained.names("ddp") == {"metadata.json", "progress.json", "_complete", *ranks}
    assert trained.document("ddp", "progress.json")["step"] == 19
    assert trained.document("ddp", "metadata.json")["world_size"] == 2
    for rank in (0, 1):
        told = trained.document("ddp", f"ranks/{rank}.json")
        assert (told["rank"], told["local_rank"], told["status"], told["step"]) == (rank, rank, "completed", 19)
        assert (told["attempt"], told["host"]) == (1, platform.node())


@pytest.mark.parametrize(("rank", "when", "message"), labelled([
    ("another rank raises in the midst of training", 1, "late", "bad batch"),
    ("another rank raises before rank 0 has begun", 1, "early", "no such data set"),
]))  # fmt: skip
def test_the_error_is_that_of_the_rank_that_raised(rank: int, when: str, message: str, tmp_path: Path) -> None:
    trained = two_ranks(tmp_path, str(rank), when)
    assert trained.status == 1
    first, second, *_ = trained.text("ddp", "_error").split("\n")
    assert first == f"ValueError: {message}"
    assert second.startswith(f"rank {rank} of 2 on {platform.node()}, local rank {rank}, process ")
    assert "_complete" not in trained.names("ddp")
    if when == "early":
        # SIGTERM ended it, although it waited in native code; SIGKILL, half a minute later, would leave no words.
        assert trained.text("ddp", "ranks/0.error").startswith("Cancelled: received signal 15 (SIGTERM)")


def test_a_restart_of_the_workers_is_the_next_attempt_without_the_old_error(tmp_path: Path) -> None:
    trained = two_ranks(tmp_path, "1", "once", options=("--max-restarts", "1"))
    assert trained.status == 0, trained.output
    assert trained.document("ddp", "metadata.json")["attempt"] == 2
    assert trained.names("ddp") == {"metadata.json", "_complete", "ranks/0.json", "ranks/1.json"}
