"""Matches lines against all signals of a catalogue."""

import re
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Final

from lastbeat.explain.scanning.line_templates import TemplateIndex, template_of
from lastbeat.model.signal import Catalogue, Signal

MATCH_LIMIT: Final = 2000
"""Most characters of a line that are searched at once. Of a longer line, beginning and end are searched: a long command
line has its result at the end."""
_TAIL: Final = 600
"""Characters at the end of a long line that are searched."""
_MATCHERS_LIMIT: Final = 8
"""Most catalogues whose matchers are kept."""


class Matcher:
    """All patterns of a catalogue, each compiled when a line may first match it.

    ``\\d``, ``\\s``, ``\\w``, ``\\b`` and ``ignore_case`` are ASCII only, as in RE2: one letter stays one byte, and
    text in other scripts cannot make a literal match that is not there.
    """

    def __init__(self, signals: Sequence[Signal], *, native: bool = True) -> None:
        """With ``native``, RE2 is used if it is installed. The matches are the same."""
        self.signals = tuple(signals)
        self.templates = TemplateIndex(self.signals, native=native)
        self._patterns: list[re.Pattern[str] | None] = [None] * len(self.signals)

    def matches(self, line: str) -> Iterator[tuple[Signal, "re.Match[str]"]]:
        """Every signal that ``line`` (without prefixes) matches, in the catalogue's order, with its first match.

        1. The line's template rules out most signals, and a required literal that is missing most of the rest.
        2. The patterns of those that are left are searched for; in a long line at its beginning, then at its end.
        """
        possible = self.templates.possible(template_of(line))
        if self.templates.letterless:
            possible = tuple(sorted((*possible, *self.templates.letterless)))
        if not possible:
            return
        lowered = line.lower()
        for index in possible:
            signal = self.signals[index]
            literals = self.templates.literals[index]
            if literals:
                text = lowered if signal.ignore_case else line
                if not any(literal in text for literal in literals):
                    continue
            pattern = self.pattern(index)
            if len(line) <= MATCH_LIMIT:
                found = pattern.search(line)
            else:
                found = pattern.search(line, 0, _head(line)) or pattern.search(line, len(line) - _TAIL)
            if found is not None:
                yield signal, found

    def pattern(self, index: int) -> "re.Pattern[str]":
        """The compiled pattern of the signal with this index in :attr:`signals`."""
        pattern = self._patterns[index]
        if pattern is None:
            pattern = self._patterns[index] = compiled(self.signals[index])
        return pattern


def _head(line: str) -> int:
    """End of the searched beginning of a long line. It is never within a word, where it would be a word boundary."""
    end = MATCH_LIMIT - _TAIL
    while end and (line[end] == "_" or (line[end].isascii() and line[end].isalnum())):
        end -= 1
    return end


def compiled(signal: Signal) -> "re.Pattern[str]":
    """The signal's pattern. Raises what ``re.compile`` raises."""
    text = re.escape(signal.pattern) if signal.substring else signal.pattern
    return re.compile(text, re.ASCII | (re.IGNORECASE if signal.ignore_case else 0))


_matchers: dict[int, tuple[Catalogue, Matcher]] = {}
_choosing: Final = Lock()


def matcher_of(catalogue: Catalogue) -> Matcher:
    """The shared matcher of ``catalogue``, with its caches from other logs."""
    with _choosing:
        known = _matchers.get(id(catalogue))
        if known is not None and known[0] is catalogue:
            return known[1]
        if len(_matchers) >= _MATCHERS_LIMIT:
            _matchers.clear()
        matcher = Matcher(catalogue.signals)
        _matchers[id(catalogue)] = catalogue, matcher
        return matcher
