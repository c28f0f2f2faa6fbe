"""The pages about signals against the code: their tables, an example of a catalogue, and labelled logs."""

from pathlib import Path

import pytest

from lastbeat.explain.scanning.matching import matcher_of
from lastbeat.explain.signals import loading
from support.checkout import ROOT
from support.markdown import Document
from support.signal_pages import PAGES, filled

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
