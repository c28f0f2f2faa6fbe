"""The pages about signals, and how sure causes are, against the code and the labelled logs: one scoring for all."""

import pytest

from lastbeat.explain.causes.confidence import MEASURED, Grounds
from lastbeat.explain.scanning.matching import matcher_of
from lastbeat.explain.signals import loading
from lastbeat.lab.calibration import brier, calibration_error
from support.checkout import ROOT
from support.confidence_levels import MODULE, Measurement, measured, written
from support.markdown import Document


def test_its_example_of_a_file_is_one() -> None:
    (example,) = [
        block.text for block in Document.read(ROOT / "docs" / "signals-own.md").blocks if block.language == "yaml"
    ]
    catalogue = loading.load_setting("/etc/lastbeat/cluster.yaml", lambda _: example)
    signals = {signal.name: signal for signal in catalogue.signals}
    assert catalogue.error_types["licence"].restartable is True
    assert "small-batch" in signals["cuda_out_of_memory"].hint
    assert "hang_stated" not in signals
    assert [rule.within_s for rule in catalogue.absences if rule.name == "checkpoint_overdue"] == [1800]
    assert catalogue.inactivity_s == 900
    matched = [signal.name for signal, _ in matcher_of(catalogue).matches("LicenceError: no seat for fluent")]
    assert "licence_denied" in matched


MEASURE_ANEW = "measure anew: PYTHONPATH=core:cli:tests .venv/bin/python -m support.confidence_levels"
NEAR = 0.08
"""A rule that moves a few logs moves the levels a little; that is no reason to change them with each rule."""


@pytest.fixture(scope="module")
def found() -> Measurement:
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


def test_the_numbers_are_written_into_the_code() -> None:
    text = MODULE.read_text("utf-8")
    assert written(text, dict(MEASURED)) == text
    changed = written(text, {Grounds.NAMED: 0.5})
    assert "MEASURED: Final[Mapping[Grounds, float]] = {\n    Grounds.NAMED: 0.5,\n}\n" in changed
    assert "Grounds.WAIT: 0" not in changed
