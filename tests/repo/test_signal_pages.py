"""docs/signals-own.md against the code."""

from lastbeat.explain.scanning.matching import matcher_of
from lastbeat.explain.signals import loading
from support.checkout import ROOT
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
