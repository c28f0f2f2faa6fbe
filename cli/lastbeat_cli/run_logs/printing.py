"""Prints lines of logs to stdout: without terminal escapes and secrets, and only those that match."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lastbeat.model.text import CUT, clean
from lastbeat.views.lines import paint
from lastbeat_cli import logs
from lastbeat_cli.document import dump

if TYPE_CHECKING:
    import re

LINE_BYTES: Final = 400_000
"""Longer lines are cut to this many bytes."""
ON_A_TERMINAL: Final = 4000
"""Most characters of a line shown on a terminal."""
IN_A_PIPE: Final = 100_000
"""Most characters of a line written to a pipe."""
_PLAIN: Final = bytes(range(0x20, 0x7F))
_WINDOW: Final = 2000
"""A pattern is searched in windows of this many characters: patterns are checked to be fast enough for that."""
_STEP: Final = 1400
_WINDOWS: Final = 80
_MATCHES: Final = 100


@dataclass(frozen=True, slots=True)
class Grep:
    """The pattern that lines must match."""

    pattern: "re.Pattern[str]"

    def matches(self, text: str) -> bool:
        """Whether ``text`` matches. Only the beginning of a very long line is searched."""
        return next(self.spans(text), None) is not None

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Start and end of each match in ``text``."""
        begin, found = 0, 0
        for number in range(_WINDOWS):
            start = number * _STEP
            if start and start + _WINDOW - _STEP >= len(text):
                return
            while (match := self.pattern.search(text, max(start, begin), start + _WINDOW)) is not None:
                yield match.span()
                # After an empty match move on by one, or it would be found forever.
                begin, found = max(match.end(), begin + 1), found + 1
                if found >= _MATCHES or begin > len(text):
                    return


class Printer:
    """Prints lines of one or several logs. With ``named`` each line begins with its file's name."""

    def __init__(self, *, as_json: bool = False, grep: Grep | None = None, named: bool = False) -> None:
        self.named = named
        self.grep = grep
        self._as_json = as_json
        self._colours = paint.coloured(sys.stdout)
        self._limit = ON_A_TERMINAL if paint.capable(sys.stdout) else IN_A_PIPE

    def text(self, data: bytes) -> str | None:
        """One line of a log as it is shown, or None if it does not match."""
        if data.translate(None, _PLAIN):
            text = clean(data.decode("utf-8", "replace")).replace("\n", " ")
        else:
            # Nearly every line is plain ASCII, needs no cleaning, and takes this faster path.
            text = data.decode("ascii")
        text = logs.masked(text).rstrip()
        return text if self.grep is None or self.grep.matches(text) else None

    def show(self, file: str, text: str) -> None:
        """Print ``text``, a line of ``file`` from :meth:`text`."""
        if sys.stdout is None:
            return
        short = text if len(text) <= self._limit else text[: self._limit] + CUT
        if self._as_json:
            sys.stdout.write(dump({"file": file, "text": short}) + "\n")
            return
        start = f"{short_name(file)} | " if self.named else ""
        if self._colours:
            start = f"\x1b[2m{start}\x1b[0m" if start else ""
            short = self._marked(short)
        sys.stdout.write(f"{start}{short}\n")

    def flush(self) -> None:
        """Flush stdout, so that a reader sees the lines."""
        if sys.stdout is not None:
            sys.stdout.flush()

    def _marked(self, text: str) -> str:
        if self.grep is None:
            return text
        pieces, at = [], 0
        for start, end in self.grep.spans(text):
            if start >= at and end > start:
                pieces += [text[at:start], f"\x1b[1;31m{text[start:end]}\x1b[0m"]
                at = end
        return "".join(pieces) + text[at:]


def short_name(file: str) -> str:
    """A log's short name, as shown and as ``--file`` takes it."""
    return clean(file.removeprefix("logs/")).replace("\n", " ")


def note(text: str) -> None:
    """Print a message about the logs to stderr."""
    if sys.stderr is not None:
        print(logs.masked(f"lastbeat: {clean(text)}"), file=sys.stderr, flush=True)


class Lines:
    """Splits a stream of bytes into lines at newlines."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Every line completed by ``data``, without its newline."""
        whole, newline, rest = data.rpartition(b"\n")
        if not newline:
            self._rest = (self._rest + rest)[:LINE_BYTES]
            return
        first, *others = whole.split(b"\n")
        yield (self._rest + first)[:LINE_BYTES]
        yield from (other[:LINE_BYTES] for other in others)
        self._rest = rest[:LINE_BYTES]

    def end(self) -> bytes:
        """The rest without a newline; may be empty."""
        rest, self._rest = self._rest, b""
        return rest
