"""Lines for people: colours, width on a terminal, and line breaks."""

import os
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, TextIO

Line = tuple[tuple[str, str], ...]
"""Pieces of one line, each a text and the name of its style."""

# Words and signs carry the meaning; colour only helps to find it. Yellow, green and magenta are not bold: on many
# terminals bold makes them bright, and illegible on white.
_CODES: Final = {
    "bad": "1;31", "good": "32", "calm": "32", "heading": "1", "mark": "33", "unknown": "35", "dim": "2",
    "chosen": "7",
}  # fmt: skip
_PIPE_WIDTH = 100
_LEAST_WIDTH = 40


def line(text: str, style: str = "") -> Line:
    """A line of one piece."""
    return ((text, style),)


def width(stream: TextIO | None) -> int:
    """The number of columns of ``stream``; for a pipe or file COLUMNS, else a fixed width."""
    if stream is not None and stream.isatty():
        return max(_LEAST_WIDTH, shutil.get_terminal_size().columns)
    given = os.environ.get("COLUMNS", "")
    return max(_LEAST_WIDTH, min(int(given), 1000)) if given.isdecimal() and len(given) < 6 else _PIPE_WIDTH


def capable(stream: TextIO | None) -> bool:
    """Whether ``stream`` is a terminal that understands ANSI sequences."""
    return stream is not None and stream.isatty() and os.environ.get("TERM", "") not in {"", "dumb"}


def coloured(stream: TextIO | None) -> bool:
    """Whether to write colours to ``stream``: NO_COLOR and FORCE_COLOR outrank what it is (https://no-color.org)."""
    if os.environ.get("NO_COLOR", ""):
        return False
    return os.environ.get("FORCE_COLOR", "") not in {"", "0"} or capable(stream)


def rendered(pieces: Line, *, colours: bool) -> str:
    """``pieces`` as text, with ANSI sequences if ``colours``."""
    if not colours:
        return "".join(text for text, _ in pieces).rstrip()
    return "".join(
        f"\x1b[{_CODES[style]}m{text}\x1b[0m" if style in _CODES and text else text for text, style in pieces
    )


def show(lines: Iterable[Line], mask: Callable[[str], str] = str) -> None:
    """Print ``lines``, each piece of them masked, in colours if stdout shows them."""
    colours = coloured(sys.stdout)
    if sys.stdout is not None:
        masked = (tuple((mask(text), style) for text, style in each) for each in lines)
        sys.stdout.write("".join(rendered(each, colours=colours) + "\n" for each in masked))


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """``rows`` as a table: the cells of a column begin below each other. A column without any text is left out."""
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    placed = [[(text, wide) for text, wide in zip(row, widths, strict=True) if wide] for row in rows]
    return ["  ".join(text + " " * (wide - cells(text)) for text, wide in row).rstrip() for row in placed]


def cells(text: str) -> int:
    """Columns that ``text`` takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(map(_cells_of, text))


def _cells_of(char: str) -> int:
    # Combining accents, joiners, direction marks and emoji variants take no column of their own.
    if unicodedata.category(char) in {"Mn", "Me", "Cf"} and char != "\u00ad":
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def cut(text: str, columns: int) -> str:
    """The start of ``text`` that fits into ``columns``, ending in ``…`` where it was cut."""
    if len(text) <= columns and cells(text) <= columns:
        return text
    kept, used = [], 0
    for char in text:
        used += _cells_of(char)
        if used > columns - 1:
            break
        kept.append(char)
    return "".join(kept).rstrip() + "…"


def folded(text: str, columns: int) -> Iterator[str]:
    """``text`` in parts of at most ``columns``, broken at spaces where there are any in the last third of a part."""
    while cells(text) > columns:
        used, end = 0, 0
        for char in text:
            used += _cells_of(char)
            if used > columns:
                break
            end += 1
        space = text.rfind(" ", columns * 2 // 3, end + 1)
        end = space if space > 0 else max(end, 1)
        yield text[:end].rstrip()
        text = text[end:].lstrip(" ")
    yield text


def sentence(text: str, columns: int, most: int) -> list[str]:
    """``text`` in at most ``most`` lines, broken at spaces; the rest is cut off."""
    parts = list(wrapped(text, columns, ""))
    return [*parts[: most - 1], cut(" ".join(parts[most - 1 :]), columns)] if len(parts) >= most > 0 else parts


def broken(pieces: Line, columns: int, indent: str = "  ") -> Iterator[Line]:
    """One line broken at spaces into as many as it takes, with ``indent`` before all but the first."""
    text = "".join(part for part, _ in pieces)
    if cells(text) <= columns or columns <= len(indent) + 1:
        yield pieces
        return
    styles = [style for part, style in pieces for _ in part]
    at = 0
    for index, row in enumerate(folded(text, columns - len(indent))):
        at = text.index(row, at)
        kept = tuple(zip(row, styles[at:], strict=False))
        at += len(row)
        runs = groupby(kept, key=itemgetter(1))
        joined = tuple(("".join(char for char, _ in run), style) for style, run in runs)
        yield joined if index == 0 else ((indent, ""), *joined)


def wrapped(text: str, columns: int, indent: str = "  ") -> Iterator[str]:
    """A paragraph with ``indent`` before each of its lines; its own line breaks stay."""
    for part in text.splitlines() or [""]:
        for short in _words(part, columns - len(indent)):
            yield (indent + short).rstrip()


def paragraph(text: str, columns: int, indent: str = "  ", style: str = "") -> Iterator[Line]:
    """:func:`wrapped` text as lines of one style."""
    return (line(part, style) for part in wrapped(text, columns, indent))


def _words(text: str, columns: int) -> Iterator[str]:
    used = ""
    for word in text.split():
        joined = f"{used} {word}" if used else word
        if used and cells(joined) > columns:
            yield used
            joined = word
        if cells(joined) > columns:
            *whole, joined = folded(joined, columns)
            yield from whole
        used = joined
    yield used
