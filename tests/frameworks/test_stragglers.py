"""Four ranks of torchrun's agent, one of them slow: it is named with its node, and a slow job names nobody."""

import platform
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: see .ci/run")

from frameworks.trained import SCRIPTS, Trained, forked, train


def four(folder: Path, who: str, how: str, measured: str, **environ: str) -> Trained:
    # Long enough for three steps of a busy machine, on which a rank may get its CPU for a fraction of the time.
    told = {"LASTBEAT_STRAGGLERS": "seconds:5", "LASTBEAT_OWN_LOG": "info"}
    return train(folder, [*forked(4), str(SCRIPTS / "stragglers.py"), who, how, measured], told | environ)


def report(trained: Trained) -> dict[str, Any]:
    """The one that training saw when it ended."""
    assert trained.status == 0, trained.output
    return trained.seen()


ROWS = [
    pytest.param("2", "sleep", "section", {}, id="it sleeps, by its section"),
    pytest.param("0", "sleep", "hooks", {"LASTBEAT_BEAT_SECONDS": "0.1,ranks:0"},
                 id="by what is left without collectives, over torch's store alone"),
    pytest.param("1", "pressure", "section", {}, id="it is kept from its CPU most of the time"),
]  # fmt: skip


@pytest.mark.parametrize(("who", "how", "measured", "environ"), ROWS)
def test_the_slow_rank_of_four_is_named_with_its_node(
    who: str, how: str, measured: str, environ: dict[str, str], tmp_path: Path
) -> None:
    trained = four(tmp_path, who, how, measured, **environ)
    found = report(trained)
    assert (found["ranks"][0]["rank"], found["ranks"][0]["node"]) == (int(who), platform.node()), trained.output
    assert found["nodes"][0]["node"] == platform.node()
    assert found["by"] == ("compute" if measured == "section" else "outside_collectives")
    assert "STRAGGLER DETECTION WARNING: Some GPUs" in trained.output
    assert f"Rank={who} Node={platform.node()} Score=" in trained.output
    assert "Straggler report processing time: " in trained.output


def test_where_all_become_slow_the_job_is_slow_and_nobody_a_straggler(tmp_path: Path) -> None:
    found = report(four(tmp_path, "all", "sleep", "section"))
    assert found["slow"] < 0.7
    assert found["count"] == 0


def test_where_nobody_is_slow_nobody_is_named(tmp_path: Path) -> None:
    found = report(four(tmp_path, "none", "sleep", "section"))
    assert (found["number"] >= 4, found["count"], found.get("slow")) == (True, 0, None)
    # A rank that a busy machine held up has no new window, and is missing from a report.
    assert 1 <= found["scored"] <= 4


def test_a_straggler_ends_training_after_a_checkpoint_where_that_is_wanted(tmp_path: Path) -> None:
    trained = four(tmp_path, "2", "sleep", "section", WORD="stop")
    assert trained.status == 0, trained.output
    said = trained.text("stragglers", "_preempted")
    assert "checkpoints/step_" in said
    assert f"straggler: rank 2 on {platform.node()}" in said
