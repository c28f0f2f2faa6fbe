"""Splits a log's bytes into lines, without terminal codes and launchers' prefixes."""

import re
import string
from bisect import bisect_right
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final, NamedTuple

from lastbeat.explain.scanning.prefixes import origin, time_of
from lastbeat.model.persisted import Base64, Form

LINE_LIMIT: Final = 16 * 1024
"""Most bytes of a line, or of one state of an overwritten line. A word at the limit is left out whole."""

_WORD: Final = (string.ascii_letters + string.digits + "_").encode()

# None of these matches beyond the end of a line or of a state.
_ANSI: Final = (
    rb"\x1b\[[0-?]{0,100}[ -/]{0,10}[@-~]|\x1b\][^\x07\x1b\r\n]{0,500}(?:\x07|\x1b\\)|"
    rb"\x1b(?:[()*+#%][0-9A-Z]|[=>78A-Z])?"
)
# A progress bar ends without a newline, so the next output of another process follows it directly. The pattern begins
# with the slash, because one that begins with a literal is found faster.
_BAR_END: Final = rb"/(?:(?<=it/)s|(?<=s/)it)(?:, [^\]\r\n]{0,300})?\](?=[^\s\]])"


class Line(NamedTuple):
    """One line, or one state of a line that was overwritten with carriage returns."""

    number: int
    """Line number, from 1."""
    raw: str
    """The line in the file, without ANSI sequences."""
    text: str
    """``raw`` without the prefixes of ranks and launchers; leading white space is kept."""
    rank: int | None = None
    host: str | None = None
    time: datetime | None = None


def line_of(number: int, raw: str, reference: datetime | None = None) -> Line:
    """The parts of ``raw``, which has no ANSI sequences. ``reference`` is that of :func:`prefixes.time_of`."""
    where = origin(raw)
    return Line(number, raw, raw[where.begin :], where.rank, where.host, time_of(raw, reference))


class Batch:
    """Complete lines in the order of the file. Each becomes a :class:`Line` on request.

    Each non-empty state of an overwritten line is a line here, with the same number. An empty line is a line too.
    """

    __slots__ = ("_count", "_ends", "_first", "_pieces", "reference", "text")

    def __init__(self, text: bytes, first: int, count: int, reference: datetime | None):
        self.text = text
        """All lines, each with a newline, without ANSI sequences and NULs, and not yet cut to the limit."""
        self.reference = reference
        """A time close to that of the lines."""
        self._first = first
        self._count = count
        self._ends: list[int] | None = None
        self._pieces: list[bytes] | None = None

    @classmethod
    def of(cls, pieces: list[bytes], first: int, ends: list[int], reference: datetime | None) -> "Batch":
        """A batch of split pieces: the states of line ``first`` and of the lines after it. ``ends`` counts the pieces
        up to the end of each line."""
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


@dataclass(eq=False, repr=False)
class Splitter:
    """Splits a file's bytes into lines as they arrive. The lines do not depend on how the bytes are cut.

    Keeps at most one unfinished line of :data:`LINE_LIMIT` bytes, so that a later process can continue. A batch takes a
    few times the memory of its bytes.
    """

    FORM: ClassVar = Form.SPARSE

    number: int = 1
    """Number of the current line."""
    partial: Base64 = b""
    """The unfinished line so far, or its latest state."""
    returned: bool = False
    """Whether a carriage return follows ``partial``. It overwrites the line unless a newline comes next."""
    begun: bool = False
    """Whether a state of the unfinished line was returned already."""
    skipping: bool = False
    """Whether the beginning of the unfinished line is missing, so that the rest is dropped too."""

    def __post_init__(self) -> None:
        self.partial = self.partial[: LINE_LIMIT + 1]

    def feed(self, data: bytes, reference: datetime | None = None) -> Batch:
        """The lines that ``data`` completes. ``reference`` is a time close to theirs.

        1. Drop NULs, which fill the gap after a file was truncated during writing.
        2. After a gap, drop the rest of the line that it cut.
        3. Put the unfinished line before ``data``. Text after the last line end is the new unfinished line.
        4. Split the rest into lines, and lines with carriage returns into states. Remove ANSI sequences.
        """
        if b"\0" in data:
            data = data.replace(b"\0", b"")
        if self.skipping:
            _, newline, data = data.partition(b"\n")
            if not newline:
                return Batch(b"", self.number, 0, reference)
            self.skipping = False
            self.number += 1
        return self._batch(self._settled(data), reference)

    def finish(self, reference: datetime | None = None) -> Batch:
        """End the data, so that the unfinished line counts. If more data follows nevertheless, it starts another
        line."""
        partial, self.partial, self.returned = self.partial, b"", False
        return self._batch(partial + b"\n" if partial else b"", reference)

    def skip(self) -> None:
        """Note a gap: drop the unfinished line, and the rest of the line in which reading resumes. Line numbers do not
        count the gap."""
        self.partial, self.returned, self.begun = b"", False, False
        self.skipping = True

    def _settled(self, data: bytes) -> bytes:
        """The text up to the last newline, or the last carriage return that no newline can follow."""
        text = (self.partial + b"\r" if self.returned else self.partial) + data
        self.returned = text.endswith(b"\r")
        if self.returned:
            text = text[:-1]
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        self.partial = text[end : end + LINE_LIMIT + 1]
        return text[:end]

    def _batch(self, settled: bytes, reference: datetime | None) -> Batch:
        returned = settled.find(b"\r")
        if returned >= 0 and settled.startswith(b"\n", returned + 1):
            # CRLF line ends. In a file with other ones this only removes empty states.
            settled = settled.replace(b"\r\n", b"\n")
        if self.begun or b"\r" in settled or b"\x1b" in settled or b"%" in settled:
            lines = settled.split(b"\n")
            if max(map(len, lines)) > LINE_LIMIT:
                return self._overwritten(list(map(_states, lines)), reference)
            settled = _cleaned(settled)
            if self.begun or b"\r" in settled:
                states = [line.split(b"\r") for line in settled.split(b"\n")]
                return self._overwritten(states, reference)
        first, count = self.number, settled.count(b"\n")
        self.number += count
        return Batch(settled, first, count, reference)

    def _overwritten(self, lines: list[list[bytes]], reference: datetime | None) -> Batch:
        """The batch of ``lines``, each given as its states. Empty states do not count."""
        pieces: list[bytes] = []
        ends: list[int] = []
        first = self.number
        rest = lines.pop()
        for line in lines:
            states = list(filter(None, line))
            if not states and not self.begun:
                states = [b""]
            pieces += states
            ends.append(len(pieces))
            self.begun = False
        states = list(filter(None, rest))
        self.begun = self.begun or bool(states)
        self.number += len(lines)
        return Batch.of(pieces + states, first, ends, reference)


def _cut(piece: bytes) -> bytes:
    return piece if len(piece) <= LINE_LIMIT else piece[:LINE_LIMIT].rstrip(_WORD)


def _states(line: bytes) -> list[bytes]:
    """The states of a line, which may be very long."""
    return [clean for state in line.split(b"\r") for clean in _cleaned(_cut(state)).split(b"\r")]


def _cleaned(text: bytes) -> bytes:
    """Lines and states within the limit, without ANSI sequences, and with a state's end behind each progress bar."""
    if b"\x1b" in text:
        text = re.sub(_ANSI, b"", text)
    return re.sub(_BAR_END, _BarEnds(text).separated, text) if b"%" in text else text


class _BarEnds:
    """Finds the true ends of progress bars in ``text``, from the first to the last."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._last = -1
        self._is_in_bar = False

    def separated(self, found: "re.Match[bytes]") -> bytes:
        """``found``, with a state's end behind it if it belongs to a bar."""
        text, last, place = self._text, self._last, found.start()
        if last < 0 or text.find(b"\r", last, place) >= 0 or text.find(b"\n", last, place) >= 0:
            self._is_in_bar = self._shows_percentage(place)
        self._last = place
        return found[0] + b"\r" if self._is_in_bar else found[0]

    def _shows_percentage(self, place: int) -> bool:
        """Whether the state around ``place`` has a percent sign."""
        text, least, most = self._text, max(0, place - LINE_LIMIT), place + LINE_LIMIT
        begin = max(text.rfind(b"\r", least, place), text.rfind(b"\n", least, place), least - 1) + 1
        if text.find(b"%", begin, place) >= 0:
            return True
        ends = (text.find(b"\r", place, most), text.find(b"\n", place, most))
        return text.find(b"%", place, min((end for end in ends if end >= 0), default=most)) >= 0
