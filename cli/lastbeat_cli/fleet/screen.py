"""The live table of a fleet, and the effect of each key on it. Independent of terminal and store."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from lastbeat.model.view import FleetView, Row
from lastbeat.views.filters import parse
from lastbeat.views.lines import signs
from lastbeat.views.lines.paint import Line, cells, cut, line, sentence
from lastbeat.views.lines.signs import Signs, harmless
from lastbeat.views.order import NEEDS_PEOPLE, need
from lastbeat_cli.fleet import cells as fleet_cells
from lastbeat_cli.fleet import head as fleet_head
from lastbeat_cli.fleet.asked import FleetAsked, listed
from lastbeat_cli.fleet.table import table
from lastbeat_cli.terminal import scrolled
from lastbeat_cli.terminal.keys import PASTED

_WORDS: Final = (
    "FAILED", "TIMED_OUT", "WARNING", "UNKNOWN", "NO_HEARTBEAT", "SUCCEEDED", "CANCELLED", "PREEMPTED",
)  # fmt: skip
_ACTIONS: Final = {"enter": "open", "right": "open", "l": "logs", "c": "compare"}
"""Key → what the caller does to the chosen run."""
NEEDS: Final = "needs attention"
FILTERS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("all", ()),
    (NEEDS, ()),
    *((name, (name,)) for name in ("RUNNING", *_WORDS)),
)
_ASKS: Final = {"/": "filter", "S": "sort", "C": "columns", "s": "silence", "a": "ack"}
"""Key → what is typed after it."""
_TYPED: Final = {"filter": "/", "sort": "sort by: ", "columns": "columns: "}
MOST_TICKED: Final = 20
_LONGEST: Final = 200
_DETAIL_LINES: Final = 2
_MOST_DETAIL: Final = 8
_ROOM_FOR_DETAIL: Final = 14
HELP: Final = (
    "q              quit; Ctrl-C does, too",
    "↑ ↓  j k       up and down; PageUp, PageDown, Home, End, g and G too",
    "Enter          all about the run, t its curves; q or Escape comes back",
    "/, or paste    filter: oom, owner:ana, lr>1e-4, *-seed1, -word; Escape ends it",
    "f              which statuses are shown: all, needs attention, one alone",
    "S  C           sort by keys, loss,-lr; choose columns, run,loss,lr (none: usual)",
    "l              the run's log as it grows",
    "Space  c       tick runs; compare those that are ticked with this one",
    "s  a           silence the run for a while; acknowledge it, with a note",
    "Ctrl-L         redraw the screen",
    "Ctrl-Z         back to the shell; fg comes back here",
    "?              this help",
    "",
    "Runs that need attention come first. STATUS is as the last pass recorded it;",
    "RUNNING? is silent for longer than the limit, and no pass has judged that.",
    "BEAT is the age of the last heartbeat, AGE that of the step from 5 minutes on.",
    "It sends no alerts: lastbeat sweep and lastbeat watch do.",
)


class FleetScreen:
    """The table as a screen. What was ``asked`` for on the command line restricts all filters."""

    def __init__(self, asked: FleetAsked, signs_of: Signs) -> None:
        self.chosen: str | None = None
        """The selected run; None for the first one."""
        self.entered = ""
        """What was typed for the action that :meth:`press` returned."""
        self.note = ""
        """What came of the last action."""
        self.ticked: dict[str, None] = {}
        """The runs to compare."""
        self._asked, self._signs = asked, signs_of
        statuses = tuple(asked.statuses)
        self._filters = (("as asked for", statuses), *FILTERS[1:]) if statuses else FILTERS
        self._filter = 0
        self._text = ""
        self._typing = ""
        """What is being typed, by its name in ``_ASKS``; empty: nothing."""
        self._typed = ""
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
        """Handle ``key``. Returns what the caller has to do: ``quit``, or to the run that is chosen ``open``, ``logs``,
        ``compare``, ``silence`` or ``ack``; else None."""
        self.note = ""
        if key.startswith(PASTED):
            self._paste(key.removeprefix(PASTED).strip())
        elif self._typing:
            return self._type(key)
        elif self._help:
            self._help = False
        elif key in {"q", "Q"}:
            return "quit"
        elif key in _ACTIONS:
            return _ACTIONS[key] if self._chosen() is not None else None
        elif key in scrolled.MOVES:
            self._move(key)
        elif key == "f":
            self._filter = (self._filter + 1) % len(self._filters)
        elif key == " ":
            self._tick()
        elif key in _ASKS and (key in "/SC" or self._chosen() is not None):
            self._ask(_ASKS[key])
        elif key == "?":
            self._help = True
        elif key == "escape":
            self._text, self._filter = "", 0
            self.ticked.clear()
        return None

    def _tick(self) -> None:
        run_id = self.picked()
        if run_id in self.ticked:
            del self.ticked[run_id]
        elif run_id is not None and len(self.ticked) < MOST_TICKED:
            self.ticked[run_id] = None
        self._move("down")

    def _ask(self, what: str) -> None:
        known = {"sort": ",".join(self._asked.sort), "columns": ",".join(self._asked.columns), "silence": "4h"}
        self._typing, self._typed = what, self._text if what == "filter" else known.get(what, "")

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
        shown = table(self._rows[start:end], columns - 2, now, self._signs, chosen=self._asked.shown)
        rows = [
            _marked(each, self._signs, chosen=start + place == index, ticked=row.run_id in self.ticked)
            for place, (row, each) in enumerate(zip(self._rows[start:end], shown[1:], strict=True))
        ]
        lines = _filled([*head, (("  ", ""), *shown[0]), *(rows or self._none(view, columns))], height - 1 - detail)
        return [*lines, *self._detail(now, columns, detail), self._foot(columns)]

    def _see(self, view: FleetView) -> None:
        known = (view, self._filter, self._text, self._asked)
        if self._known and self._known[0] is view and self._known[1:] == known[1:]:
            return
        self._known = known
        name, statuses = self._filters[self._filter]
        asked = replace(self._asked, statuses=statuses, text=f"{self._asked.text} {self._text}")
        rows = asked.rows(view.rows)
        self._rows = [row for row in rows if need(row, view.at) <= NEEDS_PEOPLE] if name == NEEDS else rows

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
            self._help = False
            if not self._typing:
                self._ask("filter")
            self._put((self._typed + text)[:_LONGEST])

    def _put(self, text: str) -> None:
        self._typed = text
        if self._typing == "filter":
            self._text = text

    def _type(self, key: str) -> str | None:
        what = self._typing
        if key == "enter":
            self._typing, self.entered = "", self._typed
            if what in {"sort", "columns"}:
                names = listed(self._typed)
                self._asked = replace(self._asked, **{what: names})  # type: ignore[arg-type]
            return what if what in {"silence", "ack"} else None
        if key == "escape":
            self._put("")
            self._typing = ""
        elif key == "backspace":
            self._put(self._typed[:-1])
        elif key == "clear":
            self._put("")
        elif len(key) == 1 and len(self._typed) < _LONGEST:
            self._put(self._typed + key)
        return None

    def _none(self, view: FleetView, columns: int) -> list[Line]:
        if self._text or self._filter:
            return [line("  No run matches; Escape shows all", "dim")]
        return [line(f"  {part}", "dim") for part in sentence(fleet_head.none(view), columns - 2, _DETAIL_LINES)]

    def _detail(self, now: datetime | None, columns: int, count: int) -> list[Line]:
        row = self._chosen()
        told = list(_details(row, now, columns, count)) if row is not None and count else []
        return _filled(told, count)

    def _foot(self, columns: int) -> Line:
        if self._typing:
            # Show the end of a long text, where the user types.
            before = _TYPED.get(self._typing) or self._doing()
            before = cut(before, columns // 2)
            text = self._typed
            while text and cells(text) > columns - 2 - cells(before):
                text = text[1:]
            return ((before, "heading"), (text, ""), ("_", "heading"))
        if said := self.note or parse(self._text).fault:
            return line(cut(harmless(said), columns), "mark")
        start, end = self._window.of(self._rows, self._height)
        many = len(self._rows)
        place = f"{start + 1}-{end} of {many:,}" if many > self._height else f"{many} shown"
        name = self._filters[self._filter][0]
        status = f"f status: {name}"
        if self.ticked:
            place = f"{len(self.ticked)} ticked, c compare"
        told = [place, "q quit", "? help", "Enter show", status]
        told.append(f"/{self._text}" if self._text else "/ filter")
        # A filter hides runs, so it is the last thing to be left out.
        for each in ("Enter show", *(() if self._filter else (status,)), "? help", "q quit", status):
            if cells("  ".join(told)) > columns and each in told:
                told.remove(each)
        text = "  ".join(told)
        return line(cut(text, columns), "mark" if self._text or self._filter else "dim")

    def _doing(self) -> str:
        """What Enter will do to the chosen run."""
        name = signs.middle_cut(signs.name(self.picked() or ""), 30)
        return f"silence {name} for: " if self._typing == "silence" else f"acknowledge {name}, note: "


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


def _marked(shown: Line, signs_of: Signs, *, chosen: bool, ticked: bool) -> Line:
    if not chosen:
        return (("+ " if ticked else "  ", "mark"), *shown)
    return ((f"{signs_of.pointer}{'+' if ticked else ' '}" + "".join(text for text, _ in shown), "chosen"),)


def _filled(lines: list[Line], height: int) -> list[Line]:
    return [*lines[:height], *[line("")] * (height - len(lines))]
