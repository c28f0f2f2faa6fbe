"""What the callback for Lightning reports."""

import pytest

pytest.importorskip("torch", reason="torch is not installed: see .ci/run")

from frameworks.trained import SCRIPTS, Trained, train


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    # test_lightning_stops.py has the other name of the package.
    return train(tmp_path_factory.mktemp("lightning"), [str(SCRIPTS / "lit.py"), "lightning.pytorch"])


def test_a_training_that_ends_is_complete(trained: Trained) -> None:
    assert trained.names("completes") == {"metadata.json", "progress.json", "_complete"}, trained.output
    progress = trained.document("completes", "progress.json")
    assert (progress["step"], progress["total_steps"], progress["epoch"]) == (12, 12, 1)
    assert progress["loss"] >= 0.5
    assert progress["learning_rate"] == 0.01


def test_evaluating_and_saving_are_phases(trained: Trained) -> None:
    assert {what: set(phases) for what, phases in trained.seen().items()} == {
        "evaluation": {"evaluation"}, "saving": {"saving"},
    }  # fmt: skip


def test_an_exception_is_the_error_whoever_catches_it(trained: Trained) -> None:
    assert trained.text("raises", "_error").startswith("ValueError: bad batch\n\nTraceback")
    assert "_complete" not in trained.names("raises")


def test_ctrl_c_is_no_crash(trained: Trained) -> None:
    assert trained.text("is-interrupted", "_error").startswith("Cancelled: KeyboardInterrupt")


def test_sigterm_is_no_success(trained: Trained) -> None:
    assert trained.text("is-terminated", "_error").startswith("Cancelled: received signal 15 (SIGTERM)")
    assert "_complete" not in trained.names("is-terminated")
