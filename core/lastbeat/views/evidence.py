"""The line that shows a cause, found again in its log, with the lines around it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from lastbeat.model.cause import NO_FILES, Evidence
from lastbeat.model.text import one_line
from lastbeat.model.view import Excerpt
from lastbeat.stores.port import Entry, Store, StoreError
from lastbeat.views.excerpts import split
from lastbeat.views.safe import Safe

BEFORE: Final = 8
AFTER: Final = 8
BEFORE_IN_TRACEBACK: Final = 32
WINDOW_BYTES: Final = 1024 * 1024
"""Bytes of a log that are read at once: its start, its end, and about where the line should be."""
_TRIES: Final = 500
_AGAIN: Final = timedelta(minutes=5)
_WORD = re.compile(r"[A-Za-z0-9_]{3,}")
_INDENTED = re.compile(rb"(?:\[[a-z]{1,20}\d{1,6}\]: ?|\d{1,5}: )?[ \t]{2,}\S")
_BEGINS = b"Traceback (most recent call last)"


@dataclass(frozen=True, slots=True)
class LineWindow:
    """Some lines of a file."""

    lines: list[bytes]
    first: int | None
    """Number of the first of them, where it is known."""


@dataclass
class EvidenceReader:
    """Finds one run's evidence, and reads for it again only when more of what follows it may be there."""

    store: Store
    safe: Safe
    _evidence: Evidence | None = None
    _entry: Entry | None = None
    _excerpt: Excerpt | None = None
    _complete: bool = False
    _read_at: datetime | None = None

    def look(self, evidence: Evidence, entry: Entry | None, at: datetime) -> Excerpt:
        """The evidence in its context; alone, with a note, where that cannot be had. ``entry`` is its file as it was
        just listed at ``at``, the store's time. Never raises for the store."""
        if evidence.file in NO_FILES:
            return alone(evidence, self.safe, "")
        if evidence != self._evidence:
            self._evidence, self._entry, self._excerpt, self._complete, self._read_at = (
                evidence,
                None,
                None,
                False,
                None,
            )
        if self._excerpt is not None and (self._complete or entry == self._entry):
            return self._excerpt
        if self._excerpt is not None and self._read_at is not None and at - self._read_at < _AGAIN:
            # It was not found, or the log goes on right behind it: that is worth a look now and then.
            return self._excerpt
        if entry is None:
            return self._excerpt or alone(evidence, self.safe, "the file is not in the run's folder (any more)")
        try:
            found = self._find(evidence, entry)
        except StoreError as fault:
            known = self._excerpt or alone(evidence, self.safe, "")
            return replace(known, note=f"the lines around it could not be read: {self.safe.name(str(fault))}")
        self._entry, self._read_at = entry, at
        if found is None:
            self._excerpt = alone(evidence, self.safe, "the line was not found in the file as it is now", entry)
        else:
            self._excerpt, self._complete = found, len(found.lines) - (found.marked or 0) > AFTER
        return self._excerpt

    def _find(self, evidence: Evidence, entry: Entry) -> Excerpt | None:
        for window in self._windows(evidence, entry):
            index = place(window, evidence, self.safe)
            if index is not None:
                return excerpt(evidence.file, window, index, entry, self.safe)
        return None

    def _windows(self, evidence: Evidence, entry: Entry) -> Iterator[LineWindow]:
        """Where the line may be, the likeliest first; each is read when it is asked for."""
        size = entry.size_bytes
        head = self.store.read(entry.key, WINDOW_BYTES)
        if head is None:
            return
        whole = len(head.body) >= head.size_bytes
        lines = split(head.body, cut_at_start=False)
        if not whole and lines:
            lines = lines[:-1]
        if whole or evidence.line <= len(lines):
            yield LineWindow(lines, 1)
        if whole:
            return
        tail = self.store.read(entry.key, WINDOW_BYTES, from_end=True)
        if tail is not None:
            yield LineWindow(split(tail.body, cut_at_start=True), None)
        if evidence.line > len(lines) > 0:
            # Lines are about as long everywhere.
            about = evidence.line * len(head.body) // len(lines) - WINDOW_BYTES // 2
            if WINDOW_BYTES // 2 < about < size:
                middle = self.store.read(entry.key, WINDOW_BYTES, start=about)
                if middle is not None and middle.body:
                    yield LineWindow(split(middle.body, cut_at_start=True), None)
        yield LineWindow(lines, 1)


def place(window: LineWindow, evidence: Evidence, safe: Safe) -> int | None:
    """Index of the evidence's line in ``window``: by its number where that line says the same, else the last that
    does."""
    wanted = _bare(evidence.text)
    if not wanted:
        return None
    index = -1 if window.first is None else evidence.line - window.first
    if 0 <= index < len(window.lines) and _says(window.lines[index], wanted, safe):
        return index
    words = _WORD.findall(wanted)
    # Most lines do not hold its longest word, and finding that out is cheap.
    word = max(words, key=len).encode() if words else b""
    holding = (index for index in range(len(window.lines) - 1, -1, -1) if word in window.lines[index])
    for tried, index in enumerate(holding):
        if tried >= _TRIES:
            break
        if _says(window.lines[index], wanted, safe):
            return index
    return None


def _says(line: bytes, wanted: str, safe: Safe) -> bool:
    text = line.decode("utf-8", "replace")
    # A line that was redrawn may have shown it in an earlier state.
    return any(wanted in _bare(safe.text(state)) for state in (text, text.replace("\r", " ")))


def _bare(text: str) -> str:
    return one_line(text).removesuffix("…").rstrip()


def excerpt(file: str, window: LineWindow, index: int, entry: Entry, safe: Safe) -> Excerpt:
    """Line ``index`` of ``window`` with some before it, a traceback whole, and some after it."""
    lines = window.lines
    start = max(0, index - BEFORE)
    if index and _INDENTED.match(lines[index - 1]):
        far = max(0, index - BEFORE_IN_TRACEBACK)
        start = next((each for each in range(index - 1, far - 1, -1) if _BEGINS in lines[each]), start)
    kept = lines[start : index + AFTER + 1]
    first = None if window.first is None else window.first + start
    return Excerpt(safe.name(file), safe.lines(kept), first, index - start, entry.modified, entry.size_bytes)


def alone(evidence: Evidence, safe: Safe, note: str, entry: Entry | None = None) -> Excerpt:
    """The evidence without its context, as it is known."""
    return Excerpt(
        safe.name(evidence.file),
        (safe.line(evidence.text),),
        evidence.line or None,
        0,
        None if entry is None else entry.modified,
        None if entry is None else entry.size_bytes,
        note or None,
    )
