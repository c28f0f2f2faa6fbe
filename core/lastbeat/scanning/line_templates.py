"""Line templates: what is left of a line without digits, punctuation and spaces. A long log has few.

Training prints the same lines over and over with other numbers in them. Each template is therefore examined once, and
from then on a line costs no more than making its template and looking that up: whatever letters a pattern demands have
to be in the template, in the same order.
"""

import re
import string
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from lastbeat.model.signal import Signal
from lastbeat.scanning.literal_index import LiteralIndex
from lastbeat.scanning.splitting import LINE_LIMIT

_CACHE_LIMIT: Final = 16 * 1024
_CACHED_BYTES: Final = 512
"""Longer templates are not cached."""
_KEPT: Final = frozenset(string.ascii_letters + "^")  # some programs leave nothing but ^C when they are interrupted
_DELETED: Final = bytes(code for code in range(256) if chr(code) not in _KEPT)
_DELETED_OF_LINES: Final = _DELETED.replace(b"\n", b"")


def template_of(line: str) -> bytes:
    return line.encode("utf-8", "replace").translate(None, _DELETED)


def templates_of(text: bytes) -> list[bytes]:
    """The template of each line of ``text``, in which every line ends with a newline."""
    templates = text.translate(None, _DELETED_OF_LINES).split(b"\n")
    templates.pop()
    return templates


def fold(character: str, *, ignore_case: bool) -> str:
    """What a character becomes in a template; "" if it is dropped. Templates are compared in lower case under
    ``ignore_case``."""
    kept = character if character in _KEPT else ""
    return kept.lower() if ignore_case else kept


def demand(pattern: str, *, ignore_case: bool, substring: bool) -> str:
    """What the template of a line must contain for the pattern to match it; empty where nothing is known.

    Words in lower case, at least one of which must be there in some case; a semicolon; and the whole of
    :func:`literals.demand`, with parentheses for lists. It is kept as one text because few signals ever need it parsed:
    that keeps loading a catalogue fast.
    """
    from lastbeat.scanning import literals  # noqa: PLC0415 - it loads a parser, and built-in catalogues are worked out

    folded = partial(fold, ignore_case=ignore_case)
    demanded = literals.demand(pattern, folded, ignore_case=ignore_case, substring=substring)
    if demanded is None:
        return ""
    rare = literals.minimal(text.lower() for text in literals.one_of(demanded))
    return f"{' '.join(sorted(rare))};{_written(demanded)}"


def _written(demanded: Any) -> str:
    return demanded if isinstance(demanded, str) else f"({' '.join(map(_written, demanded))})"


class _Demand(NamedTuple):
    all_of_it: bool
    """Whether all parts must be there, or any one."""
    words: tuple[str, ...]
    nested: tuple["_Demand", ...]

    def is_met_by(self, letters: str) -> bool:
        there = map(letters.__contains__, self.words)
        if self.all_of_it:
            return all(there) and all(inside.is_met_by(letters) for inside in self.nested)
        return any(there) or any(inside.is_met_by(letters) for inside in self.nested)


def _parsed(written: str) -> _Demand:
    lists: list[list[Any]] = [[]]
    for word in re.findall(r"[()]|[^() ]+", written):
        if word == "(":
            lists.append([])
        elif word == ")":
            how, *parts = lists.pop()
            lists[-1].append(_demand(how == "&", parts))
        else:
            lists[-1].append(word)
    return _demand(True, lists[0])


def _demand(all_of_it: bool, parts: Sequence[Any]) -> _Demand:
    words = tuple(part for part in parts if isinstance(part, str))
    return _Demand(all_of_it, words, tuple(part for part in parts if isinstance(part, _Demand)))


class TemplateIndex:
    """Which signals a line with a given template may match."""

    def __init__(self, signals: Sequence[Signal], *, native: bool = True) -> None:
        self._cache: dict[bytes, tuple[int, ...]] = {}
        self._ignores_case = [signal.ignore_case for signal in signals]
        self._demand_texts: list[str] = []
        self._demands: dict[int, _Demand] = {}
        self.literals: list[tuple[str, ...]] = []
        """Of each signal: at least one of these is in every line that it matches; empty where nothing is known."""
        letterless: list[int] = []
        by_word: dict[str, list[int]] = {}
        for index, signal in enumerate(signals):
            texts, demanded = signal.literals, signal.demand
            if not texts or not demanded:
                texts, demanded = _worked_out(signal)
            self.literals.append(texts)
            rare, _, whole = demanded.partition(";")
            self._demand_texts.append(whole)
            if not whole:
                letterless.append(index)
            for text in rare.split():
                by_word.setdefault(text, []).append(index)
        self.letterless = tuple(letterless)
        """Signals that demand no letters, so that no template can rule them out."""
        self._by_word = by_word
        self._words = LiteralIndex(by_word, native=native)

    def possible(self, template: bytes) -> tuple[int, ...]:
        """The signals, :attr:`letterless` ones aside, that a line with this template may match, ascending."""
        return self.possible_of_each([template])[template]

    def possible_of_each(self, templates: Iterable[bytes]) -> dict[bytes, tuple[int, ...]]:
        """:meth:`possible` of many."""
        cache = self._cache
        found: dict[bytes, tuple[int, ...]] = {}
        unknown: list[bytes] = []
        for template in templates:
            signals = cache.get(template)
            if signals is None:
                unknown.append(template)
            else:
                found[template] = signals
        if unknown:
            self._examine(unknown, found)
        return found

    def narrow(self, template: bytes, signals: tuple[int, ...]) -> None:
        """Remember that of :meth:`possible` only ``signals`` are left, as a closer look found."""
        if template in self._cache:
            self._cache[template] = signals

    def _examine(self, unknown: Sequence[bytes], found: dict[bytes, tuple[int, ...]]) -> None:
        if len(self._cache) + len(unknown) > _CACHE_LIMIT:
            self._cache = {}
        cache = self._cache
        # What is behind the limit is not part of the line any more.
        cut = [template[:LINE_LIMIT] for template in unknown]
        lowered = b"\n".join(cut).lower().decode("ascii")
        hits = self._words.lines(lowered)
        for number, template in enumerate(unknown):
            signals = self._signals(cut[number], hits[number]) if number in hits else ()
            found[template] = signals
            if len(template) <= _CACHED_BYTES:
                cache[template] = signals

    def _signals(self, template: bytes, words: Iterable[str]) -> tuple[int, ...]:
        asking = {index for word in words for index in self._by_word[word]}
        letters = template.decode("ascii")
        lowered = letters.lower()
        return tuple(
            index
            for index in sorted(asking)
            if self._demand(index).is_met_by(lowered if self._ignores_case[index] else letters)
        )

    def _demand(self, index: int) -> _Demand:
        if index not in self._demands:
            self._demands[index] = _parsed(self._demand_texts[index])
        return self._demands[index]


def _worked_out(signal: Signal) -> tuple[tuple[str, ...], str]:
    """Literals and demand of a signal whose catalogue did not bring both."""
    from lastbeat.scanning import literals  # noqa: PLC0415 - it loads a parser

    how = {"ignore_case": signal.ignore_case, "substring": signal.substring}
    texts = signal.literals or literals.required(signal.pattern, **how)
    return texts, demand(signal.pattern, **how)
