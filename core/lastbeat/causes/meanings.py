"""What the signals that match a line make of it, taken together."""

import re
from dataclasses import dataclass, field

from lastbeat.model.signal import CONFIRMATION, Signal
from lastbeat.scanning.matching import Matcher

Match = re.Match[str]


@dataclass(slots=True)
class Meaning:
    """Of one line. A signal that tells what is wrong goes before one that tells that something ended, and that before
    one that knows no more than that this is an exception; among equals the catalogue's order counts."""

    told: Signal | None = None
    """What the line says, where it says that something is wrong."""
    match: Match | None = None
    exception: bool = False
    """Whether the line looks like the last one of a traceback."""
    kinds: dict[str, Signal] = field(default_factory=dict)
    """What else it is: kind → signal."""
    found: dict[str, Match] = field(default_factory=dict)
    """Kind → where."""
    names: list[str] = field(default_factory=list)
    """All signals that it matches."""


def meaning_of(matcher: Matcher, text: str) -> Meaning:
    """What the line ``text``, without its prefixes, means."""
    meaning = Meaning()
    best = 3
    for signal, match in matcher.matches(text):
        meaning.names.append(signal.name)
        if signal.kind == "exception":
            meaning.exception = True
            standing = 2
        elif signal.kind is not None:
            if signal.kind not in meaning.kinds:
                meaning.kinds[signal.kind], meaning.found[signal.kind] = signal, match
            continue
        elif signal.role == CONFIRMATION:
            # A wrapper names the class of what is printed below it, and is not it.
            standing = -1 if signal.subsystem == "wrapper" else 1
        elif signal.error_type is not None:
            standing = 0
        else:
            continue
        if standing < best:
            best, meaning.told, meaning.match = standing, signal, match
    return meaning
