"""Restart policies go by causes that are sure enough: those of real logs are."""

from pathlib import Path

import pytest

from lastbeat.explain.causes.explaining import explain_text
from lastbeat.explain.signals.error_types import TIMEOUT, TYPES
from lastbeat.explain.signals.loading import load
from lastbeat.jobs.restarts.loading import load as policy
from lastbeat.lab.scoring import read_index
from lastbeat.model.restart import DEFAULT_LEAST_CONFIDENCE, Mode

TESTS = Path(__file__).resolve().parents[1]
RESTARTED = policy("megatron_transient").rules[Mode.CRASH].error_types - {TIMEOUT}


@pytest.fixture(scope="module")
def confidences() -> dict[str, list[float]]:
    """Of every log whose cause is found as labelled: by error type."""
    found: dict[str, list[float]] = {name: [] for name in TYPES}
    for corpus in ("corpus", "corpus_further"):
        index = (TESTS / corpus / "index.jsonl").read_text("utf-8")
        for case in read_index(index, "index.jsonl", TYPES):
            if case.label in RESTARTED:
                raw = (TESTS / corpus / case.file).read_bytes()
                cause = explain_text(raw, load("default"), case.file).cause
                if cause is not None and cause.error_type == case.label:
                    found[cause.error_type].append(cause.confidence)
    return found


@pytest.mark.parametrize("error_type", sorted(RESTARTED))
def test_a_type_that_the_recommended_policy_names_clears_its_limit(
    error_type: str, confidences: dict[str, list[float]]
) -> None:
    seen = confidences[error_type]
    assert len(seen) >= 2
    assert min(seen) >= DEFAULT_LEAST_CONFIDENCE, sorted(seen)
