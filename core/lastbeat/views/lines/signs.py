"""The characters of pictures in a terminal, their substitutes without UTF-8, and the ranges of their axes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TextIO

from lastbeat.model.status import Status
from lastbeat.model.text import one_line
from lastbeat.model.view import Row
from lastbeat.settings.own_log import masked
from lastbeat.views.lines.paint import Line, cells, cut

WARNING = "WARNING"
_ENOUGH = 6
_LEAST_ENDS = 5
_PLAIN = str.maketrans("…·—→│└─┤≥↑↓\u00d7", "~-->|+-+>^vx")
_BEYOND: Final = 3.0
"""Values beyond this multiple of the span of the lower nine tenths are outliers."""


@dataclass(frozen=True, slots=True)
class Signs:
    """One set of characters. Each takes one column."""

    statuses: dict[str, str]
    levels: str
    """Blocks of a sparkline from low to high."""
    gap: str
    """Stands for a missing or non-finite value."""
    full: str
    empty: str
    pointer: str
    encoding: str | None
    """Encoding that every text must fit; None for no limit."""

    @property
    def plain(self) -> bool:
        """Whether pictures are drawn with ASCII only."""
        return self.encoding is not None

    def of(self, word_of_status: str) -> str:
        """The sign of a status. A status of a newer lastbeat has the sign of UNKNOWN."""
        return self.statuses.get(word_of_status, self.statuses["UNKNOWN"])

    def fitting(self, text: str) -> str:
        """``text`` with characters that the terminal cannot show replaced by others of the same width."""
        if self.encoding is None or text.isascii():
            return text
        known = text.translate(_PLAIN)
        return "".join(_shown(char, self.encoding) for char in known)

    def line(self, pieces: Line) -> Line:
        """``pieces`` with every text fitted to the terminal."""
        return tuple((self.fitting(text), style) for text, style in pieces) if self.plain else pieces


UTF8 = Signs(
    statuses={
        "RUNNING": "●", WARNING: "▲", "FAILED": "✖", "TIMED_OUT": "◷", "SUCCEEDED": "✔", "CANCELLED": "■",
        "PREEMPTED": "⏏", "UNKNOWN": "?",
    },
    levels="▁▂▃▄▅▆▇█", gap="·", full="█", empty="░", pointer="▸", encoding=None,
)  # fmt: skip


def ascii_only(encoding: str = "ascii") -> Signs:
    """The signs for a terminal of another ``encoding``."""
    return Signs(
        statuses={
            "RUNNING": "*", WARNING: "!", "FAILED": "X", "TIMED_OUT": "T", "SUCCEEDED": "+", "CANCELLED": "C",
            "PREEMPTED": "P", "UNKNOWN": "?",
        },
        levels="_.-=+*#@", gap=" ", full="#", empty=".", pointer=">", encoding=encoding,
    )  # fmt: skip


def of(stream: TextIO | None) -> Signs:
    """The signs that ``stream`` can show."""
    encoding = getattr(stream, "encoding", None) or "ascii"
    return UTF8 if encoding.lower().replace("-", "").replace("_", "") in {"utf8", "cp65001"} else ascii_only(encoding)


def _shown(char: str, encoding: str) -> str:
    try:
        char.encode(encoding)
    except UnicodeError:
        return "?" * cells(char)
    return char


def word(row: Row) -> str:
    """The status of ``row`` in one word; WARNING for RUNNING with conditions."""
    return WARNING if row.status is Status.RUNNING and row.conditions else str(row.status)


def style(word_of_status: str) -> str:
    """The name of the style of a status."""
    return {"FAILED": "bad", "TIMED_OUT": "bad", WARNING: "mark", "UNKNOWN": "unknown"}.get(word_of_status, "calm")


def spark(values: Sequence[float | None], columns: int, signs: Signs, floor: float | None = None) -> str:
    """``values`` as blocks from their minimum, or ``floor``, to their maximum, oldest first.

    If there are more values than columns, each block is the mean of several neighbours.
    """
    means = _means(values, columns)
    known = [value for value in means if value is not None]
    if not known:
        return ""
    low, high, _ = usual(known, least_count=_ENOUGH)
    low = min(low, floor) if floor is not None else low
    return "".join(_block(value, low, high, signs) for value in means)


def _means(values: Sequence[float | None], columns: int) -> list[float | None]:
    parts = min(len(values), max(columns, 0))
    found: list[float | None] = []
    for part in range(parts):
        near = values[part * len(values) // parts : (part + 1) * len(values) // parts]
        known = [value for value in near if value is not None and math.isfinite(value)]
        # Divided first, because the sum of two huge numbers may be infinite.
        found.append(sum(value / len(known) for value in known) if known else None)
    return found


def _block(value: float | None, low: float, high: float, signs: Signs) -> str:
    if value is None:
        return signs.gap
    place = int(share(value, low, high) * len(signs.levels))
    return signs.levels[min(place, len(signs.levels) - 1)]


def bar(step: int, total: int, columns: int, signs: Signs) -> str:
    """A bar of a run's progress; full only when the run is done."""
    done = max(0, min(step * columns // total, columns)) if total > 0 else 0
    return signs.full * done + signs.empty * (columns - done)


def padded(text: str, columns: int, *, right: bool = False) -> str:
    """``text`` in exactly ``columns``: padded, or cut."""
    short = cut(text, columns) if columns > 0 else ""
    space = " " * (columns - cells(short))
    return space + short if right else short + space


def middle_cut(text: str, columns: int) -> str:
    """``text``, cut in the middle if it is too long: names differ at their ends."""
    if cells(text) <= columns:
        return text
    if columns < _LEAST_ENDS:
        return padded(text, columns).rstrip()
    tail = columns * 2 // 5
    end = text[-tail:]
    while cells(end) > tail:
        end = end[1:]
    return cut(text, columns - cells(end)).removesuffix("…") + "…" + end


def line_cut(pieces: Line, columns: int) -> Line:
    """``pieces`` cut to ``columns``."""
    if sum(cells(text) for text, _ in pieces) <= columns:
        return pieces
    kept: list[tuple[str, str]] = []
    left = columns
    for text, style in pieces:
        if left <= 0:
            break
        kept.append((cut(text, left), style))
        left -= cells(kept[-1][0])
    return tuple(kept)


def harmless(text: str, most: int = 1000) -> str:
    """Text from training on one line, without terminal escapes and secrets."""
    return masked(one_line(text[: most * 4]))[:most]


def name(text: str, most: int = 200) -> str:
    """A name on one line. It is not masked, because people have to type it."""
    return one_line(text[: most * 4])[:most]


def usual(values: Sequence[float], *, least_count: int) -> tuple[float, float, bool]:
    """The lower and upper end of the axis for finite ``values``, and whether some values lie above.

    Fewer than ``least_count`` values are all shown.
    """
    ordered = sorted(values)
    low, most = ordered[0], ordered[-1]
    common = ordered[(len(ordered) - 1) * 9 // 10]
    # Computed with halves, because the difference of two huge numbers may be infinite.
    if len(ordered) >= least_count and common > low and most / 2 - low / 2 > _BEYOND * (common / 2 - low / 2):
        return low, low + (common - low) * _BEYOND / 2, True
    return low, most, False


def share(value: float, low: float, high: float) -> float:
    """The position of ``value`` between ``low`` and ``high``, from 0 to 1; 0.5 if they are equal."""
    span = high / 2 - low / 2
    return max(0.0, min((value / 2 - low / 2) / span, 1.0)) if span > 0 else 0.5
