"""Words that are looked for before a pattern is: nothing that the pattern finds goes without one of them."""

import pytest

from lastbeat.explain.causes.contexts import RETRY, RETRY_WORDS, SPENT, SPENT_WORDS
from lastbeat.explain.scanning import literals
from lastbeat.model.pattern import Pattern


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        pytest.param(RETRY, RETRY_WORDS, id="something is tried again"),
        pytest.param(SPENT, SPENT_WORDS, id="nothing is tried again any more"),
    ],
)
def test_each_alternative_has_one_of_the_words(pattern: Pattern, words: tuple[str, ...]) -> None:
    demanded = literals.demand(pattern.text, str.lower, ignore_case=True)
    assert demanded is not None
    assert _without(demanded, words) == []


def _without(demanded: literals.Demand, words: tuple[str, ...]) -> list[literals.Demand]:
    """What of the alternatives does not contain any of the words."""
    if isinstance(demanded, str):
        return [] if any(word in demanded for word in words) else [demanded]
    how, *parts = demanded
    lacking = [_without(part, words) for part in parts]
    if how == literals.ANY:
        return [each for missing in lacking for each in missing]
    return [] if not all(lacking) else [demanded]
