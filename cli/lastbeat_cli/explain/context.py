"""The lines around a piece of evidence, read again from its log."""

import re
from collections.abc import Callable, Iterable

from lastbeat.model.cause import Evidence
from lastbeat.model.text import clean

BEFORE = 4
BEFORE_IN_TRACEBACK = 9
"""Three frames, as Python prints them."""
AFTER = 3
LINE_BYTES = 4096
"""More of a line is not shown."""
_BARE = re.compile(r"^(?:\[[a-z]{1,20}\d{1,6}\]: ?|\d{1,5}: )+")


def around(chunks: Iterable[bytes], evidence: Evidence, mask: Callable[[str], str]) -> tuple[tuple[int, str], ...]:
    """The evidence's line, some before it and some after it, each with its number; nothing where it has none.

    The log goes by in chunks and nothing of it is kept but these lines, each cut at :data:`LINE_BYTES`.
    """
    if evidence.line < 1:
        return ()
    first, last = max(1, evidence.line - BEFORE_IN_TRACEBACK), evidence.line + AFTER
    wanted: dict[int, bytes] = {}
    number = 1  # Of the line that the next byte belongs to.
    for chunk in chunks:
        newlines = chunk.count(b"\n")
        if number + newlines >= first:
            at = 0
            # The lines before the first wanted one are stepped over, never split: there may be millions.
            while number < first:
                at = chunk.index(b"\n", at) + 1
                number += 1
            while number <= last:
                end = chunk.find(b"\n", at)
                piece = chunk[at : end if end >= 0 else len(chunk)]
                if piece or end >= 0:  # What stands behind the last newline is no line, unless there is something.
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
        # A line that was overwritten: the evidence may be one of its earlier states, which a terminal no longer shows.
        return clean(evidence.text).rstrip()
    return text
