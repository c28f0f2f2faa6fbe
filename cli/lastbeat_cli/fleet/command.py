"""``fleet``: every run at a glance, live on a terminal, or once as a plain table."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timezone
from functools import partial
from typing import Final

import click

from lastbeat.model.view import FleetView, Row
from lastbeat.settings import Settings
from lastbeat.views.documents import fleet_document
from lastbeat.views.filters import parse
from lastbeat.views.order import NEEDS_PEOPLE, need, select
from lastbeat.views.watching import FleetWatch, fleet_watch
from lastbeat_cli import exits, fleet, options, values
from lastbeat_cli.document import dump
from lastbeat_cli.fleet import cells, head
from lastbeat_cli.fleet.table import table
from lastbeat_cli.terminal import live, paint, signs
from lastbeat_cli.terminal.paint import Line, line, rendered, sentence
from lastbeat_cli.terminal.progress_line import ProgressLine
from lastbeat_cli.terminal.signs import Signs, harmless

WHICH = "Which runs"
_LIMIT_S: Final = 900.0
"""Longest time, in seconds, to read the fleet with --once. The output says what was not read by then."""
Chosen = Callable[[Iterable[Row]], tuple[Row, ...]]
"""The rows that the user asked for."""
EPILOG = """\
Exit status:
  0  the fleet was read, whatever the state of its runs
  3  the fleet could not be read; also wrong settings or arguments
  141  the reader closed the pipe, as head does
For a check that fails when a run fails, use lastbeat sweep --once or lastbeat watch --once.

Examples:
  lastbeat fleet
  lastbeat fleet 'mistral-*' --status FAILED,WARNING --since 7d
  lastbeat fleet --filter 'tag:sweep3 cause:oom'
  lastbeat fleet --once --json

This command is read-only. On a terminal, ? lists the keys. Each interval costs at most one listing of the store; while
a run is open, only that run is read. For up to 5 seconds, fleet also reads the logs of runs that no pass has recorded,
and keeps their causes in LASTBEAT_STATE_DIR.
"""
MOST_TOLD: Final = 25
"""Most runs shown with reason and advice."""
_INDENT: Final = "    "
_LINES: Final = 2
_MOST: Final = 5
"""Most lines of a sentence above or below the table."""


@click.command("fleet", cls=options.Grouped, epilog=EPILOG)
@options.argument("globs", "[PATTERN]...", "Only runs whose ids match, quoted: 'mistral-*' [all].", group=WHICH)
@options.option("--status NAMES", f"Only these: {', '.join(options.STATUSES)}.", WHICH, name="named", multiple=True)
@options.option("--since DURATION", "Only runs that were alive within this time: 7d [24h].", WHICH, default="24h")
@options.option(
    "--filter WORDS", "Only runs that all words match: 'owner:ana lr>1e-4 -seed1'.", WHICH, name="text", default=""
)
@options.option("--once", "Print one plain table with reasons and advice, as into a pipe.")
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
    wanted = statuses(named, faults)
    since_s = values.since(since, faults)
    interval_s = values.interval(pace, faults)
    if (fault := parse(text).fault) is not None:
        faults.append(f"--filter: {fault}")
    settings = values.settings(given, faults, warns=True)
    watch = fleet_watch(settings, since_s=since_s, explains=True)
    if once or as_json or not live.possible():
        return _once(settings, watch, partial(select, globs=globs, statuses=wanted, text=text), as_json=as_json)
    return fleet.look.follow(settings, watch, globs, wanted, text, interval_s)


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


def _once(settings: Settings, watch: FleetWatch, chosen: Chosen, *, as_json: bool) -> int:
    with ProgressLine() as progress:
        view = watch.open(time.monotonic() + _LIMIT_S, progress.runs)
    if as_json:
        _print_document(settings, view, chosen)
    else:
        _print_table(view, chosen)
    return exits.OK if view.at is not None and view.fault is None else exits.UNKNOWN


def _print_document(settings: Settings, view: FleetView, chosen: Chosen) -> None:
    now = datetime.now(timezone.utc)
    told = fleet_document(view, made_at=now, stale_s=settings.policy.stale_s)
    shown = {row.run_id for row in chosen(view.rows)}
    runs = told["runs"]
    if isinstance(runs, list):
        # Counts and order stay those of the whole fleet.
        told["runs"] = [run for run in runs if run["run_id"] in shown]
    print(dump(told))


def _print_table(view: FleetView, chosen: Chosen) -> None:
    rows = chosen(view.rows)
    paint.show(lines(view, rows, paint.width(sys.stdout), signs.of(sys.stdout)))


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
