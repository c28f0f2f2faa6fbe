"""Works out what a line and its template must contain for a pattern to match.

Built-in catalogues hold the result, because this parses each pattern.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from lastbeat.explain.scanning import literals
from lastbeat.explain.scanning.line_templates import fold, parse_demand, template_of
from lastbeat.explain.scanning.template_regex import template_regex
from lastbeat.model.signal import Signal


def demand(pattern: str, *, ignore_case: bool, substring: bool) -> str:
    """The text that a line's template must contain for the pattern to match; empty if unknown.

    1. Words in lower case: at least one must occur, in any case.
    2. A semicolon.
    3. The whole of :func:`literals.demand`, with parentheses for lists.
    4. If common lines of healthy training meet that, a semicolon and a regular expression that the template must match
       too, and that templates of such lines do not.

    It is parsed only when it is needed, which is rare, so that catalogues load fast.
    """
    folded = partial(fold, ignore_case=ignore_case)
    demanded = literals.demand(pattern, folded, ignore_case=ignore_case, substring=substring)
    if demanded is None:
        return ""
    rare = literals.minimal(text.lower() for text in literals.one_of(demanded))
    written = _written(demanded)
    closer = "" if substring else _closer(pattern, parse_demand(written).is_met_by, ignore_case=ignore_case)
    return f"{' '.join(sorted(rare))};{written}{closer and ';'}{closer}"


def _closer(pattern: str, meets: Callable[[str], bool], *, ignore_case: bool) -> str:
    """A regular expression that rules out templates of healthy lines which ``meets`` lets pass; empty if none does."""
    lines = (template_of(line).decode("ascii") for line in literals.ORDINARY_LINES)
    taken = [line for line in lines if meets(line)]
    if not taken:
        return ""
    translated = template_regex(pattern, ignore_case=ignore_case).pattern
    return "" if all(map(translated.search, taken)) else translated.pattern


def _written(demanded: Any) -> str:
    return demanded if isinstance(demanded, str) else f"({' '.join(map(_written, demanded))})"


def computed_demand(signal: Signal) -> tuple[tuple[str, ...], str]:
    """Literals and demand of a signal whose catalogue does not have both."""
    how = {"ignore_case": signal.ignore_case, "substring": signal.substring}
    texts = signal.literals or literals.required(signal.pattern, **how)
    return texts, demand(signal.pattern, **how)
