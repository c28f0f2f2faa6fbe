"""Confidence of a cause: the share of causes on the same grounds that were right in labelled logs.

The numbers are measured. This command measures and writes them again:

    PYTHONPATH=core:cli:tests .venv/bin/python -m support.confidence_levels

Nothing else goes into them. Three more facts were tried: whether an exit status confirms the end, whether the exception
was caught, and how many lines agree. On logs of other repositories, they separate right causes from wrong ones no
better than the grounds alone.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from lastbeat.explain.causes import error_file
from lastbeat.explain.causes.candidates import Candidate, Tier


class Grounds(str, Enum):
    """The evidence behind a cause, the surest first. The value is shown to users."""

    NAMED = "a line that names what is wrong"
    WAIT = "a wait that took too long"
    CONSEQUENCE = "what follows from something that no line shows"
    STATED = "a person's or a script's own words in _error"
    END = "how a process ended"
    CLASS = "an exception that is known by its class alone"
    WORDS = "a warning or other words, and nothing else"
    CONFIRMATION = "that it ended, and nothing more"


GUESSED: Final[Mapping[Grounds, float]] = {
    Grounds.STATED: 0.7,
    Grounds.END: 0.55,
    Grounds.WORDS: 0.5,
    Grounds.CONFIRMATION: 0.2,
}
"""Guesses, because too few labelled logs have such grounds. Exit statuses have their own, see ``exit_codes``."""

MEASURED: Final[Mapping[Grounds, float]] = {
    Grounds.NAMED: 0.98,
    Grounds.WAIT: 0.94,
    Grounds.CONSEQUENCE: 0.76,
    Grounds.CLASS: 0.48,
}
LEVELS: Final[Mapping[Grounds, float]] = {**GUESSED, **MEASURED}
"""Grounds → confidence of a cause, without evidence against it."""
CONTESTED: Final = 0.08
"""Confidence that a cause loses for each other error type with evidence as strong, for a line that is a mere warning,
and for a failure that the run survived. A guess, because hardly any labelled log has one."""
_MOST_RIVALS: Final = 3
"""Most other error types that reduce confidence."""
LEAST: Final = 0.05
"""Lower bound of confidence."""
MOST: Final = 0.98
"""Upper bound of confidence, because no log is proof."""

_GROUNDS: Final[Mapping[Tier, Grounds]] = {
    Tier.FACT: Grounds.NAMED,
    Tier.SPECIFIC: Grounds.NAMED,
    Tier.PLACED: Grounds.NAMED,
    Tier.PLAIN: Grounds.NAMED,
    Tier.SYMPTOM: Grounds.WAIT,
    Tier.GENERAL: Grounds.CLASS,
    Tier.EXIT: Grounds.END,
    Tier.CASCADE: Grounds.CONSEQUENCE,
    Tier.WORDS: Grounds.WORDS,
    Tier.CONFIRMATION: Grounds.CONFIRMATION,
}


def grounds_of(best: Candidate) -> Grounds:
    """The grounds of ``best`` as the cause."""
    if best.signal.name in error_file.SIGNALS and best.tier == Tier.GENERAL:
        return Grounds.STATED
    return _GROUNDS[best.tier]


def confidence_of(best: Candidate, candidates: Sequence[Candidate], *, survived: bool = False) -> float:
    """Confidence in ``best`` from 0 to 1. Lower if other candidates are as strong evidence for other causes, or if
    training went on after it (``survived``)."""
    grounds = grounds_of(best)
    level = LEVELS[grounds]
    rivals = {
        each.error_type
        for each in candidates
        if each.tier >= best.tier
        and each.tier > Tier.CASCADE
        and each.error_type != best.error_type
        and not each.is_precursor
    }
    against = min(len(rivals), _MOST_RIVALS) + best.mention.weak + survived
    return max(LEAST, min(MOST, level - CONTESTED * against))
