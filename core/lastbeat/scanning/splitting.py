"""A log's bytes → its lines, without what terminals and launchers put around them."""

import re
import string
from binascii import a2b_base64, b2a_base64
from bisect import bisect_right
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from lastbeat.scanning.prefixes import origin, time_of

LINE_LIMIT: Final = 16 * 1024
"""Bytes of a line, or of one state of an overwritten line, that are kept; without the word that this cuts in two."""

_WORD: Final = (string.ascii_letters + string.digits + "_").encode()

# None of these goes on over the end of a line, or of a state of one.
_ANSI: Final = (
    rb"\x1b\[[0-?]{0,100}[ -/]{0,10}[@-~]|\x1b\][^\x07\x1b\r\n]{0,500}(?:\x07|\x1b\\)|"
    rb"\x1b(?:[()*+#%][0-9A-Z]|[=>78A-Z])?"
)
# A progress bar knows no newline: whatever another process prints next stands right behind it. The slash is what is
# looked for first.
_GLUED: Final = rb"/(?:(?<=it/)s|(?<=s/)it)(?:, [^\]\r\n]{0,300})?\](?=[^\s\]])"


class Line(NamedTuple):
    """One line, or one state of a line that was overwritten with carriage returns."""

    number: int
    """From 1, by newlines."""
    raw: str
    """As it stands in the file, without ANSI sequences."""
    text: str
    """``raw`` without the prefixes of ranks and launchers, leading white space kept."""
    rank: int | None = None
    host: str | None = None
    time: datetime | None = None


def line_of(number: int, raw: str, reference: datetime | None = None) -> Line:
    """Take a line apart that has no ANSI sequences left. ``reference`` as for :func:`prefixes.time_of`."""
    where = origin(raw)
    return Line(number, raw, raw[where.begin :], where.rank, where.host, time_of(raw, reference))


class Batch:
    """Lines that are complete, in the order of the file. A line is made when it is asked for.

    An overwritten line is as many lines with one number as it had states; of states that are empty nothing is left,
    but an empty line is a line.
    """

    __slots__ = ("_count", "_ends", "_first", "_pieces", "reference", "text")

    def __init__(self, text: bytes, first: int, count: int, reference: datetime | None):
        self.text = text
        """All lines, each ended by a newline, without ANSI sequences and NULs. A line may be longer here than the
        one that :meth:`line` gives."""
        self.reference = reference
        """A time near to which these lines were printed."""
        self._first = first
        self._count = count
        self._ends: list[int] | None = None
        self._pieces: list[bytes] | None = None

    @classmethod
    def of(cls, pieces: list[bytes], first: int, ends: list[int], reference: datetime | None) -> "Batch":
        """Of lines that are taken apart already: line ``first`` and those that follow it. ``ends`` counts the pieces
        up to the end of each of them."""
        batch = cls(b"\n".join([*pieces, b""]), first, len(pieces), reference)
        batch._pieces, batch._ends = pieces, ends
        return batch

    def __len__(self) -> int:
        return self._count

    def number(self, index: int) -> int:
        return self._first + (index if self._ends is None else bisect_right(self._ends, index))

    def piece(self, index: int) -> bytes:
        if self._pieces is None:
            self._pieces = self.text.split(b"\n")
        return _cut(self._pieces[index])

    def line(self, index: int) -> Line:
        return line_of(self.number(index), self.piece(index).decode("utf-8", "replace"), self.reference)


class Splitter:
    """Takes a file's bytes as they come and gives its lines: the same however the bytes are cut.

    Holds at most one unfinished line, and of that :data:`LINE_LIMIT` bytes. A batch takes a few times the memory of
    the bytes that it was made of.
    """

    def __init__(self, number: int = 1) -> None:
        self._number = number
        self._begun = False
        """Whether the current line has given a state already."""
        self._half = b""
        self._returned = False
        """Whether a carriage return follows the half line: it counts for nothing if a newline is next."""
        self._deaf = False
        """Whether the beginning of the current line was left out, and so the rest of it is."""

    @property
    def number(self) -> int:
        """Of the line that is being read."""
        return self._number

    def feed(self, data: bytes, reference: datetime | None = None) -> Batch:
        """The lines that ``data`` completes. ``reference`` is a time near to which it was printed."""
        if b"\0" in data:
            # A file that was cut off while its writer went on: a hole, megabytes long perhaps, before the next line.
            data = data.replace(b"\0", b"")
        if self._deaf:
            _, newline, data = data.partition(b"\n")
            if not newline:
                return Batch(b"", self._number, 0, reference)
            self._deaf = False
            self._number += 1
        settled = self._settle(data)
        return self._batch(settled, reference)

    def finish(self, reference: datetime | None = None) -> Batch:
        """No more bytes: the half line is a line. Reading may go on; a line that was cut here is two."""
        half, self._half, self._returned = self._half, b"", False
        return self._batch(half + b"\n" if half else b"", reference)

    def skip(self) -> None:
        """Bytes were left out here: neither the half line nor what is left of the line that reading goes on in counts.

        Line numbers go on as if nothing were missing.
        """
        self._half, self._returned, self._begun = b"", False, False
        self._deaf = True

    def state(self) -> dict[str, Any]:
        """All that a later process needs to go on: text and numbers, less than 24 KB."""
        return {
            "number": self._number,
            "begun": self._begun,
            "half": b2a_base64(self._half, newline=False).decode("ascii"),
            "returned": self._returned,
            "deaf": self._deaf,
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> "Splitter":
        splitter = cls()
        splitter._number = int(state["number"])
        splitter._begun = bool(state["begun"])
        splitter._half = a2b_base64(state["half"])[: LINE_LIMIT + 1]
        splitter._returned = bool(state["returned"])
        splitter._deaf = bool(state["deaf"])
        return splitter

    def _settle(self, data: bytes) -> bytes:
        """What is complete with ``data``: up to the last newline, or the last carriage return that none can follow."""
        text = (self._half + b"\r" if self._returned else self._half) + data
        self._returned = text.endswith(b"\r")
        if self._returned:
            text = text[:-1]
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        self._half = text[end : end + LINE_LIMIT + 1]
        return text[:end]

    def _batch(self, settled: bytes, reference: datetime | None) -> Batch:
        returned = settled.find(b"\r")
        if returned >= 0 and settled.startswith(b"\n", returned + 1):
            # Where this is how lines end; elsewhere it comes to the same as a state that is empty.
            settled = settled.replace(b"\r\n", b"\n")
        if self._begun or b"\r" in settled or b"\x1b" in settled or b"%" in settled:
            lines = settled.split(b"\n")
            if max(map(len, lines)) > LINE_LIMIT:
                return self._overwritten(list(map(_states, lines)), reference)
            settled = _cleaned(settled)
            if self._begun or b"\r" in settled:
                states = [line.split(b"\r") for line in settled.split(b"\n")]
                return self._overwritten(states, reference)
        first, count = self._number, settled.count(b"\n")
        self._number += count
        return Batch(settled, first, count, reference)

    def _overwritten(self, lines: list[list[bytes]], reference: datetime | None) -> Batch:
        """Each line as its states, of which empty ones do not count."""
        pieces: list[bytes] = []
        ends: list[int] = []
        first = self._number
        rest = lines.pop()
        for line in lines:
            states = list(filter(None, line))
            if not states and not self._begun:
                states = [b""]
            pieces += states
            ends.append(len(pieces))
            self._begun = False
        states = list(filter(None, rest))
        self._begun = self._begun or bool(states)
        self._number += len(lines)
        return Batch.of(pieces + states, first, ends, reference)


def _cut(piece: bytes) -> bytes:
    return piece if len(piece) <= LINE_LIMIT else piece[:LINE_LIMIT].rstrip(_WORD)


def _states(line: bytes) -> list[bytes]:
    """Of a line that may be very long."""
    return [clean for state in line.split(b"\r") for clean in _cleaned(_cut(state)).split(b"\r")]


def _cleaned(text: bytes) -> bytes:
    """Lines and states, none of them longer than the limit, without ANSI sequences and each bar for itself."""
    if b"\x1b" in text:
        text = re.sub(_ANSI, b"", text)
    return re.sub(_GLUED, _Bars(text).apart, text) if b"%" in text else text


class _Bars:
    """Tells which states of ``text`` show a bar; asked from the first to the last."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._last = -1
        self._bar = False

    def apart(self, found: "re.Match[bytes]") -> bytes:
        """What was found, as a state that ends there if it belongs to a bar."""
        text, last, place = self._text, self._last, found.start()
        if last < 0 or text.find(b"\r", last, place) >= 0 or text.find(b"\n", last, place) >= 0:
            self._bar = self._is_bar(place)
        self._last = place
        return found[0] + b"\r" if self._bar else found[0]

    def _is_bar(self, place: int) -> bool:
        text, least, most = self._text, max(0, place - LINE_LIMIT), place + LINE_LIMIT
        begin = max(text.rfind(b"\r", least, place), text.rfind(b"\n", least, place), least - 1) + 1
        if text.find(b"%", begin, place) >= 0:
            return True
        ends = (text.find(b"\r", place, most), text.find(b"\n", place, most))
        return text.find(b"%", place, min((end for end in ends if end >= 0), default=most)) >= 0
