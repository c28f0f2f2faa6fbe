"""What is left of a line without digits, punctuation and spaces: few texts, however long a log is.

Training prints the same lines over and over with other numbers in them. So each shape is looked at once, and a line
costs no more than making its shape and finding that in a table: whatever a pattern demands in letters has to be in
the shape, in the same order.
"""

import re
import string
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from lastbeat.model.signal import Signal
from lastbeat.scanning.presence import Presence
from lastbeat.scanning.splitting import LINE_LIMIT

_KNOWN_LIMIT: Final = 16 * 1024
_LONG: Final = 512
"""Bytes of a shape that is not remembered."""
_KEPT: Final = frozenset(string.ascii_letters + "^")  # ^C is all that some interrupted programs leave
_DELETED: Final = bytes(code for code in range(256) if chr(code) not in _KEPT)
_DELETED_OF_LINES: Final = _DELETED.replace(b"\n", b"")


def shape_of(line: str) -> bytes:
    return line.encode("utf-8", "replace").translate(None, _DELETED)


def shapes_of(text: bytes) -> list[bytes]:
    """Of each line of a text in which each ends with a newline."""
    shapes = text.translate(None, _DELETED_OF_LINES).split(b"\n")
    shapes.pop()
    return shapes


def fold(character: str, *, ignore_case: bool) -> str:
    """What becomes of a character in a shape; under ``ignore_case`` shapes are looked at in lower case."""
    kept = character if character in _KEPT else ""
    return kept.lower() if ignore_case else kept


def demand(pattern: str, *, ignore_case: bool, substring: bool) -> str:
    """What the shape of a line must contain for the pattern to match; empty where nothing is known.

    Words in lower case, one of which must be there in some case; a semicolon; and all that :func:`literals.demand`
    knows, with parentheses for lists. One text is read faster from a catalogue's file than what it says, which is
    needed of few signals.
    """
    from lastbeat.scanning import literals  # noqa: PLC0415 - catalogues bring it along, and it takes a parser

    folded = partial(fold, ignore_case=ignore_case)
    demanded = literals.demand(pattern, folded, ignore_case=ignore_case, substring=substring)
    if demanded is None:
        return ""
    rare = literals.least(text.lower() for text in literals.one_of(demanded))
    return f"{' '.join(sorted(rare))};{_written(demanded)}"


def _written(demanded: Any) -> str:
    return demanded if isinstance(demanded, str) else f"({' '.join(map(_written, demanded))})"


class _Demand(NamedTuple):
    whole: bool
    """Whether all of it must be there, or any."""
    words: tuple[str, ...]
    lists: tuple["_Demand", ...]

    def met_by(self, letters: str) -> bool:
        there = map(letters.__contains__, self.words)
        if self.whole:
            return all(there) and all(inside.met_by(letters) for inside in self.lists)
        return any(there) or any(inside.met_by(letters) for inside in self.lists)


def _read(written: str) -> _Demand:
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


def _demand(whole: bool, parts: Sequence[Any]) -> _Demand:
    words = tuple(part for part in parts if isinstance(part, str))
    return _Demand(whole, words, tuple(part for part in parts if isinstance(part, _Demand)))


class Shapes:
    """Which signals a line of a given shape may match."""

    def __init__(self, signals: Sequence[Signal], *, native: bool = True) -> None:
        self._known: dict[bytes, tuple[int, ...]] = {}
        self._blind = [signal.ignore_case for signal in signals]
        self._written: list[str] = []
        self._demands: dict[int, _Demand] = {}
        self.literals: list[tuple[str, ...]] = []
        """Of each signal: at least one of them is in a line that it matches; empty where nothing is known."""
        shapeless: list[int] = []
        users: dict[str, list[int]] = {}
        for index, signal in enumerate(signals):
            texts, demanded = signal.literals, signal.demand
            if not texts or not demanded:
                texts, demanded = _worked_out(signal)
            self.literals.append(texts)
            rare, _, whole = demanded.partition(";")
            self._written.append(whole)
            if not whole:
                shapeless.append(index)
            for text in rare.split():
                users.setdefault(text, []).append(index)
        self.shapeless = tuple(shapeless)
        """Signals of which a shape tells nothing."""
        self._users = users
        self._presence = Presence(users, native=native)

    def possible(self, shape: bytes) -> tuple[int, ...]:
        """The signals, :attr:`shapeless` ones apart, that a line of this shape may match, in their order."""
        return self.of([shape])[shape]

    def of(self, shapes: Iterable[bytes]) -> dict[bytes, tuple[int, ...]]:
        """:meth:`possible` of many."""
        known = self._known
        found: dict[bytes, tuple[int, ...]] = {}
        unknown: list[bytes] = []
        for shape in shapes:
            signals = known.get(shape)
            if signals is None:
                unknown.append(shape)
            else:
                found[shape] = signals
        if unknown:
            self._look_at(unknown, found)
        return found

    def narrow(self, shape: bytes, signals: tuple[int, ...]) -> None:
        """A closer look found that of :meth:`possible` no more than these are left."""
        if shape in self._known:
            self._known[shape] = signals

    def _look_at(self, unknown: Sequence[bytes], found: dict[bytes, tuple[int, ...]]) -> None:
        if len(self._known) + len(unknown) > _KNOWN_LIMIT:
            self._known = {}
        known = self._known
        # What stands behind the limit is not part of the line any more.
        cut = [shape[:LINE_LIMIT] for shape in unknown]
        lowered = b"\n".join(cut).lower().decode("ascii")
        holders = self._presence.lines(lowered)
        for number, shape in enumerate(unknown):
            signals = self._signals(cut[number], holders[number]) if number in holders else ()
            found[shape] = signals
            if len(shape) <= _LONG:
                known[shape] = signals

    def _signals(self, shape: bytes, texts: Iterable[str]) -> tuple[int, ...]:
        users = {index for text in texts for index in self._users[text]}
        letters = shape.decode("ascii")
        lowered = letters.lower()
        return tuple(i for i in sorted(users) if self._demand(i).met_by(lowered if self._blind[i] else letters))

    def _demand(self, index: int) -> _Demand:
        if index not in self._demands:
            self._demands[index] = _read(self._written[index])
        return self._demands[index]


def _worked_out(signal: Signal) -> tuple[tuple[str, ...], str]:
    """For a signal that no catalogue's file has given both of these."""
    from lastbeat.scanning import literals  # noqa: PLC0415 - see above

    how = {"ignore_case": signal.ignore_case, "substring": signal.substring}
    texts = signal.literals or literals.required(signal.pattern, **how)
    return texts, demand(signal.pattern, **how)
