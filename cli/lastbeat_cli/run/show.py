"""``show``: everything about one run."""

import sys

import click

from lastbeat import wire
from lastbeat.settings import opening
from lastbeat.stores.port import MissingStoreError
from lastbeat.views.run_document import run_document
from lastbeat_cli import logs, options, values
from lastbeat_cli.document import dump
from lastbeat_cli.run import one_run
from lastbeat_cli.run.lines import show_lines
from lastbeat_cli.terminal import paint, signs

MOST_LINES = 1000
EPILOG = f"""\
\b
Exit status, by the convention of monitoring plug-ins:
{one_run.EXITS}

\b
Examples:
  lastbeat show mistral-20250804-171621
  lastbeat show mistral-20250804-171621 --json | jq .explained

This command is read-only and shows the status that the last pass recorded. 'lastbeat watch --once' judges the run now.
"""


@click.command("show", cls=options.Grouped, epilog=EPILOG, context_settings=options.HELP)
@one_run.argument
@options.option("-n", "--lines", metavar="N", default="15", help="Number of last lines of the newest log [15].")
@options.option("--stale-minutes", metavar="N", help="A heartbeat older than this is stale [10].")
@options.place
@options.form
def command(*, run: str, lines: str, as_json: bool, verbose: bool, **given: str | None) -> int:
    """Show everything about one run.

    That is its status, the cause with its evidence, what to do, heartbeats, ranks, history, alerts, the end of its log,
    and where it hangs.
    """
    logs.verbose(on=verbose)
    faults: list[str] = []
    most = values.count("--lines", lines, faults, MOST_LINES)
    settings = one_run.read(run, given, faults)
    store = opening.store(settings)
    try:
        view = wire.run_watch(settings, run, at=store, places=True).look(log_lines=most)
    except MissingStoreError as fault:
        raise one_run.missing(fault) from None
    if view is None:
        raise one_run.unknown(store, run)
    if as_json:
        print(dump(run_document(view)))
    else:
        columns, made_of = paint.width(sys.stdout), signs.of(sys.stdout)
        told = show_lines(view, columns, logs.redact)
        if sys.stdout is not None and sys.stdout.isatty():
            # Only on a terminal: scripts rely on the first two lines of a pipe, however long they are.
            told = [part for each in told for part in paint.broken(each, columns)]
        paint.show([made_of.line(each) for each in told])
    return one_run.status(view)
