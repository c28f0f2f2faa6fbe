"""Hints as people get them: masked as all text is that may hold what training wrote."""

from lastbeat.explain.signals import loading
from lastbeat.model.secrets import mask_tokens


def test_no_hint_of_ours_looks_like_a_secret() -> None:
    catalogues = [loading.load(name) for name in loading.names()]
    hints = {signal.name: signal.hint for catalogue in catalogues for signal in catalogue.signals}
    hints |= {rule.name: rule.hint for catalogue in catalogues for rule in catalogue.absences}
    hints |= {known.name: known.hint for catalogue in catalogues for known in catalogue.error_types.values()}
    assert {name: hint for name, hint in hints.items() if mask_tokens(hint) != hint} == {}
