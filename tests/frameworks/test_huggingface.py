"""What the callback for Hugging Face's Trainer reports."""

import pytest

pytest.importorskip("torch", reason="torch is not installed: see .ci/run")

from frameworks.trained import SCRIPTS, Trained, train


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(tmp_path_factory.mktemp("huggingface"), [str(SCRIPTS / "huggingface.py")])


def test_a_training_that_ends_is_complete(trained: Trained) -> None:
    assert trained.names("completes") == {"metadata.json", "progress.json", "_complete"}, trained.output
    progress = trained.document("completes", "progress.json")
    assert (progress["step"], progress["total_steps"]) == (8, 8)
    assert progress["loss"] > 0
    assert progress["learning_rate"] >= 0
    assert progress["epoch"] == 0.5
    assert {"grad_norm", "eval_loss"} <= set(progress["metrics"])
    metadata = trained.document("completes", "metadata.json")
    assert metadata["status"] == "completed"
    assert metadata["config"]["max_steps"] == 8
    assert metadata["config"].get("hub_token", "***") == "***"


def test_evaluating_and_saving_are_phases(trained: Trained) -> None:
    seen = trained.seen()
    assert set(seen["evaluation"]) == {"evaluation"}
    assert set(seen["saving"]) == {"saving"}


def test_a_callback_that_was_not_asked_to_stops_nothing_and_leaves_signals_alone(trained: Trained) -> None:
    assert trained.seen()["heeds_stop"] == ["False"], "it never asked, so no rank waits for it in a collective"


def test_who_is_told_to_stop_saves_a_checkpoint_and_ends(trained: Trained) -> None:
    assert trained.names("stops") == {"metadata.json", "progress.json", "_preempted"}, trained.output
    said = trained.document("stops", "_preempted")
    assert said == {"checkpoint": "checkpoints/checkpoint-4", "step": 4, "why": "received signal 15 (SIGTERM)"}
    assert (trained.root.parent / "checkpoints/checkpoint-4/trainer_state.json").exists()


def test_an_exception_that_nobody_catches_is_the_error(trained: Trained) -> None:
    assert trained.status == 1
    first, *_, last = trained.text("raises", "_error").strip().split("\n")
    assert first == "ValueError: bad batch at step 5"
    assert last == first
    assert "_complete" not in trained.names("raises")


def test_an_exception_that_leaves_the_block_is_the_error(trained: Trained) -> None:
    assert trained.text("raises-in-a-block", "_error").startswith("ValueError: bad batch at step 3\n\nTraceback")


def test_a_training_whose_exception_was_caught_is_no_success(trained: Trained) -> None:
    assert "_error" in trained.names("is-left"), trained.output
    assert "_complete" not in trained.names("is-left")


def test_a_second_training_of_a_callback_is_the_next_attempt(trained: Trained) -> None:
    assert trained.names("is-begun-again") == {"metadata.json", "progress.json", "_complete"}
    assert trained.document("is-begun-again", "metadata.json")["attempt"] == 2
