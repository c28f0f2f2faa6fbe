"""``top``: one run on one screen, with its curves."""

import shutil
import sys
from datetime import datetime, timezone
from typing import Final

import click

from lastbeat import wire
from lastbeat.model.view import RunView
from lastbeat.settings import opening
from lastbeat.stores.port import MissingStoreError
from lastbeat.views.one_run import RunWatch
from lastbeat.views.run_document import run_document
from lastbeat_cli import exits, logs, options, values
from lastbeat_cli.document import dump
from lastbeat_cli.run import one_run, page
from lastbeat_cli.run.screen import top_lines
from lastbeat_cli.terminal import live, paint, signs
from lastbeat_cli.terminal.screen import Screen

_ONCE_LINES: Final = 40
EPILOG = f"""\
\b
Exit status, by the convention of monitoring plug-ins, of the run as it was last seen:
{one_run.EXITS}

\b
Examples:
  lastbeat top mistral-20250804-171621
  lastbeat top mistral-20250804-171621 --once

This command is read-only. Keys: t shows everything about the run, q quits.
"""


@click.command("top", cls=options.Grouped, epilog=EPILOG, context_settings=options.HELP)
@one_run.argument
@options.option("--once", is_flag=True, help="Print one picture, as into a pipe.")
@options.option("--interval", "pace", metavar="SECONDS", default="5", help="Time between two reads of the store [5].")
@options.option("--stale-minutes", metavar="N", help="A heartbeat older than this is stale [10].")
@options.place
@options.form
def command(*, run: str, once: bool, pace: str, as_json: bool, verbose: bool, **given: str | None) -> int:
    """Show the progress of one run: loss curve, speed, steps and resources; live on a terminal."""
    logs.verbose(on=verbose)
    faults: list[str] = []
    interval_s = values.interval(pace, faults)
    settings = one_run.read(run, given, faults)
    store = opening.store(settings)
    watch = wire.run_watch(settings, run, at=store, places=True)
    try:
        view = watch.look(log_lines=0)
    except MissingStoreError as fault:
        raise one_run.missing(fault) from None
    if view is None:
        raise one_run.unknown(store, run)
    if as_json:
        print(dump(run_document(view, datetime.now(timezone.utc))))
    elif once or not live.possible():
        columns, made_of = paint.width(sys.stdout), signs.of(sys.stdout)
        paint.show(top_lines(view, columns, _height(), view.at, made_of, whole_id=True))
    else:
        return _follow(watch, interval_s)
    return one_run.status(view)


def _height() -> int:
    """The number of lines of a single picture: a terminal's height, or :data:`_ONCE_LINES` in a pipe."""
    if paint.capable(sys.stdout):
        return max(shutil.get_terminal_size().lines - 2, 16)
    return _ONCE_LINES


def _follow(watch: RunWatch, interval_s: float) -> int:
    with Screen() as screen, live.quiet():
        feed = page.show(screen, watch, interval_s, signs.of(sys.stdout), alone=True)
    view = feed.value
    seen = isinstance(view, RunView) and feed.fault is None
    return live.leave(feed, one_run.status(view) if seen and isinstance(view, RunView) else exits.UNKNOWN)
