"""What the callback for Keras reports."""

import pytest

pytest.importorskip("torch", reason="torch is not installed: see .ci/run")

from frameworks.trained import SCRIPTS, Trained, train


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(tmp_path_factory.mktemp("keras"), [str(SCRIPTS / "keras_fit.py")])


def test_a_training_that_ends_is_complete(trained: Trained) -> None:
    assert trained.names("completes") == {"metadata.json", "progress.json", "_complete"}, trained.output
    progress = trained.document("completes", "progress.json")
    assert (progress["step"], progress["total_steps"], progress["epoch"]) == (12, 12, 1)
    assert progress["loss"] >= 0
    assert "mae" in progress["metrics"]


def test_evaluating_and_saving_are_phases(trained: Trained) -> None:
    assert {what: set(phases) for what, phases in trained.seen().items()} == {
        "evaluation": {"evaluation"}, "saving": {"saving"},
    }  # fmt: skip


def test_an_exception_that_nobody_catches_is_the_error(trained: Trained) -> None:
    assert trained.status == 1
    assert trained.text("raises", "_error").startswith("ValueError: bad batch 3\n\nTraceback")
    assert "_complete" not in trained.names("raises")
