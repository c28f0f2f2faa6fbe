"""The lines around a piece of evidence, read again from its log."""

import re
from collections.abc import Callable, Iterable

from lastbeat.model.cause import Evidence
from lastbeat.model.text import clean

BEFORE = 4
"""Number of lines shown before the evidence."""
BEFORE_IN_TRACEBACK = 9
"""Most lines shown before the evidence of a traceback: three frames, as Python prints them."""
AFTER = 3
"""Number of lines shown after the evidence."""
LINE_BYTES = 4096
"""Longer lines are cut to this many bytes."""
_BARE = re.compile(r"^(?:\[[a-z]{1,20}\d{1,6}\]: ?|\d{1,5}: )+")


def around(chunks: Iterable[bytes], evidence: Evidence, mask: Callable[[str], str]) -> tuple[tuple[int, str], ...]:
    """The evidence's line with the lines around it, each with its number; empty if the evidence has no line number.

    Only these lines of ``chunks`` are kept in memory, each cut at :data:`LINE_BYTES`.
    """
    if evidence.line < 1:
        return ()
    first, last = max(1, evidence.line - BEFORE_IN_TRACEBACK), evidence.line + AFTER
    wanted: dict[int, bytes] = {}
    number = 1  # The line that the next byte belongs to.
    for chunk in chunks:
        newlines = chunk.count(b"\n")
        if number + newlines >= first:
            at = 0
            # Lines before the first wanted one are skipped without splitting: there may be millions.
            while number < first:
                at = chunk.index(b"\n", at) + 1
                number += 1
            while number <= last:
                end = chunk.find(b"\n", at)
                piece = chunk[at : end if end >= 0 else len(chunk)]
                if piece or end >= 0:  # An empty piece behind the last newline is not a line.
                    so_far = wanted.get(number, b"")
                    wanted[number] = so_far + piece[: max(0, LINE_BYTES - len(so_far))]
                if end < 0:
                    break
                at, number = end + 1, number + 1
            if number > last:
                break
        else:
            number += newlines
    shown = {line: mask(_shown(data, line, evidence)) for line, data in wanted.items()}
    start = evidence.line - BEFORE
    if _BARE.sub("", shown.get(evidence.line - 1, "")).startswith("    "):
        began = [line for line, text in shown.items() if _BARE.sub("", text).startswith("Traceback (")]
        start = max([line for line in began if line < evidence.line], default=0)
    return tuple((line, text) for line, text in shown.items() if line >= start)


def _shown(data: bytes, number: int, evidence: Evidence) -> str:
    text = clean(data.decode("utf-8", "replace")).rstrip()
    if number == evidence.line and b"\r" in data.rstrip(b"\r"):
        # The line was overwritten with carriage returns, and the evidence may be one of its earlier states.
        return clean(evidence.text).rstrip()
    return text
