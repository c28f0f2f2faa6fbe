"""Summarizes a program's output as it passes: the last lines, the exception at its end, its progress."""

import re
import threading
from collections import deque
from dataclasses import dataclass, field

from lastbeat.model.progress_lines import Progress
from lastbeat.model.secrets import mask_tokens

TAIL_LINES = 40
TAIL_BYTES = 8 * 1024
_LINE_BYTES = 4 * 1024
_SCAN_BYTES = 16 * 1024
"""Only the end of a burst is read: the latest step and the last lines are there."""

_CONTROL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|[\x00-\x08\x0b-\x1f\x7f]")
_END = re.compile(rb"[\r\n]")
_RANK = re.compile(r"\[(?:rank\s?)?\d{1,6}\]:\s?", re.IGNORECASE)
_ERROR = re.compile(r"[A-Za-z_][\w.]{0,200}(?:Error|Exception|Interrupt|Exit|Warning)\b(?::\s.{0,2000})?")


@dataclass
class _Line:
    text: str


@dataclass
class _Stream:
    part: bytes = b""
    """An unfinished line, truncated."""
    skipping: bool = False
    """Whether the text up to the next line end belongs to a line whose start was not read."""
    redrawn: _Line | None = None
    """The last line if it ended with ``\\r``: the next one overwrites it."""
    in_trace: bool = False


@dataclass
class OutputSummary:
    """Both streams of one program, in order of arrival. Bounded, and safe to use from two threads."""

    progress: Progress = field(default_factory=Progress)
    _lines: deque[_Line] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))
    _streams: dict[int, _Stream] = field(default_factory=dict)
    _count: int = 0
    _bytes: int = 0
    _error: tuple[str, int] | None = None
    """The exception at the end of the last traceback, and the number of its line."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, stream: int, chunk: bytes) -> bool:
        """Read ``chunk`` of ``stream``. Returns whether it reported progress. Linear in its size, and bounded."""
        with self._lock:
            self._bytes += len(chunk)
            state = self._streams.setdefault(stream, _Stream())
            if len(chunk) > _SCAN_BYTES:
                chunk, state.part, state.skipping = chunk[-_SCAN_BYTES:], b"", True
            progressed, start = False, 0
            for end in _END.finditer(chunk):
                piece = state.part + chunk[start : end.start()]
                start, state.part = end.end(), b""
                if state.skipping:
                    state.skipping = False
                    continue
                progressed |= self._line(state, _text(piece), redrawn=end[0] == b"\r")
            if not state.skipping:
                state.part = (state.part + chunk[start:])[:_LINE_BYTES]
            return progressed

    def _line(self, state: _Stream, text: str, *, redrawn: bool) -> bool:
        over, state.redrawn = state.redrawn, None
        if not text.strip():
            # The \n of a \r\n, or the \r before a progress bar.
            state.redrawn = over if redrawn else None
            return False
        if over is not None:
            over.text = text
            line = over
        else:
            line = _Line(text)
            self._lines.append(line)
            self._count += 1
        if redrawn:
            state.redrawn = line
        self._trace(state, text)
        return self.progress.read(text)

    def _trace(self, state: _Stream, text: str) -> None:
        # Where the script was edited since it started, Python's marks under a frame stand at the margin.
        plain = _RANK.sub("", text, count=1) if text.startswith("[") else text
        if plain.startswith("Traceback (most recent call last)"):
            state.in_trace = True
        elif state.in_trace and not plain[0].isspace() and plain.strip("^~ "):
            state.in_trace = False
            self._error = (plain, self._count)

    def count(self) -> int:
        """Number of bytes printed so far."""
        with self._lock:
            return self._bytes

    @property
    def tail(self) -> str:
        """The last lines, oldest first, secrets masked: at most ``TAIL_LINES`` and about ``TAIL_BYTES``."""
        with self._lock:
            texts = [line.text for line in self._lines]
            texts += [text for state in self._streams.values() if (text := _text(state.part)).strip()]
        kept = mask_tokens("\n".join(texts[-TAIL_LINES:])).encode("utf-8", "replace")
        if len(kept) > TAIL_BYTES:
            kept = b"\xe2\x80\xa6" + kept[-TAIL_BYTES:]
        return kept.decode("utf-8", "ignore")

    @property
    def error(self) -> str | None:
        """The exception that the output ends with, as the last line of its traceback; None if there is none."""
        with self._lock:
            recent = self._error is not None and self._count - self._error[1] < TAIL_LINES
            error = self._error[0] if self._error is not None and recent else None
        if error is None:
            last = self.tail.rpartition("\n")[2]
            found = _ERROR.fullmatch(_RANK.sub("", last, count=1))
            error = found[0] if found is not None else None
        return mask_tokens(error)[:_LINE_BYTES] if error is not None else None


def _text(line: bytes) -> str:
    text = line[:_LINE_BYTES].decode("utf-8", "replace")
    return _CONTROL.sub("", text).rstrip()
