"""The rates that the built-in catalogue reaches on the labelled logs of ``tests/corpus``: they may only rise."""

import re
from functools import cache
from pathlib import Path

import pytest

from lastbeat.explain.causes.explaining import explain_text
from lastbeat.explain.scanning.matching import matcher_of
from lastbeat.explain.scanning.splitting import Splitter
from lastbeat.explain.signals.error_types import TYPES
from lastbeat.explain.signals.loading import load
from lastbeat.lab.scoring import Case, Diagnosis, Score, any_match, diagnosis_of, read_index, score
from lastbeat.model.cause import Explanation

GAP = re.compile(r"(?:^|[\s=(])\?(?:\W|$)|\{[a-z_]{2,40}\}| ms\b")
"""A place that was not filled, or a time that nobody reads at night."""
CORPUS = Path(__file__).resolve().parents[1] / "corpus"


def cases() -> list[Case]:
    return read_index((CORPUS / "index.jsonl").read_text("utf-8"), "index.jsonl", TYPES)


@cache
def explained(case: Case) -> Explanation:
    return explain_text((CORPUS / case.file).read_bytes(), load("default"), case.file)


def naive(case: Case) -> Diagnosis:
    splitter = Splitter()
    batches = [splitter.feed((CORPUS / case.file).read_bytes()), splitter.finish()]
    lines = (batch.line(index) for batch in batches for index in range(len(batch)))
    return any_match(lines, matcher_of(load("default")))


@pytest.fixture(scope="module")
def scored() -> Score:
    return score(cases(), lambda case: diagnosis_of(explained(case)))


def test_almost_all_failures_get_the_right_type(scored: Score) -> None:
    failures = scored.failures
    assert sum(row.right for row in failures) >= 0.95 * len(failures), scored.confusions


def test_the_evidence_is_where_the_label_says(scored: Score) -> None:
    failures = scored.failures
    assert sum(row.near for row in failures) >= 0.9 * len(failures)


def test_no_healthy_log_is_misread(scored: Score) -> None:
    assert scored.misread == []
    assert len(scored.healthy) >= 20


def test_no_healthy_log_ends_in_a_failure() -> None:
    assert [case.id for case in cases() if case.healthy and explained(case).ended] == []


def test_cascades_are_read_as_well_as_others(scored: Score) -> None:
    groups = scored.groups()
    for name in ("cascades", "others", "local_run", "reconstructed"):
        assert groups[name].right >= 0.9 * groups[name].count, name


def test_order_and_weight_make_the_difference_to_any_match_of_the_same_patterns(scored: Score) -> None:
    other = score(cases(), naive)
    assert sum(row.right for row in other.failures) < sum(row.right for row in scored.failures)
    assert len(other.misread) > len(scored.misread)


def test_no_hint_has_a_gap() -> None:
    found = {case.id: explained(case) for case in cases()}
    causes = [(name, cause) for name, each in found.items() for cause in (each.cause, *each.alternatives)]
    hints = {(name, cause.error_type): cause.hint for name, cause in causes if cause is not None}
    assert {who: hint for who, hint in hints.items() if not hint or GAP.search(hint) is not None} == {}


def test_almost_every_failure_has_ended() -> None:
    """But for values that are no numbers and a dump of stacks, after which a program may go on."""
    open_ended = {case.id for case in cases() if not case.healthy and not explained(case).ended}
    labels = {case.label for case in cases() if case.id in open_ended}
    assert labels <= {"numerical_instability", "hang"}, open_ended
