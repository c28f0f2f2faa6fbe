"""Finds which of many short texts occur in which lines of new text."""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final, NamedTuple

_RE2_FROM_CHARS: Final = 512 * 1024
"""Characters after which loading RE2 and compiling all texts pays off."""
_RE2_MEMORY_BYTES: Final = 64 << 20
_RARE: Final = 16
"""A text in fewer than one of this many lines is searched for from hit to hit."""
_TOGETHER: Final = 32
"""Lines that RE2 searches at once while hits are rare."""
_GRAM: Final = 4
"""Bytes of a gram."""

LineHits = Iterator[tuple[int, list[str]]]
"""(index of a line, the texts in it), ascending."""


class LiteralIndex:
    """Finds texts of ASCII letters, with RE2 if that is installed and there is much text to search.

    Without RE2 it uses 4-grams: a set holds every four bytes of the text as a number. If one of a literal's own 4-grams
    is missing there, so is the literal. Of a thousand literals, a few dozen remain to search for.
    """

    def __init__(self, texts: Collection[str], *, native: bool = True) -> None:
        self._texts = tuple(texts)
        self._native = native
        self._re2_lines: Callable[[bytes], LineHits] | None = None
        self._by_gram: _ByGram | None = None
        self._seen_chars = 0

    def lines(self, text: str) -> dict[int, list[str]]:
        """Index of a line → the texts in it, for lines that have any. ``text`` is ASCII."""
        self._seen_chars += len(text)
        data = text.encode("ascii")
        if self._re2_lines is None and self._native and self._seen_chars > _RE2_FROM_CHARS:
            self._re2_lines = _re2_scanner(self._texts)
            self._native = self._re2_lines is not None
        if self._re2_lines is not None:
            return dict(self._re2_lines(data))
        return _lines_with_any(text, self._possible(data))

    def _possible(self, data: bytes) -> list[str]:
        """The texts that may be in ``data``."""
        by_gram = self._by_gram
        if by_gram is None:
            # Assigned when complete: threads share the index, and one that saw half of it would miss texts.
            by_gram = self._by_gram = _by_gram(self._texts)
        there = _grams(data)
        begun = [text for gram in there & by_gram.first.keys() for text in by_gram.first[gram]]
        return by_gram.too_short + [
            text for text in begun if all(_gram(text, at) in there for at in range(1, len(text) - _GRAM + 1))
        ]


class _ByGram(NamedTuple):
    first: dict[int, list[str]]
    """First gram → the texts that begin with it."""
    too_short: list[str]
    """Texts shorter than a gram, which are always searched for."""


def _by_gram(texts: Iterable[str]) -> _ByGram:
    found = _ByGram({}, [])
    for text in texts:
        (found.first.setdefault(_gram(text, 0), []) if len(text) >= _GRAM else found.too_short).append(text)
    return found


def _gram(text: str, at: int) -> int:
    return int.from_bytes(text[at : at + _GRAM].encode("ascii"), sys.byteorder)


def _grams(data: bytes) -> set[int]:
    found: set[int] = set()
    view = memoryview(data)
    for begin in range(min(_GRAM, len(data))):
        whole = (len(data) - begin) // _GRAM * _GRAM
        found.update(view[begin : begin + whole].cast("I"))
    return found


def _lines_with_any(text: str, wanted: Collection[str]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    few = text.count("\n") // _RARE
    common = []
    for each in wanted:
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


def _re2_scanner(texts: Collection[str]) -> Callable[[bytes], LineHits] | None:
    """A search for ``texts`` by Google's RE2, whose automaton finds all of them at once. None if ``google-re2`` is not
    installed."""
    try:
        import re2  # noqa: PLC0415 - few logs bring enough new text at once
    except ImportError:
        return None
    ordered = sorted(texts)
    options = re2.Options()
    options.max_mem = _RE2_MEMORY_BYTES
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    options.log_errors = False
    options.literal = True
    each_of_them: Any = re2.Set.SearchSet(options)
    for text in ordered:
        each_of_them.Add(text.encode())
    each_of_them.Compile()
    held: Callable[[bytes], list[int] | None] = each_of_them.Match

    def lines(data: bytes) -> LineHits:
        together = data.split(b"\n")
        rare = True
        for first in range(0, len(together), _TOGETHER):
            some = together[first : first + _TOGETHER]
            # Many lines are searched at once only while hits are rare.
            if rare and not held(b"\n".join(some)):
                continue
            rare = True
            for index, line in enumerate(some, first):
                if there := held(line):
                    yield index, [ordered[each] for each in there]
                    rare = False

    return lines
