"""Reads the end of a log, or all of it, by ranged reads."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lastbeat.stores.port import Blob
from lastbeat.watch.observe.log_cursor import REACH_BYTES, Cursor
from lastbeat.watch.observe.log_source import LogSource
from lastbeat_cli.run_logs.printing import Lines, Printer

_FIRST_BYTES: Final = 64 * 1024
_MOST_AT_ONCE: Final = 8 * 1024 * 1024
_LEAST_ROOM: Final = 8 * 1024 * 1024
_LINE_ROOM: Final = 16 * 1024
_MOST_ROOM: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class End:
    """The last lines of a log."""

    lines: tuple[bytes, ...]
    """The complete lines, oldest first."""
    half: bytes
    """The text after the last newline."""
    cursor: Cursor
    """Position after the last complete line."""
    short: bool = False
    """Whether there are fewer lines than requested, because no more bytes are read."""


def end_of(source: LogSource, most: int) -> End | None:
    """The last ``most`` lines, from as few bytes as possible, or None if the log is gone. Raises
    :class:`StoreError`."""
    room = min(_MOST_ROOM, _LEAST_ROOM + most * _LINE_ROOM)
    begin, step, body = source.size_bytes, _FIRST_BYTES, b""
    last: Blob | None = None
    while True:
        start = max(0, begin - step)
        blob = source.read(start, begin - start if begin else _FIRST_BYTES)
        if blob is None:
            return None
        last = last or blob
        if len(blob.body) < begin - start and body:
            # The log was rewritten meanwhile, so no more of its old content can be read.
            break
        body, begin, step = blob.body + body, start, min(4 * step, _MOST_AT_ONCE)
        if begin == 0 or body.count(b"\n") > most or len(body) >= room:
            break
    lines = body.split(b"\n")
    half = lines.pop()
    if begin and lines:
        # The first line is incomplete.
        lines = lines[1:]
    ended = len(body) - len(half)
    cursor = Cursor(0, "", last.modified)
    before = body[max(0, ended - REACH_BYTES) : ended]
    at = begin + ended - len(before)
    cursor.move(Blob(before, begin + ended, last.modified, last.version if not half else ""), at, len(before))
    wanted = max(0, most - bool(half))
    kept = lines[len(lines) - wanted :] if wanted < len(lines) else lines
    return End(tuple(kept), half if most else b"", cursor, begin > 0 and len(lines) < wanted)


def chunks(source: LogSource, until: int | None = None) -> Iterator[bytes]:
    """The whole log, or its first ``until`` bytes, in chunks of some megabytes. Raises :class:`StoreError`."""
    at = 0
    while until is None or at < until:
        room = _MOST_AT_ONCE if until is None else min(_MOST_AT_ONCE, until - at)
        blob = source.read(at, room)
        if blob is None or not blob.body:
            return
        at += len(blob.body)
        yield blob.body
        if at >= blob.size_bytes:
            return


class Last:
    """Keeps the last ``most`` lines, but no more than ``room`` characters."""

    def __init__(self, most: int, room: int = _MOST_ROOM) -> None:
        self.lines: deque[str] = deque()
        self._most, self._room, self._taken, self._count = most, room, 0, 0

    def add(self, line: str) -> None:
        """Add a line, and drop the oldest ones that exceed the limits."""
        self.lines.append(line)
        self._taken += len(line)
        self._count += 1
        while len(self.lines) > self._most or self._taken > self._room:
            self._taken -= len(self.lines.popleft())

    @property
    def short(self) -> bool:
        """Whether some of the last ``most`` lines were dropped for lack of room."""
        return len(self.lines) < min(self._most, self._count)


def all_of(source: LogSource, printer: Printer, until: int | None = None) -> Iterator[str]:
    """Every line that matches in ``printer``, in the whole log or its first ``until`` bytes. Raises
    :class:`StoreError`."""
    lines = Lines()
    for chunk in chunks(source, until):
        for line in lines.feed(chunk):
            if (text := printer.text(line)) is not None:
                yield text
    if (rest := lines.end()) and (text := printer.text(rest)) is not None:
        yield text
