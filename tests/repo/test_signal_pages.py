"""The pages about signals against the code: their tables, an example of a catalogue, and labelled logs."""

from pathlib import Path

import pytest

from lastbeat.explain.scanning.matching import matcher_of
from lastbeat.explain.signals import loading
from lastbeat.lab.scoring import Score
from lastbeat_cli.signals.labelled_folders import FolderScorer
from support.checkout import ROOT
from support.markdown import Document
from support.signal_pages import CORPUS, PAGES, filled

ANEW = "write them anew: PYTHONPATH=core:cli:tests .venv/bin/python -m support.signal_pages"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_its_tables_are_in_step_with_the_code(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert filled(text) == text, ANEW


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


@pytest.fixture(scope="module")
def score() -> Score:
    return FolderScorer(loading.load(loading.DEFAULT)).score(CORPUS).ours


def test_no_healthy_log_is_said_to_have_failed(score: Score) -> None:
    assert [(row.case.id, row.answer) for row in score.misread] == []


def test_nearly_every_failure_gets_its_type_and_its_line(score: Score) -> None:
    failures = score.groups()["all failures"]
    assert failures.accepted >= 0.95 * failures.count, score.confusions
    assert failures.near >= 0.90 * failures.count
