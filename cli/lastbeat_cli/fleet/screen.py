"""The live table of a fleet, and the effect of each key on it. Independent of terminal and store."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final

from lastbeat.model.view import FleetView, Row
from lastbeat.views.order import STANDS_STILL
from lastbeat_cli.fleet import cells as fleet_cells
from lastbeat_cli.fleet import head as fleet_head
from lastbeat_cli.fleet.table import table
from lastbeat_cli.terminal import scrolled, signs
from lastbeat_cli.terminal.keys import PASTED
from lastbeat_cli.terminal.paint import Line, cells, cut, line, sentence
from lastbeat_cli.terminal.signs import Signs, harmless

Select = Callable[[Sequence[Row], Sequence[str], str], Sequence[Row]]
"""Rows, statuses (empty for all) and a text → the matching rows, in the same order."""

_NEED: Final = ("FAILED", "TIMED_OUT", "WARNING", "UNKNOWN")
FILTERS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("all", ()),
    ("who needs people", (*_NEED, STANDS_STILL)),
    ("RUNNING", ("RUNNING",)),
    *((name, (name,)) for name in (*_NEED, "NO_HEARTBEAT", "SUCCEEDED", "CANCELLED", "PREEMPTED")),
)
_LONGEST: Final = 200
_DETAIL_LINES: Final = 2
_MOST_DETAIL: Final = 8
_ROOM_FOR_DETAIL: Final = 14
HELP: Final = (
    "q              quit; Ctrl-C does, too",
    "↑ ↓  j k       up and down; PageUp, PageDown, Home, End, g and G too",
    "Enter          all about the run, t its curves; q or Escape comes back",
    "/, or paste    filter by text: run, status, phase, host, why; Escape ends it",
    "s              which statuses are shown: all, who needs people, one alone",
    "Ctrl-L         redraw the screen",
    "Ctrl-Z         back to the shell; fg comes back here",
    "?              this help",
    "",
    "Runs that need people come first. STATUS is as the last pass recorded it;",
    "RUNNING? is silent for longer than the limit, and no pass has judged that.",
    "BEAT is the age of the last heartbeat, AGE that of the step from 5 minutes on.",
    "This screen is read-only: lastbeat sweep and lastbeat watch send alerts.",
)


class FleetScreen:
    """The table as a screen. ``select`` filters rows; ``statuses`` from the command line restrict all filters."""

    def __init__(self, select: Select, signs_of: Signs, statuses: Sequence[str] = ()) -> None:
        self.chosen: str | None = None
        """The selected run; None for the first one."""
        self._select, self._signs = select, signs_of
        self._filters = (("as asked for", tuple(statuses)), *FILTERS[1:]) if statuses else FILTERS
        self._filter = 0
        self._text = ""
        self._typing = False
        self._help = False
        self._window = scrolled.Viewport()
        self._rows: Sequence[Row] = ()
        self._height = 1
        self._place = 0
        self._known: tuple[object, ...] = ()

    @property
    def in_sight(self) -> list[str]:
        """The runs on the screen."""
        start, end = self._window.of(self._rows, self._height)
        return [row.run_id for row in self._rows[start:end]]

    def press(self, key: str) -> str | None:
        """Handle ``key``. Returns ``quit`` or ``open`` for the caller, else None."""
        if key.startswith(PASTED):
            self._paste(key.removeprefix(PASTED).strip())
        elif self._typing:
            self._type(key)
        elif self._help:
            self._help = False
        elif key in {"q", "Q"}:
            return "quit"
        elif key in {"enter", "right"}:
            return "open" if self._chosen() is not None else None
        elif key in scrolled.MOVES:
            self._move(key)
        elif key == "s":
            self._filter = (self._filter + 1) % len(self._filters)
        elif key == "/":
            self._typing = True
        elif key == "?":
            self._help = True
        elif key == "escape":
            self._text, self._filter = "", 0
        return None

    def picked(self) -> str | None:
        """The run that Enter opens."""
        row = self._chosen()
        return row.run_id if row is not None else None

    def picture(self, view: FleetView, now: datetime | None, columns: int, height: int) -> list[Line]:
        """All lines of the screen."""
        self._see(view)
        return [
            self._signs.line(signs.line_cut(each, columns))
            for each in self._picture(view, now, columns, height)[-height:]
        ]

    def _picture(self, view: FleetView, now: datetime | None, columns: int, height: int) -> list[Line]:
        head = fleet_head.head(view, now, columns, self._signs)
        # On a small terminal rows come before everything else.
        head = head[: max(1, height - 6)]
        # Lines that the rows leave free show details of the selected run.
        free = height - len(head) - 1 - len(self._rows) - 2
        detail = max(_DETAIL_LINES, min(free, _MOST_DETAIL)) if height >= _ROOM_FOR_DETAIL else 0
        self._height = max(1, height - len(head) - 1 - detail - 1)
        if self._help:
            body = [line(cut(text, columns)) for text in HELP]
            return [*_filled([*head, line(""), *body], height - 1), self._foot(columns)]
        index = self._index()
        self._window.follow(index, len(self._rows), self._height)
        start, end = self._window.of(self._rows, self._height)
        shown = table(self._rows[start:end], columns - 2, now, self._signs)
        rows = [_marked(each, self._signs, chosen=start + place == index) for place, each in enumerate(shown[1:])]
        lines = _filled([*head, (("  ", ""), *shown[0]), *(rows or self._none(view, columns))], height - 1 - detail)
        return [*lines, *self._detail(now, columns, detail), self._foot(columns)]

    def _see(self, view: FleetView) -> None:
        known = (view, self._filter, self._text)
        if self._known and self._known[0] is view and self._known[1:] == known[1:]:
            return
        self._known = known
        self._rows = self._select(view.rows, self._filters[self._filter][1], self._text)

    def _index(self) -> int:
        # If the run has moved far down or is gone, stay at its former place.
        if self.chosen is None:
            return 0
        last = min(self._place, len(self._rows) - 1)
        self._place = next((i for i, row in enumerate(self._rows) if row.run_id == self.chosen), max(last, 0))
        return self._place

    def _chosen(self) -> Row | None:
        return self._rows[self._index()] if self._rows else None

    def _move(self, key: str) -> None:
        if self._rows:
            place = scrolled.moved(self._index(), key, len(self._rows), self._height)
            # At the top no run is selected by name, so that the most urgent one stays in sight.
            self.chosen = self._rows[place].run_id if place else None

    def _paste(self, text: str) -> None:
        """Filter by pasted text."""
        if text:
            self._help, self._typing = False, True
            self._text = (self._text + text)[:_LONGEST]

    def _type(self, key: str) -> None:
        if key == "enter":
            self._typing = False
        elif key == "escape":
            self._typing, self._text = False, ""
        elif key == "backspace":
            self._text = self._text[:-1]
        elif key == "clear":
            self._text = ""
        elif len(key) == 1 and len(self._text) < _LONGEST:
            self._text += key

    def _none(self, view: FleetView, columns: int) -> list[Line]:
        if self._text or self._filter:
            return [line("  no run is like that; Escape shows all", "dim")]
        return [line(f"  {part}", "dim") for part in sentence(fleet_head.none(view), columns - 2, _DETAIL_LINES)]

    def _detail(self, now: datetime | None, columns: int, count: int) -> list[Line]:
        row = self._chosen()
        told = list(_details(row, now, columns, count)) if row is not None and count else []
        return _filled(told, count)

    def _foot(self, columns: int) -> Line:
        if self._typing:
            # Show the end of a long text, where the user types.
            room = columns - 2
            text = self._text
            while text and cells(text) > room - 1:
                text = text[1:]
            return (("/", "heading"), (text, ""), ("_", "heading"))
        start, end = self._window.of(self._rows, self._height)
        many = len(self._rows)
        place = f"{start + 1}-{end} of {many:,}" if many > self._height else f"{many} shown"
        name = self._filters[self._filter][0]
        status = f"s status: {name}"
        told = [place, "q quit", "? help", "Enter show", status]
        told.append(f"/{self._text}" if self._text else "/ filter")
        # A filter hides runs, so it is the last thing to be left out.
        for each in ("Enter show", *(() if self._filter else (status,)), "? help", "q quit", status):
            if cells("  ".join(told)) > columns and each in told:
                told.remove(each)
        text = "  ".join(told)
        return line(cut(text, columns), "mark" if self._text or self._filter else "dim")


def _details(row: Row, now: datetime | None, columns: int, most: int) -> Iterator[Line]:
    """Reason and advice of a run, in ``most`` lines."""
    why = fleet_cells.reason(row, now) or ("nothing is amiss" if signs.word(row) == "RUNNING" else row.shown)
    name = signs.name(row.run_id)
    short = signs.middle_cut(name, columns // 2)
    told = sentence(f"{short}: {why}", columns, most)
    action = sentence(f"→ {harmless(row.action)}", columns, most) if row.action else []
    for_action = min(len(action), max(most - len(told), most // 2))
    first, *rest = sentence(f"{short}: {why}", columns, most - for_action)
    yield ((first[: len(short)], "heading"), (first[len(short) :], ""))
    yield from map(line, rest)
    if row.action:
        yield from map(line, sentence(f"→ {harmless(row.action)}", columns, for_action))


def _marked(shown: Line, signs_of: Signs, *, chosen: bool) -> Line:
    if not chosen:
        return (("  ", ""), *shown)
    return ((f"{signs_of.pointer} " + "".join(text for text, _ in shown), "chosen"),)


def _filled(lines: list[Line], height: int) -> list[Line]:
    return [*lines[:height], *[line("")] * (height - len(lines))]
