"""A fleet as one plain table, for a pipe or a mail, with reason and advice below each run that needs attention."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from lastbeat.model.view import FleetView, Row
from lastbeat.views.order import NEEDS_PEOPLE, need
from lastbeat_cli.fleet import cells, head
from lastbeat_cli.fleet.table import table
from lastbeat_cli.terminal.paint import Line, line, rendered, sentence
from lastbeat_cli.terminal.signs import Signs, harmless

MOST_TOLD: Final = 25
"""Most runs shown with reason and advice."""
_INDENT: Final = "    "
_LINES: Final = 2
_MOST: Final = 5
"""Most lines of a sentence above or below the table."""


def lines(view: FleetView, rows: Sequence[Row], columns: int, signs_of: Signs) -> list[Line]:
    """``rows`` of ``view`` as a table, with the lines above and below it."""
    body: list[Line] = []
    if rows:
        body = [line(""), *_table(view, rows, columns, signs_of)]
    elif text := head.none(view):
        body = [line(""), *(line(part, "dim") for part in sentence(text, columns, _MOST))]
    return [
        *head.head(view, view.at, columns, signs_of, _MOST),
        *body,
        *head.notes(view, columns, signs_of, _MOST),
    ]


def _table(view: FleetView, rows: Sequence[Row], columns: int, signs_of: Signs) -> Iterator[Line]:
    heading, *shown = table(rows, columns, view.at, signs_of, whole_ids=True)
    yield heading
    told = 0
    for row, each in zip(rows, shown, strict=True):
        yield each
        if need(row, view.at) > NEEDS_PEOPLE:
            continue
        told += 1
        if told <= MOST_TOLD:
            yield from map(signs_of.line, _why(row, view.at, rendered(each, colours=False), columns))
    if told > MOST_TOLD:
        text = f"Why, and what to do, is shown for the first {MOST_TOLD} of {told:,} that need people; "
        yield from (
            line(part, "dim") for part in sentence(f"{text}lastbeat show RUN tells it of any.", columns, _LINES)
        )


def _why(row: Row, at: datetime | None, shown: str, columns: int) -> Iterator[Line]:
    """Reason and advice, unless the run's line in the table shows them already."""
    room = columns - len(_INDENT)
    why = cells.reason(row, at)
    if why and why not in shown:
        yield from (line(_INDENT + part) for part in sentence(why, room, _LINES))
    if row.action:
        yield from (line(_INDENT + part) for part in sentence(f"→ {harmless(row.action)}", room, _LINES))
