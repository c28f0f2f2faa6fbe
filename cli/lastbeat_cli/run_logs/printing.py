"""Lines of logs on stdout: harmless on a terminal, without secrets, and only those that are looked for."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lastbeat.model.secrets import mask_tokens
from lastbeat.model.text import CUT, clean
from lastbeat_cli import logs
from lastbeat_cli.document import dump
from lastbeat_cli.terminal import paint

if TYPE_CHECKING:
    import re

LINE_BYTES: Final = 400_000
"""More of a line is not kept."""
ON_A_TERMINAL: Final = 4000
IN_A_PIPE: Final = 100_000
_PLAIN: Final = bytes(range(0x20, 0x7F))
_WINDOW: Final = 2000
"""A pattern is searched in so many characters at once: for that it is known to be quick enough."""
_STEP: Final = 1400
_WINDOWS: Final = 80
_MATCHES: Final = 100


@dataclass(frozen=True, slots=True)
class Grep:
    """What is looked for in a line."""

    pattern: "re.Pattern[str]"

    def matches(self, text: str) -> bool:
        """Whether ``text`` has it; of a very long line the beginning is searched."""
        return next(self.spans(text), None) is not None

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where in ``text`` it stands: from … to."""
        begin, found = 0, 0
        for number in range(_WINDOWS):
            start = number * _STEP
            if start and start + _WINDOW - _STEP >= len(text):
                return
            while (match := self.pattern.search(text, max(start, begin), start + _WINDOW)) is not None:
                yield match.span()
                # An empty match would be found for ever.
                begin, found = max(match.end(), begin + 1), found + 1
                if found >= _MATCHES or begin > len(text):
                    return


class Printer:
    """Prints lines of one log or of several; of several each with its file's name in front."""

    def __init__(self, *, as_json: bool = False, grep: Grep | None = None, named: bool = False) -> None:
        self.named = named
        self.grep = grep
        self._as_json = as_json
        self._colours = paint.coloured(sys.stdout)
        self._limit = ON_A_TERMINAL if paint.capable(sys.stdout) else IN_A_PIPE

    def text(self, data: bytes) -> str | None:
        """``data``, one line of a log, as it is shown; None where it is none of those that are looked for."""
        if data.translate(None, _PLAIN):
            text = clean(data.decode("utf-8", "replace")).replace("\n", " ")
        else:
            # Nearly every line: there is nothing in it to be cleaned, and finding that out so is quicker.
            text = data.decode("ascii")
        text = mask_tokens(logs.redact(text)).rstrip()
        return text if self.grep is None or self.grep.matches(text) else None

    def show(self, file: str, text: str) -> None:
        """Print a line of :meth:`text` that ``file`` has."""
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
        """Let those see it who wait for it."""
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
    """A log's name as people call it, and give it to ``--file``."""
    return clean(file.removeprefix("logs/")).replace("\n", " ")


def note(text: str) -> None:
    """Say something that is no line of a log, on stderr."""
    if sys.stderr is not None:
        print(mask_tokens(logs.redact(f"lastbeat: {clean(text)}")), file=sys.stderr, flush=True)


class Lines:
    """Bytes as they come, told apart into lines by newlines alone."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Every line that ends in ``data``, without its newline."""
        whole, newline, rest = data.rpartition(b"\n")
        if not newline:
            self._rest = (self._rest + rest)[:LINE_BYTES]
            return
        first, *others = whole.split(b"\n")
        yield (self._rest + first)[:LINE_BYTES]
        yield from (other[:LINE_BYTES] for other in others)
        self._rest = rest[:LINE_BYTES]

    def end(self) -> bytes:
        """The last line, which has no newline; empty where there is none."""
        rest, self._rest = self._rest, b""
        return rest
