"""What the built-in catalogue makes of the labelled logs: its rates, which may only rise, and how sure it is.

The logs of ``tests/corpus_further`` were gathered without sight of the rules; docs/accuracy.md has the rates from
before any rule was changed for them.
"""

import re
from functools import cache

import pytest

from lastbeat.explain.causes.confidence import MEASURED
from lastbeat.explain.causes.explaining import explain_text
from lastbeat.explain.signals.error_types import TIMEOUT
from lastbeat.explain.signals.loading import load
from lastbeat.jobs.restarts.loading import load as policy
from lastbeat.lab.calibration import brier, calibration_error
from lastbeat.lab.scoring import Case, Score
from lastbeat.model.cause import Explanation
from lastbeat.model.restart import DEFAULT_LEAST_CONFIDENCE, Mode
from support.confidence_levels import CORPORA, Measurement, measured
from support.confidence_levels import scored as scored_folder

GAP = re.compile(r"(?:^|[\s=(])\?(?:\W|$)|\{[a-z_]{2,40}\}| ms\b")
"""A place that was not filled, or a time that nobody reads at night."""
CORPUS, FURTHER = CORPORA


def cases() -> list[Case]:
    return [row.case for row in scored_folder(CORPUS).ours.rows]


@cache
def explained(case: Case) -> Explanation:
    return explain_text((CORPUS / case.file).read_bytes(), load("default"), case.file)


@pytest.fixture
def scored() -> Score:
    return scored_folder(CORPUS).ours


@pytest.fixture
def further() -> Score:
    return scored_folder(FURTHER).ours


def test_almost_all_failures_get_the_right_type(scored: Score, further: Score) -> None:
    for rates, least in ((scored, 0.95), (further, 0.93)):
        failures = rates.failures
        assert sum(row.right for row in failures) >= least * len(failures), rates.confusions
    assert len(further.failures) >= 150
    assert sum(row.accepted for row in further.failures) >= 0.97 * len(further.failures), further.confusions


def test_the_evidence_is_where_the_label_says(scored: Score, further: Score) -> None:
    for rates, least in ((scored, 0.9), (further, 0.95)):
        assert sum(row.near for row in rates.failures) >= least * len(rates.failures)


def test_no_healthy_log_is_misread(scored: Score, further: Score) -> None:
    for rates, fewest in ((scored, 20), (further, 30)):
        assert rates.misread == []
        assert len(rates.healthy) >= fewest


def test_no_healthy_log_ends_in_a_failure() -> None:
    assert [case.id for case in cases() if case.healthy and explained(case).ended] == []


def test_cascades_are_read_as_well_as_others(scored: Score) -> None:
    groups = scored.groups()
    for name in ("cascades", "others", "local_run", "reconstructed"):
        assert groups[name].right >= 0.9 * groups[name].count, name


def test_order_and_weight_make_the_difference_to_any_match_of_the_same_patterns(scored: Score) -> None:
    other = scored_folder(CORPUS).naive
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


MEASURE_ANEW = "measure anew: PYTHONPATH=core:cli:tests .venv/bin/python -m support.confidence_levels"
NEAR = 0.08
"""A rule that moves a few logs moves the levels a little; that is no reason to change them with each rule."""


@pytest.fixture(scope="module")
def found() -> Measurement:
    """One scoring for all."""
    return measured()


def test_the_numbers_in_the_code_are_about_what_is_measured(found: Measurement) -> None:
    assert found.levels.keys() == MEASURED.keys(), MEASURE_ANEW
    assert {grounds: MEASURED[grounds] for grounds in MEASURED} == pytest.approx(found.levels, abs=NEAR), MEASURE_ANEW


def test_confidence_means_something_in_logs_of_repositories_that_nobody_had_seen(found: Measurement) -> None:
    for rows in (found.unseen, found.crosswise):
        assert len(rows) > 200
        assert calibration_error(rows) < 0.08
        assert brier(rows) < 0.07


def test_the_sure_are_right_more_often_than_the_others(found: Measurement) -> None:
    sure = [row.accepted for row in found.unseen if (row.diagnosis.confidence or 0) >= 0.85]
    others = [row.accepted for row in found.unseen if (row.diagnosis.confidence or 0) < 0.85]
    assert sum(sure) / len(sure) > 0.95 > sum(others) / len(others)


RESTARTED = sorted(policy("megatron_transient").rules[Mode.CRASH].error_types - {TIMEOUT})


def test_a_type_that_the_recommended_policy_names_clears_its_limit(scored: Score, further: Score) -> None:
    right = [row.diagnosis for row in (*scored.failures, *further.failures) if row.right]
    for error_type in RESTARTED:
        seen = [each.confidence or 0.0 for each in right if each.error_type == error_type]
        assert len(seen) >= 2, error_type
        assert min(seen) >= DEFAULT_LEAST_CONFIDENCE, (error_type, sorted(seen))
