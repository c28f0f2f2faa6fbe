"""Suspicious lines that come again and again: a closer look at all of them together, cheaper than one at each."""

import re
import string
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from lastbeat.scanning.matching import MATCH_LIMIT, Matcher
from lastbeat.scanning.splitting import Batch

if TYPE_CHECKING:
    from lastbeat.scanning.images import Image

# An escaped character, a set, or any other character.
_AROUND: Final = r"\(\?<?[=!]|\\[ABZ]|\(\?[a-zA-Z(-]*[xm]"
_PARTS: Final = r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|."
Signals = frozenset[int]
Kind = tuple[bytes, Signals]
_SAME_DIGITS = bytes.maketrans(string.digits.encode(), b"0" * 10)
_ALIKE_LIMIT = 1024
_LONG = 1000
"""Bytes of a shape that is not looked at this closely."""


class CloserLook:
    """Knows the signals' images, each made when it is first asked for."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._images: dict[int, Image | None] = {}
        self._loose: dict[int, re.Pattern[str] | None] = {}
        self._alike: dict[Signals, bool] = {}
        self.lines = 0
        """So many lines were looked at."""

    def possible(self, shape: bytes, signals: Sequence[int]) -> tuple[int, ...]:
        """Those of ``signals`` whose order and distance of words a line of this shape can meet."""
        if len(shape) > _LONG:
            return tuple(signals)
        letters = shape.decode("ascii")
        return tuple(index for index in signals if self._may_match(index, letters))

    def present(self, batch: Batch, signals: Iterable[int]) -> Signals:
        """Those of ``signals`` that some line of the batch may match."""
        left, text = [], ""
        for index in sorted(signals):
            signal, literals = self._matcher.signals[index], self._matcher.shapes.literals[index]
            if literals and not signal.ignore_case and not any(literal.encode() in batch.text for literal in literals):
                continue
            if self._floating(index):
                text = text or batch.text.decode("utf-8", "replace")
                if self._matcher.pattern(index).search(text) is None:
                    continue
            left.append(index)
        return frozenset(left)

    def kinds(self, batch: Batch, indices: Iterable[int], asked: Callable[[int], Signals]) -> dict[Kind, list[int]]:
        """The lines, those together of which the same signals are asked and that look the same to them."""
        found: dict[Kind, list[int]] = {}
        for index in indices:
            signals, line = asked(index), batch.piece(index)
            # Most of these lines differ in their numbers.
            key = (line.translate(_SAME_DIGITS) if self._are_digits_alike(signals) else line, signals)
            found.setdefault(key, []).append(index)
        return found

    def bears(self, kind: Kind) -> bool:
        """Whether such a line may match one of the signals; of none it is not asked."""
        piece, signals = kind
        line = piece.decode("utf-8", "replace")
        # The parts that a long line is searched in have ends of their own.
        return not signals or len(line) > MATCH_LIMIT or any(self._bears(line, index) for index in signals)

    def _bears(self, line: str, index: int) -> bool:
        literals = self._matcher.shapes.literals[index]
        if literals:
            # Far cheaper than a pattern that may begin in many ways, which is tried at each character.
            searched = line.lower() if self._matcher.signals[index].ignore_case else line
            if not any(literal in searched for literal in literals):
                return False
        if index not in self._loose:
            signal = self._matcher.signals[index]
            text = re.escape(signal.pattern) if signal.substring else loosened(signal.pattern)
            flags = re.ASCII | (re.IGNORECASE if signal.ignore_case else 0)
            self._loose[index] = None if text is None else re.compile(text, flags)
        loose = self._loose[index]
        return loose is None or loose.search(line) is not None

    def _are_digits_alike(self, signals: Signals) -> bool:
        if signals not in self._alike:
            if len(self._alike) >= _ALIKE_LIMIT:
                self._alike = {}
            self._alike[signals] = all(are_digits_alike(self._matcher.signals[index].pattern) for index in signals)
        return self._alike[signals]

    def _may_match(self, index: int, letters: str) -> bool:
        image = self._image(index)
        return image is None or image.pattern.search(letters) is not None

    def _floating(self, index: int) -> bool:
        image = self._image(index)
        return image is None or image.floating

    def _image(self, index: int) -> "Image | None":
        """None for plain text."""
        if index not in self._images:
            from lastbeat.scanning.images import image_of  # noqa: PLC0415 - it takes a parser

            signal = self._matcher.signals[index]
            plain = signal.substring
            self._images[index] = None if plain else image_of(signal.pattern, ignore_case=signal.ignore_case)
        return self._images[index]


@lru_cache(maxsize=8)
def closer_look(matcher: Matcher) -> CloserLook:
    """One for all logs that are read with this matcher."""
    return CloserLook(matcher)


def loosened(pattern: str) -> str | None:
    """A pattern that matches wherever this one does, in lines that still have their prefixes; None: nobody knows."""
    if re.search(_AROUND, pattern) is not None:
        return None
    return re.sub(_PARTS, lambda part: "(?:)" if part[0] == "^" else part[0], pattern)


def are_digits_alike(pattern: str) -> bool:
    """Whether one digit is as good as another to it; at least those are, if it names none."""
    return re.search(r"\d", re.sub(r"\{\d*,?\d*\}", "", pattern), re.ASCII) is None
