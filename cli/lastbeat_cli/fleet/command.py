"""``fleet``: every run at a glance, live on a terminal, or once."""

import logging
import sys
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from functools import partial
from typing import Final

import click

from lastbeat.model.view import FleetView, Row
from lastbeat.settings import Settings
from lastbeat.views.documents import fleet_document
from lastbeat.views.order import select
from lastbeat.views.watching import FleetWatch, fleet_watch
from lastbeat_cli import exits, fleet, options, values
from lastbeat_cli.document import dump
from lastbeat_cli.fleet.once import lines
from lastbeat_cli.terminal import live, paint, signs
from lastbeat_cli.terminal.progress_line import ProgressLine

log = logging.getLogger(__name__)

WHICH = "Which runs"
_LIMIT_S: Final = 900.0
"""Longest time, in seconds, to read the fleet with --once. The output says what was not read by then."""
Chosen = Callable[[Iterable[Row]], tuple[Row, ...]]
"""The rows that the user asked for."""
EPILOG = """\
\b
Exit status:
  0  the fleet was read, whatever the state of its runs
  3  the fleet could not be read; also wrong settings or arguments
  141  the reader closed the pipe, as head does
For a check that fails when a run fails, use lastbeat sweep --once or lastbeat watch --once.

\b
Examples:
  lastbeat fleet
  lastbeat fleet 'mistral-*' --status FAILED,WARNING --since 7d
  lastbeat fleet --filter 'tag:sweep3 cause:oom'
  lastbeat fleet --once --json

This command is read-only. On a terminal, ? lists the keys. Each interval costs at most one listing of the store; while
a run is open, only that run is read. For up to 5 seconds, fleet also reads the logs of runs that no pass has recorded,
and keeps their causes in LASTBEAT_STATE_DIR.
"""


@click.command("fleet", cls=options.Grouped, epilog=EPILOG)
@options.argument("globs", "[PATTERN]...", "Only runs whose ids match, quoted: 'mistral-*' [all].", group=WHICH)
@options.option(
    "--status", "named", multiple=True, metavar="NAMES", group=WHICH, help=f"Only these: {', '.join(options.STATUSES)}."
)
@options.option(
    "--since",
    metavar="DURATION",
    default="24h",
    group=WHICH,
    help="Only runs that were alive within this time: 7d [24h].",
)
@options.option(
    "--filter",
    "text",
    metavar="WORDS",
    default="",
    group=WHICH,
    help="Only runs that all words match: 'tag:sweep3 owner:ana -seed1'.",
)
@options.option("--once", is_flag=True, help="Print one plain table with reasons and advice, as into a pipe.")
@options.option("--interval", "pace", metavar="SECONDS", default="5", help="Time between two reads of the store [5].")
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
    settings = values.settings(given, faults)
    for warning in settings.warnings:
        log.warning("%s", warning)
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
