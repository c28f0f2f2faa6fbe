"""Line templates: a line without digits, punctuation and spaces. Even a long log has few different ones.

Training prints the same lines again and again with other numbers. So each template is examined once, and afterwards a
line costs no more than building its template and looking that up. A line can match a pattern only if its template
contains the letters that the pattern demands, in their order.
"""

import re
import string
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from lastbeat.explain import scanning
from lastbeat.explain.scanning.literal_index import LiteralIndex
from lastbeat.explain.scanning.splitting import LINE_LIMIT
from lastbeat.model.pattern import Pattern
from lastbeat.model.signal import Signal

_CACHE_LIMIT: Final = 16 * 1024
"""Most templates, and most combinations of words, whose signals are cached."""
_CACHED_BYTES: Final = 512
"""Most bytes of a cached template."""
_EXAMINED_BYTES: Final = 1000
"""Most bytes of a template that is matched against closer patterns."""
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
    """The character in a template, or "" if templates drop it; in lower case with ``ignore_case``."""
    kept = character if character in _KEPT else ""
    return kept.lower() if ignore_case else kept


class _Demand(NamedTuple):
    all_of_it: bool
    """Whether all parts must occur, not only one of them."""
    words: tuple[str, ...]
    nested: tuple["_Demand", ...]

    def is_met_by(self, letters: str) -> bool:
        # Loops, because this is asked of nearly each line of prose: any() and all() take three times as long.
        all_of_it = self.all_of_it
        for word in self.words:
            if (word in letters) is not all_of_it:
                return not all_of_it
        for inside in self.nested:
            if inside.is_met_by(letters) is not all_of_it:
                return not all_of_it
        return all_of_it


def parse_demand(written: str) -> _Demand:
    """The demand that :func:`lastbeat.explain.scanning.template_demand.demand` has written."""
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


_Asking = tuple[int, _Demand, bool, Pattern | None]
"""Index of a signal, its demand, whether case is ignored, and a further pattern that templates must match."""


class TemplateIndex:
    """Which signals a line with a given template may match."""

    def __init__(self, signals: Sequence[Signal], *, native: bool = True) -> None:
        self._cache: dict[bytes, tuple[int, ...]] = {}
        self._ignores_case = [signal.ignore_case for signal in signals]
        self._demand_texts: list[str] = []
        self._demands: dict[int, _Demand] = {}
        self._closer: dict[int, Pattern] = {}
        """Signal → a further pattern that templates must match, if healthy lines often meet its demand."""
        self._asking_for: dict[tuple[str, ...], Sequence[_Asking]] = {}
        self.literals: list[tuple[str, ...]] = []
        """For each signal, the texts of which every matching line has at least one; empty if unknown."""
        letterless: list[int] = []
        by_word: dict[str, list[int]] = {}
        for index, signal in enumerate(signals):
            texts, demanded = signal.literals, signal.demand
            if not texts or not demanded:
                texts, demanded = scanning.template_demand.computed_demand(signal)
            self.literals.append(texts)
            rare, _, whole = demanded.partition(";")
            whole, _, closer = whole.partition(";")
            self._demand_texts.append(whole)
            if closer:
                self._closer[index] = Pattern(closer, re.IGNORECASE if signal.ignore_case else 0)
            if not whole:
                letterless.append(index)
            for text in rare.split():
                by_word.setdefault(text, []).append(index)
        self.letterless = tuple(letterless)
        """Signals that demand no letters, so no template can rule them out."""
        self._by_word = by_word
        self._words = LiteralIndex(by_word, native=native)

    def possible(self, template: bytes) -> tuple[int, ...]:
        """The signals, except :attr:`letterless` ones, that a line with this template may match, ascending."""
        return self.possible_of_each([template])[template]

    def possible_of_each(self, templates: Iterable[bytes]) -> dict[bytes, tuple[int, ...]]:
        """Template → its :meth:`possible` signals."""
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
        """Remember that only ``signals`` of :meth:`possible` are left after a closer examination."""
        if template in self._cache:
            self._cache[template] = signals

    def _examine(self, unknown: Sequence[bytes], found: dict[bytes, tuple[int, ...]]) -> None:
        """Find the signals of templates that are not cached.

        1. Empty a full cache.
        2. Search all templates at once for the words of all signals, in lower case.
        3. A template without any of them can match nothing. For the others check the whole demand of each signal.
        4. Cache the result, except of very long templates.
        """
        if len(self._cache) + len(unknown) > _CACHE_LIMIT:
            self._cache = {}
        cache = self._cache
        # Text beyond the limit does not belong to the line.
        cut = [template[:LINE_LIMIT] for template in unknown]
        lowered = b"\n".join(cut).lower().decode("ascii")
        hits = self._words.lines(lowered)
        for number, template in enumerate(unknown):
            signals = self._signals(cut[number], hits[number]) if number in hits else ()
            found[template] = signals
            if len(template) <= _CACHED_BYTES:
                cache[template] = signals

    def _signals(self, template: bytes, words: Sequence[str]) -> tuple[int, ...]:
        letters = template.decode("ascii")
        lowered = letters.lower()
        return tuple(
            index
            for index, demand, ignores_case, closer in self._asking(words)
            if demand.is_met_by(lowered if ignores_case else letters)
            and (closer is None or len(letters) > _EXAMINED_BYTES or closer.search(letters) is not None)
        )

    def _asking(self, words: Sequence[str]) -> Sequence["_Asking"]:
        """The signals that demand one of these words, ascending."""
        key = tuple(words)
        known = self._asking_for.get(key)
        if known is None:
            indices = sorted({index for word in words for index in self._by_word[word]})
            known = [
                (index, self._demand(index), self._ignores_case[index], self._closer.get(index)) for index in indices
            ]
            if len(self._asking_for) >= _CACHE_LIMIT:
                self._asking_for = {}
            self._asking_for[key] = known
        return known

    def _demand(self, index: int) -> _Demand:
        if index not in self._demands:
            self._demands[index] = parse_demand(self._demand_texts[index])
        return self._demands[index]
