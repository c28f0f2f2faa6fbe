"""Checks many suspicious lines more closely, in groups of lines that look alike."""

import re
import string
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final

from lastbeat.explain.scanning.matching import MATCH_LIMIT, Matcher
from lastbeat.explain.scanning.splitting import Batch
from lastbeat.explain.scanning.template_regex import TemplateRegex, template_regex

SignalSet = frozenset[int]
"""Indices of signals."""
LineGroup = tuple[bytes, SignalSet]
"""A line, with its digits made equal where no signal cares, and the signals that it may match."""
_LOOKS_AROUND: Final = r"\(\?<?[=!]|\\[ABZ]|\(\?[a-zA-Z(-]*[xm]"
# An escaped character, a set, or any other character.
_ATOMS: Final = r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|."
_SAME_DIGITS: Final = bytes.maketrans(string.digits.encode(), b"0" * 10)
# Without alternatives, assertions, look-arounds, and repeats that could run on over many lines.
_BEGINS_WITH_WORDS: Final = r"[a-zA-Z ]{8}(?!.*(?:[|^$*+]|\\[AbBZz]|\(\?|\{\d{0,4},\}|\d{3,}))"
_FEW: Final = 8
"""Most literals of a signal that are searched for one by one."""
_CACHE_LIMIT: Final = 1024
"""Most sets of signals in the cache."""
_LONG_BYTES: Final = 1000
"""Most bytes of an examined template."""


class TemplatePrefilter:
    """Holds the translated patterns of a matcher's signals, each made when it is first needed."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._regexes: dict[int, TemplateRegex | None] = {}
        self._unanchored: dict[int, re.Pattern[str] | None] = {}
        self._digits_alike: dict[SignalSet, bool] = {}
        self.lines = 0
        """Number of lines checked so far."""

    def possible(self, template: bytes, signals: Sequence[int]) -> tuple[int, ...]:
        """Those of ``signals`` whose letters, order and distances a line with this template can meet."""
        if len(template) > _LONG_BYTES:
            return tuple(signals)
        letters = template.decode("ascii")
        return tuple(index for index in signals if self._may_match(index, letters))

    def present(self, batch: Batch, signals: Iterable[int]) -> SignalSet:
        """Those of ``signals`` that some line of the batch may match."""
        left, text = [], ""
        for index in sorted(signals):
            signal, literals = self._matcher.signals[index], self._matcher.templates.literals[index]
            if literals and not signal.ignore_case and not any(literal.encode() in batch.text for literal in literals):
                continue
            if self._is_context_free(index):
                text = text or batch.text.decode("utf-8", "replace")
                if self._matcher.pattern(index).search(text) is None:
                    continue
            left.append(index)
        return frozenset(left)

    def absent(self, batch: Batch, signals: Iterable[int]) -> SignalSet:
        """Those of ``signals`` that surely no line of the batch matches. Checks only cheap ones: those with few
        literals, and those whose patterns begin with words and do not look around."""
        found: set[int] = set()
        text = ""
        for index in signals:
            signal, literals = self._matcher.signals[index], self._matcher.templates.literals[index]
            if signal.ignore_case:
                continue
            if 0 < len(literals) <= _FEW and not any(literal.encode() in batch.text for literal in literals):
                found.add(index)
                continue
            if signal.substring or re.match(_BEGINS_WITH_WORDS, signal.pattern) is None:
                continue
            text = text or batch.text.decode("utf-8", "replace")
            if self._matcher.pattern(index).search(text) is None:
                found.add(index)
        return frozenset(found)

    def groups(
        self, batch: Batch, indices: Iterable[int], signals_of: Callable[[int], SignalSet]
    ) -> dict[LineGroup, list[int]]:
        """The lines at ``indices``, grouped by how they look to their signals. Most lines of a group differ only in
        digits."""
        found: dict[LineGroup, list[int]] = {}
        for index in indices:
            signals, line = signals_of(index), batch.piece(index)
            key = (line.translate(_SAME_DIGITS) if self._are_digits_alike(signals) else line, signals)
            found.setdefault(key, []).append(index)
        return found

    def may_match(self, group: LineGroup) -> bool:
        """Whether a line of the group may match one of its signals, or has none to be checked against."""
        piece, signals = group
        line = piece.decode("utf-8", "replace")
        # A long line is searched in parts, so anchors may match within it.
        return not signals or len(line) > MATCH_LIMIT or any(self._line_may_match(line, index) for index in signals)

    def _line_may_match(self, line: str, index: int) -> bool:
        literals = self._matcher.templates.literals[index]
        if literals:
            # Far cheaper than a pattern without a literal start, which is tried at each character.
            searched = line.lower() if self._matcher.signals[index].ignore_case else line
            if not any(literal in searched for literal in literals):
                return False
        if index not in self._unanchored:
            signal = self._matcher.signals[index]
            text = re.escape(signal.pattern) if signal.substring else unanchored(signal.pattern)
            flags = re.ASCII | (re.IGNORECASE if signal.ignore_case else 0)
            self._unanchored[index] = None if text is None else re.compile(text, flags)
        pattern = self._unanchored[index]
        return pattern is None or pattern.search(line) is not None

    def _are_digits_alike(self, signals: SignalSet) -> bool:
        known = self._digits_alike.get(signals)
        if known is None:
            if len(self._digits_alike) >= _CACHE_LIMIT:
                self._digits_alike = {}
            known = all(are_digits_alike(self._matcher.signals[index].pattern) for index in signals)
            self._digits_alike[signals] = known
        return known

    def _may_match(self, index: int, letters: str) -> bool:
        regex = self._regex(index)
        return regex is None or regex.pattern.search(letters) is not None

    def _is_context_free(self, index: int) -> bool:
        regex = self._regex(index)
        return regex is None or regex.is_context_free

    def _regex(self, index: int) -> TemplateRegex | None:
        """None for a substring."""
        if index not in self._regexes:
            signal = self._matcher.signals[index]
            self._regexes[index] = (
                None if signal.substring else template_regex(signal.pattern, ignore_case=signal.ignore_case)
            )
        return self._regexes[index]


@lru_cache(maxsize=8)
def shared_prefilter(matcher: Matcher) -> TemplatePrefilter:
    """The shared prefilter of ``matcher``."""
    return TemplatePrefilter(matcher)


def unanchored(pattern: str) -> str | None:
    """A pattern that matches wherever ``pattern`` does, in lines that still have their prefixes; None if it looks
    around itself."""
    if re.search(_LOOKS_AROUND, pattern) is not None:
        return None
    return re.sub(_ATOMS, lambda atom: "(?:)" if atom[0] == "^" else atom[0], pattern)


def are_digits_alike(pattern: str) -> bool:
    """Whether ``pattern`` takes any digit where it takes one. True if it names none, quantifiers aside."""
    return re.search(r"\d", re.sub(r"\{\d*,?\d*\}", "", pattern), re.ASCII) is None
