"""The measured numbers of causes/confidence.py against the labelled logs, and what they are worth."""

import pytest

from lastbeat.explain.causes.confidence import MEASURED, Grounds
from lastbeat.lab.calibration import brier, calibration_error
from support.confidence_levels import MODULE, Measurement, measured, written

ANEW = "measure anew: PYTHONPATH=core:cli:tests .venv/bin/python -m support.confidence_levels"
NEAR = 0.08
"""A rule that moves a few logs moves the levels a little; that is no reason to change them with each rule."""


@pytest.fixture(scope="module")
def found() -> Measurement:
    return measured()


def test_the_numbers_in_the_code_are_about_what_is_measured(found: Measurement) -> None:
    assert found.levels.keys() == MEASURED.keys(), ANEW
    assert {grounds: MEASURED[grounds] for grounds in MEASURED} == pytest.approx(found.levels, abs=NEAR), ANEW


def test_confidence_means_something_in_logs_of_repositories_that_nobody_had_seen(found: Measurement) -> None:
    for rows in (found.unseen, found.crosswise):
        assert len(rows) > 200
        assert calibration_error(rows) < 0.08
        assert brier(rows) < 0.07


def test_the_sure_are_right_more_often_than_the_others(found: Measurement) -> None:
    sure = [row.accepted for row in found.unseen if (row.diagnosis.confidence or 0) >= 0.85]
    others = [row.accepted for row in found.unseen if (row.diagnosis.confidence or 0) < 0.85]
    assert sum(sure) / len(sure) > 0.95 > sum(others) / len(others)


def test_the_numbers_are_written_into_the_code() -> None:
    text = MODULE.read_text("utf-8")
    assert written(text, dict(MEASURED)) == text
    changed = written(text, {Grounds.NAMED: 0.5})
    assert "MEASURED: Final[Mapping[Grounds, float]] = {\n    Grounds.NAMED: 0.5,\n}\n" in changed
    assert "Grounds.WAIT: 0" not in changed
