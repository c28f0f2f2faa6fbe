"""The rates on the labelled logs of ``tests/corpus_further``, which were gathered without sight of the rules.

docs/accuracy.md has the rates from before any rule was changed for them; here they may only not be lost again.
"""

from pathlib import Path

import pytest

from lastbeat.explain.causes.explaining import explain_text
from lastbeat.explain.signals.error_types import TYPES
from lastbeat.explain.signals.loading import load
from lastbeat.lab.scoring import Score, diagnosis_of, read_index, score

CORPUS = Path(__file__).resolve().parents[1] / "corpus_further"


@pytest.fixture(scope="module")
def scored() -> Score:
    cases = read_index((CORPUS / "index.jsonl").read_text("utf-8"), "index.jsonl", TYPES)
    catalogue = load("default")
    return score(
        cases, lambda case: diagnosis_of(explain_text((CORPUS / case.file).read_bytes(), catalogue, case.file))
    )


def test_almost_all_failures_get_a_type_that_a_person_would_accept(scored: Score) -> None:
    failures = scored.failures
    assert len(failures) >= 150
    assert sum(row.right for row in failures) >= 0.93 * len(failures), scored.confusions
    assert sum(row.accepted for row in failures) >= 0.97 * len(failures), scored.confusions


def test_the_evidence_is_where_the_label_says(scored: Score) -> None:
    assert sum(row.near for row in scored.failures) >= 0.95 * len(scored.failures)


def test_no_healthy_log_is_misread(scored: Score) -> None:
    assert scored.misread == []
    assert len(scored.healthy) >= 30
