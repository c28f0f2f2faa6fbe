"""The last part of a log as it may leave the machine: whole lines, progress bars folded, secrets masked."""

from collections import deque

from lastbeat.model.secrets import mask_tokens

LIMIT_BYTES = 256 * 1024
_LINE_LIMIT_CHARS = 16 * 1024
_SHOWN_LIMIT_CHARS = 8 * 1024
_LONGEST_SECRET_CHARS = 4096


class Window:
    """Fed with text as it comes, holds at most ``LIMIT_BYTES`` of UTF-8: the newest whole lines.

    Each line is masked once, as it ends, because masking holds the interpreter that training needs, too.
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._open = ""
        """What came after the last newline."""
        self._open_before = ""
        self._cut = False

    def skip(self) -> None:
        """Something is missing before the next text: it may begin in the middle of a secret, so that line goes."""
        self._open, self._cut = "", True

    def break_line(self) -> None:
        """What comes now is another file's."""
        if self._open and not self._cut:
            self._add(self._open)
        self._open, self._cut = "", False

    def feed(self, text: str) -> None:
        """More of the log."""
        if self._cut and text:
            self._cut = False
            _, newline, after = text.partition("\n")
            text = after if newline else text[_LONGEST_SECRET_CHARS:]
        *ended, rest = text.split("\n")
        for line in ended:
            self._add(_bounded(self._open + line))
            self._open = ""
        self._open = _bounded(self._open + rest)

    def _add(self, line: str) -> None:
        self._lines.append(_safe(line) + b"\n")
        self._size += len(self._lines[-1])
        while self._size > self._limit:
            self._size -= len(self._lines.popleft())

    def shown(self, *, ending: bool = False) -> bytes:
        """The window now. A line that has not ended is shown if it has not grown since the last time, or at the end:
        any other may be cut in the middle of a secret. Of a progress bar the state before is shown."""
        line, before = self._open, self._open_before
        self._open_before = line
        if not ending and line != before:
            line = line.rpartition("\r")[0]
        tail = _safe(line) if line else b""
        size = self._size + len(tail)
        lines = list(self._lines)
        start = 0
        while size > self._limit and start < len(lines):
            size -= len(lines[start])
            start += 1
        return b"".join((*lines[start:], tail))


def _bounded(line: str) -> str:
    """An unfinished line no longer than may be, with the last two states of a progress bar."""
    if "\r" not in line:
        return line[:_LINE_LIMIT_CHARS]
    before, _, now = line.rpartition("\r")
    return _folded(before)[:_LINE_LIMIT_CHARS] + "\r" + now[:_LINE_LIMIT_CHARS]


def _folded(line: str) -> str:
    """What a terminal shows of it."""
    return line.rstrip("\r").rpartition("\r")[2]


def _safe(line: str) -> bytes:
    masked = mask_tokens(_folded(line))
    if len(masked) > _SHOWN_LIMIT_CHARS:
        masked = masked[:_SHOWN_LIMIT_CHARS] + "…"
    return masked.encode("utf-8", "replace")
