"""``fleet``: every run at a glance, live on a terminal, or once as a plain table."""

import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import Final

import click

from lastbeat.model.named_view import NamedView
from lastbeat.model.view import FleetView, Row
from lastbeat.settings import Settings, SettingsError, opening
from lastbeat.stores.port import Store
from lastbeat.views.documents import fleet_document, plain
from lastbeat.views.filters import parse
from lastbeat.views.lines import paint, signs
from lastbeat.views.lines.paint import Line, line, rendered, sentence
from lastbeat.views.lines.signs import Signs, harmless
from lastbeat.views.named_views import InvalidViewError, save_view, view_named
from lastbeat.views.order import NEEDS_PEOPLE, need
from lastbeat.views.watching import FleetWatch, fleet_watch
from lastbeat_cli import exits, fleet, options, values
from lastbeat_cli.author import author
from lastbeat_cli.document import dump, tell
from lastbeat_cli.fleet import cells, head
from lastbeat_cli.fleet.asked import FleetAsked, listed
from lastbeat_cli.fleet.table import table
from lastbeat_cli.terminal import live
from lastbeat_cli.terminal.progress_line import ProgressLine

WHICH = "Which runs"
SHOWN = "How they are shown"
_LIMIT_S: Final = 900.0
"""Longest time, in seconds, to read the fleet with --once. The output says what was not read by then."""
EPILOG = """\
Exit status:
  0  the fleet was read, whatever the state of its runs
  3  the fleet could not be read; also wrong settings or arguments
  141  the reader closed the pipe, as head does
For a check that fails when a run fails, use lastbeat sweep --once or lastbeat watch --once.

Examples:
  lastbeat fleet
  lastbeat fleet 'mistral-*' --status FAILED,WARNING --since 7d
  lastbeat fleet --filter 'tag:sweep3 lr>1e-4' --sort -loss --columns run,loss,lr
  lastbeat fleet --once --json

Without --save-view this command is read-only; so is the live table, but for its keys s and a. On a terminal, ? lists
the keys. Each interval costs at most one listing of the store; while a run is open, only that run is read. For up to 5
seconds, fleet also reads the logs of runs that no pass has recorded, and keeps their causes in LASTBEAT_STATE_DIR.
"""
MOST_TOLD: Final = 25
"""Most runs shown with reason and advice."""
USUAL: Final = FleetAsked()
_INDENT: Final = "    "
_LINES: Final = 2
_WHOLE: Final = 5000
"""Width of a table that nothing is cut of."""
_MOST: Final = 5
"""Most lines of a sentence above or below the table."""


@click.command("fleet", cls=options.Grouped, epilog=EPILOG)
@options.argument("globs", "[PATTERN]...", "Only runs whose ids match, quoted: 'mistral-*' [all].", group=WHICH)
@options.option("--status NAMES", f"Only these: {', '.join(options.STATUSES)}.", WHICH, name="named", multiple=True)
@options.option("--since DURATION", "Only runs that were alive within this time: 7d [24h].", WHICH, default="24h")
@options.option(
    "--filter WORDS", "Only runs that all words match: 'owner:ana lr>1e-4 -seed1'.", WHICH, name="text", default=""
)
@options.option(
    "--sort KEYS", "Order: a column, a key of configurations or a metric; -KEY from large.", SHOWN, default=""
)
@options.option("--group KEY", "Runs that say the same under this key stand together.", SHOWN, default="")
@options.option("--columns NAMES", f"Columns: {', '.join(cells.NAMES)}; keys, metrics.", SHOWN, default="")
@options.option("--explain", "Below each run that needs attention, print why, and what to do.", SHOWN)
@options.option("--view NAME", "As the team saved it in _watchdog/views.json; options add to it.", SHOWN, default="")
@options.option(
    "--save-view NAME",
    "Save filter, status, order and columns for the team; none of them removes it.",
    SHOWN,
    name="save",
)
@options.option("--once", "Print one plain table, a line for each run, as into a pipe.")
@options.option("--interval SECONDS", "Time between two reads of the store [5].", name="pace", default="5")
@options.stale_minutes()
@options.place
@options.form
def command(  # noqa: PLR0913 - each is an option
    *,
    globs: tuple[str, ...],
    named: tuple[str, ...],
    since: str,
    text: str,
    sort: str,
    group: str,
    columns: str,
    explain: bool,
    view: str,
    save: str | None,
    once: bool,
    pace: str,
    as_json: bool,
    **given: str | None,
) -> int:
    """Show every run: status, progress, loss, and why it needs attention.

    Runs that need attention come first. On a terminal the table is live; keys scroll, filter and open a run.
    """
    faults: list[str] = []
    values.check_globs(globs, faults)
    asked = FleetAsked(globs, statuses(named, faults), text, listed(sort), listed(columns), group.strip(), explain)
    since_s = values.since(since, faults)
    interval_s = values.interval(pace, faults)
    if (fault := parse(text).fault) is not None:
        faults.append(f"--filter: {fault}")
    settings = values.settings(given, faults, warns=True)
    store = opening.store(settings)
    if view:
        asked = asked.over(view_named(store, view))
    if save is not None:
        return _save(store, asked.saved_as(save, author()), as_json=as_json)
    watch = fleet_watch(settings, since_s=since_s, at=store, explains=True)
    if once or as_json or not live.possible():
        return _once(settings, watch, asked, as_json=as_json)
    return fleet.look.follow(settings, watch, asked, interval_s)


def _save(store: Store, view: NamedView, *, as_json: bool) -> int:
    try:
        done = save_view(store, view)
    except InvalidViewError as fault:
        raise SettingsError([f"--save-view: {fault}"]) from None
    tell({"view": plain(view)}, [f"{done}: the view {view.name}"], as_json=as_json)
    return exits.OK


def statuses(named: tuple[str, ...], faults: list[str]) -> tuple[str, ...]:
    """The statuses named by ``--status``, in lastbeat's spelling. Adds unknown ones to ``faults``."""
    found: list[str] = []
    for name in (part for text in named for part in text.split(",") if part.strip()):
        word = name.strip().upper().replace("-", "_").removeprefix("RUNNING (").removesuffix(")")
        if word in options.STATUSES:
            found.append(word)
        else:
            faults.append(f"--status={name.strip()[:40]!r} is no status; these are: {', '.join(options.STATUSES)}")
    if named and not found and not faults:
        faults.append("--status is empty; leave it out, or name one")
    return tuple(dict.fromkeys(found))


def _once(settings: Settings, watch: FleetWatch, asked: FleetAsked, *, as_json: bool) -> int:
    with ProgressLine() as progress:
        view = watch.open(time.monotonic() + _LIMIT_S, progress.runs)
    if as_json:
        _print_document(settings, view, asked)
    else:
        paint.show(lines(view, asked.rows(view.rows), paint.width(sys.stdout), signs.of(sys.stdout), asked))
    return exits.OK if view.at is not None and view.fault is None else exits.UNKNOWN


def _print_document(settings: Settings, view: FleetView, asked: FleetAsked) -> None:
    now = datetime.now(timezone.utc)
    told = fleet_document(view, made_at=now, stale_s=settings.policy.stale_s, keys=asked.keys)
    runs = told["runs"]
    if isinstance(runs, list):
        # Counts and ranks stay those of the whole fleet.
        known = {run["run_id"]: run for run in runs}
        told["runs"] = [known[row.run_id] for row in asked.rows(view.rows)]
    print(dump(told))


def lines(view: FleetView, rows: Sequence[Row], columns: int, signs_of: Signs, asked: FleetAsked = USUAL) -> list[Line]:
    """``rows`` of ``view`` as a table, with the lines above and below it."""
    body: list[Line] = []
    if rows:
        body = [line(""), *_table(view, rows, columns, signs_of, asked)]
    elif text := head.none(view):
        body = [line(""), *(line(part, "dim") for part in sentence(text, columns, _MOST))]
    return [
        *head.head(view, view.at, columns, signs_of, _MOST),
        *body,
        *head.notes(view, columns, signs_of, _MOST),
        *(line(f"Note: no run reports {harmless(key, 100)}", "dim") for key in asked.unknown(view.rows)),
    ]


def _table(view: FleetView, rows: Sequence[Row], columns: int, signs_of: Signs, asked: FleetAsked) -> Iterator[Line]:
    # Columns that were asked for are shown whole: a program may read them.
    room = _WHOLE if asked.columns and not paint.capable(sys.stdout) else columns
    heading, *shown = table(rows, room, view.at, signs_of, whole_ids=True, chosen=asked.shown)
    yield heading
    told, heads = 0, asked.headings(rows)
    for row, each in zip(rows, shown, strict=True):
        if row.run_id in heads:
            yield line(heads[row.run_id], "heading")
        yield each
        if not asked.explain or need(row, view.at) > NEEDS_PEOPLE:
            continue
        told += 1
        if told <= MOST_TOLD:
            yield from map(signs_of.line, _why(row, view.at, rendered(each, colours=False), columns))
    if told > MOST_TOLD:
        text = f"Why, and what to do, is shown for the first {MOST_TOLD} of {told:,} that need attention; "
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
