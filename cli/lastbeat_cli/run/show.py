"""``show``: everything about one run, or with ``--live`` its curves."""

import shutil
import sys
from typing import Final

import click

from lastbeat.model.view import RunView
from lastbeat.settings import opening
from lastbeat.stores import run_names
from lastbeat.views.lines import paint, signs
from lastbeat.views.lines.run import show_lines
from lastbeat.views.one_run import RunWatch, run_watch
from lastbeat.views.run_document import run_document
from lastbeat_cli import exits, logs, options, values
from lastbeat_cli.document import dump
from lastbeat_cli.run import one_run, page
from lastbeat_cli.run.screen import top_lines
from lastbeat_cli.terminal import live
from lastbeat_cli.terminal.screen import Screen

MOST_LINES = 1000
LIVE = "Curves and figures, live"
EPILOG = f"""\
Exit status, by the convention of monitoring plug-ins:
{one_run.EXITS}

Examples:
  lastbeat show mistral-20250804-171621
  lastbeat show mistral-20250804-171621 --json | jq .explained
  lastbeat show mistral-20250804-171621 --live

This command is read-only and shows the status that the last pass recorded. 'lastbeat watch --once' judges the run now.
Keys of --live: t shows everything about the run, q quits.
"""


@click.command("show", cls=options.Grouped, epilog=EPILOG)
@one_run.argument
@options.option("--live", "Show loss curve, speed, steps and resources, live.", LIVE)
@options.option("--once", "With --live: print one picture, as into a pipe.", LIVE)
@options.option("--interval SECONDS", "With --live: time between two reads of the store [5].", LIVE, name="pace")
@options.place
@options.option("-n --lines N", "Number of last lines of the newest log [15].")
@options.stale_minutes()
@options.form
def command(
    *,
    run: str,
    live: bool,
    once: bool,
    pace: str | None,
    lines: str | None,
    as_json: bool,
    **given: str | None,
) -> int:
    """Show everything about one run.

    That is its status, the cause with its evidence, what to do, heartbeats, ranks, history, alerts, the end of its log,
    and where it hangs. With --live: its curves and figures on one screen.
    """
    faults: list[str] = []
    if not live and (once or pace is not None):
        faults.append("--once and --interval are of --live; use for example lastbeat show my-run --live --once")
    if live and lines is not None:
        faults.append("--lines shows the end of a log, which --live does not; leave one of them out")
    interval_s = values.interval(pace or "5", faults)
    most = 0 if live else values.count("--lines", lines or "15", faults, MOST_LINES)
    settings = one_run.read(run, given, faults)
    store = opening.store(settings)
    watch = run_watch(settings, run, at=store, places=True)
    view = watch.look(log_lines=most)
    if view is None:
        raise run_names.unknown(store, run)
    if as_json:
        print(dump(run_document(view)))
        return one_run.status(view)
    if live:
        return _show_live(watch, view, interval_s, once=once)
    columns, made_of = paint.width(sys.stdout), signs.of(sys.stdout)
    told = show_lines(view, columns, logs.redact)
    if sys.stdout is not None and sys.stdout.isatty():
        # Only on a terminal: scripts rely on the first two lines of a pipe, however long they are.
        told = [part for each in told for part in paint.broken(each, columns)]
    paint.show([made_of.line(each) for each in told])
    return one_run.status(view)


_ONCE_LINES: Final = 40
"""Lines of a picture in a pipe."""


def _show_live(watch: RunWatch, view: RunView, interval_s: float, *, once: bool) -> int:
    """Show ``view`` and, on a terminal unless ``once``, what ``watch`` sees after it. Returns the exit status."""
    made_of = signs.of(sys.stdout)
    if once or not live.possible():
        paint.show(top_lines(view, paint.width(sys.stdout), _height(), view.at, made_of, whole_id=True))
        return one_run.status(view)
    with Screen() as screen, live.quiet():
        feed = page.show(screen, watch, interval_s, made_of, alone=True)
    last = feed.value
    seen = isinstance(last, RunView) and feed.fault is None
    return live.leave(feed, one_run.status(last) if seen and isinstance(last, RunView) else exits.UNKNOWN)


def _height() -> int:
    """The number of lines of a single picture: a terminal's height, or :data:`_ONCE_LINES` in a pipe."""
    if paint.capable(sys.stdout):
        return max(shutil.get_terminal_size().lines - 2, 16)
    return _ONCE_LINES
