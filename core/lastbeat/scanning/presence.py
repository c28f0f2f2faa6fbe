"""Which of many short texts are in which lines, when there is text that was never seen before."""

import sys
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lastbeat.scanning.matching_re2 import Scanner

_MUCH: Final = 512 * 1024
"""Characters after which it is worth the time to load RE2 and to compile all texts."""
_SELDOM: Final = 16
"""What is in no more than one line of so many is looked for from place to place."""
_GRAM: Final = 4


class Presence:
    """Looks for texts of ASCII letters, with RE2 where it is installed and there is much to look at.

    Without it, each four characters of what is looked at are a number in a set: where one of a text's own is missing,
    so is the text, and of a thousand texts a few dozen are left to be searched for.
    """

    def __init__(self, texts: Collection[str], *, native: bool = True) -> None:
        self._texts = tuple(texts)
        self._native = native
        self._scanner: Scanner | None = None
        self._beginnings: dict[int, list[str]] = {}
        self._short: list[str] = []
        """Texts that are too short to tell anything about."""
        self._seen = 0

    def lines(self, text: str) -> dict[int, list[str]]:
        """Index of a line → which of the texts it holds; without lines that hold none. ``text`` is ASCII."""
        self._seen += len(text)
        data = text.encode("ascii")
        if self._scanner is None and self._native and self._seen > _MUCH:
            from lastbeat.scanning import matching_re2  # noqa: PLC0415 - few logs bring that much new text at once

            self._native = matching_re2.AVAILABLE
            self._scanner = matching_re2.Scanner(self._texts) if self._native else None
        if self._scanner is not None:
            return dict(self._scanner.lines(data))
        return _holding(text, self._possible(data))

    def _possible(self, data: bytes) -> list[str]:
        """The texts that may be in it."""
        if not self._beginnings:
            for text in self._texts:
                few = self._beginnings.setdefault(_gram(text, 0), []) if len(text) >= _GRAM else self._short
                few.append(text)
        there = _grams(data)
        begun = [text for gram in there & self._beginnings.keys() for text in self._beginnings[gram]]
        return self._short + [
            text for text in begun if all(_gram(text, at) in there for at in range(1, len(text) - _GRAM + 1))
        ]


def _gram(text: str, at: int) -> int:
    return int.from_bytes(text[at : at + _GRAM].encode("ascii"), sys.byteorder)


def _grams(data: bytes) -> set[int]:
    found: set[int] = set()
    view = memoryview(data)
    for begin in range(min(_GRAM, len(data))):
        whole = (len(data) - begin) // _GRAM * _GRAM
        found.update(view[begin : begin + whole].cast("I"))
    return found


def _holding(text: str, texts: Collection[str]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    few = text.count("\n") // _SELDOM
    common = []
    for each in texts:
        times = text.count(each)
        if times > few:
            common.append(each)
        elif times:
            for index in _lines_with(each, text):
                found.setdefault(index, []).append(each)
    if common:
        for index, line in enumerate(text.split("\n")):
            if held := [each for each in common if each in line]:
                found.setdefault(index, []).extend(held)
    return found


def _lines_with(wanted: str, text: str) -> Iterator[int]:
    index, counted = 0, 0
    place = text.find(wanted)
    while place >= 0:
        index += text.count("\n", counted, place)
        yield index
        counted = text.find("\n", place)
        place = text.find(wanted, counted) if counted >= 0 else -1
