"""Runs as a table of a given width: columns of less worth are dropped or cut until every line fits."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from lastbeat.model.view import Row
from lastbeat.views.lines.paint import Line, cells
from lastbeat.views.lines.signs import Signs, middle_cut, padded
from lastbeat_cli.fleet.cells import ALWAYS, COLUMNS, ESSENTIAL, VITAL, Cell, Column, Sight

_WIDE: Final = 140
"""Least width, in columns, for whole words and long sparklines."""
_MOST: Final = 400
"""Widest cell, in columns, whatever the terminal."""


def table(
    rows: Sequence[Row],
    columns: int,
    at: datetime | None,
    signs: Signs,
    *,
    whole_ids: bool = False,
    chosen: Sequence[Column] = COLUMNS,
) -> list[Line]:
    """A heading and one line for each of ``rows``, each at most ``columns`` wide.

    With ``whole_ids`` no run id is cut, so lines become wider if an id leaves no room for the necessary columns.
    """
    sight = Sight(at, signs, wide=columns >= _WIDE)
    lines = _table(rows, columns, sight, chosen, whole_ids=whole_ids)
    return [signs.line(each) for each in lines]


def _table(rows: Sequence[Row], columns: int, sight: Sight, chosen: Sequence[Column], *, whole_ids: bool) -> list[Line]:
    filled: list[tuple[Column, list[Cell]]] = []
    for given in chosen:
        column = replace(given, least=None) if given.first and whole_ids else given
        found = [column.cell(row, sight) for row in rows]
        # A column without any value is left out, unless people asked for it.
        if (
            column.asked
            or any(text for text, _ in found)
            or (column.heading and column.worth >= ESSENTIAL and not rows)
        ):
            filled.append((column, found))
    gap = 2 if sight.wide else 1
    widths = _widths([(column, _natural(column, found)) for column, found in filled], columns, gap)
    shown = [(column, found, width) for (column, found), width in zip(filled, widths, strict=True) if width]
    heading = _joined([(padded(c.heading, w, right=c.right), "dim") for c, _, w in shown], gap)
    return [
        heading,
        *(_joined([_fitted(c, found[i], w) for c, found, w in shown], gap) for i in range(len(rows))),
    ]


def _natural(column: Column, found: Sequence[Cell]) -> int:
    return min(max([cells(column.heading), *(cells(text) for text, _ in found)]), _MOST)


def _fitted(column: Column, cell: Cell, width: int) -> Cell:
    text, style = cell
    # Names are cut in the middle, because their ends distinguish them.
    text = middle_cut(text, width) if column.heading == "RUN" else text
    return padded(text, width, right=column.right), style


def _joined(parts: Sequence[Cell], gap: int) -> Line:
    pieces: list[Cell] = []
    for text, style in parts:
        if pieces:
            pieces.append((" " * gap, ""))
        # Space is never coloured.
        bare = text.strip(" ")
        start = text.index(bare) if bare else 0
        pieces += [(text[:start], ""), (bare, style), (text[start + len(bare) :], "")] if bare else [(text, "")]
    while pieces and not pieces[-1][0].strip(" "):
        pieces.pop()
    return tuple(piece for piece in pieces if piece[0])


def _widths(columns: Sequence[tuple[Column, int]], room: int, gap: int) -> list[int]:
    """The width of each column; 0 if there is no room for it."""
    kept = dict(enumerate(columns))
    whole = any(column.first and column.least is None for column, _ in columns)
    while len(kept) > 1 and _needed(kept, gap) > room:
        least = min(kept, key=lambda index: kept[index][0].worth)
        if kept[least][0].worth >= ESSENTIAL and _needed(_cut_short(kept), gap) <= room:
            break
        if kept[least][0].worth >= (ALWAYS if whole else VITAL):
            break
        del kept[least]
    if whole:
        room = max(room, _needed(_cut_short(kept), gap))
    wanted = {index: _usual(column, natural) for index, (column, natural) in kept.items()}
    _give_away(kept, wanted, room - sum(wanted.values()) - gap * (len(kept) - 1))
    return [wanted.get(index, 0) for index in range(len(columns))]


def _needed(kept: dict[int, tuple[Column, int]], gap: int) -> int:
    return sum(_usual(column, natural) for column, natural in kept.values()) + gap * (len(kept) - 1)


def _cut_short(kept: dict[int, tuple[Column, int]]) -> dict[int, tuple[Column, int]]:
    return {
        index: (column, natural)
        if column.least is None or column.first
        else (replace(column, usual=column.least), natural)
        for index, (column, natural) in kept.items()
    }


def _usual(column: Column, natural: int) -> int:
    return natural if column.least is None or column.first else min(natural, column.usual)


def _give_away(kept: dict[int, tuple[Column, int]], wanted: dict[int, int], left: int) -> None:
    """Add ``left`` columns to the cut cells in ``wanted``, or take them away if it is negative, last columns first."""
    flexible = [index for index, (column, _) in kept.items() if column.least is not None]
    if left >= 0:
        # Names first, then the longest text.
        for index in sorted(flexible, key=lambda index: kept[index][1]):
            more = min(left, kept[index][1] - wanted[index])
            wanted[index] += more
            left -= more
        return
    for index in reversed(flexible):
        less = min(-left, wanted[index] - min(wanted[index], kept[index][0].least or 0))
        wanted[index] -= less
        left += less
    # On a very narrow terminal the last columns are cut off.
    for index in reversed(list(kept)):
        less = min(-left, wanted[index])
        wanted[index] -= less
        left += less
