"""``causes``: hours lost to failures, by cause, node, user and step."""

import sys
import time
from typing import Final

import click

from lastbeat.model.losses import Dimension
from lastbeat.settings import opening
from lastbeat.stores.port import MissingStoreError
from lastbeat.views.fleet_losses import LossReader, losses_document
from lastbeat_cli import exits, logs, options, values
from lastbeat_cli.causes.lines import loss_lines
from lastbeat_cli.document import dump, masked_throughout
from lastbeat_cli.run import one_run
from lastbeat_cli.terminal import paint, signs

WHICH: Final = "Which failures"
_LIMIT_S: Final = 300.0
"""Longest time, in seconds, to read the records."""
EPILOG = """\
\b
Words:
  thrown away  training since the step from which the next attempt continued, else since the last complete checkpoint
  dead         time from a failure until it was detected; if a restart may help, until the next attempt. Time before
               a watcher first looked does not count
  last         date of the last failure
  +            at least this: data of some of these failures is missing, and does not count
  ?            not known

\b
Exit status:
  0  the figures were printed
  3  the fleet could not be read; also wrong settings or arguments

\b
Examples:
  lastbeat report causes s3://bucket/training-runs --since 30d
  lastbeat report causes --by node --since 7d
  lastbeat report causes --by cause --fingerprints
  lastbeat report causes --json | jq '.causes[0]'

Hours are wall time, whatever the number of GPUs. This command is read-only and reads only the records of runs.
"""


@click.command("causes", cls=options.Grouped, epilog=EPILOG)
@options.argument("place", "[ROOT]", "The fleet: a directory, s3://…, gs://… or az://… [as set].", group=WHICH)
@options.option("--since", metavar="DURATION", default="30d", group=WHICH, help="Only failures within this time [30d].")
@options.option(
    "--by",
    type=click.Choice([str(each) for each in Dimension]),
    group=WHICH,
    help="Show only this table, in full [all four, shortened].",
)
@options.option(
    "--fingerprints",
    is_flag=True,
    group=WHICH,
    help="Split each cause by fingerprint: one line for each distinct error.",
)
@options.place
@options.form
def command(
    *,
    place: str | None,
    since: str,
    by: str | None,
    fingerprints: bool,
    as_json: bool,
    **given: str | None,
) -> int:
    """Show which failures to fix first: hours lost by cause, node, user and step, the most expensive first.

    Lost hours are lost training plus downtime.
    """
    faults: list[str] = []
    since_s = values.since(since, faults)
    if place is not None and any(given.get(each) for each in ("root", "bucket")):
        faults.append("ROOT and --root name two fleets; leave one of them out")
    settings = values.settings(given if place is None else {**given, "root": place}, faults)
    store = opening.store(settings)
    try:
        found = LossReader(store, opening.root_url(settings), settings.redactor).read(
            since_s, until=time.monotonic() + _LIMIT_S
        )
    except MissingStoreError as fault:
        raise one_run.missing(fault) from None
    if as_json:
        print(dump(masked_throughout(losses_document(found), logs.redact)))
        return exits.OK
    only = Dimension(by) if by is not None else None
    columns, made_of = paint.width(sys.stdout), signs.of(sys.stdout)
    told = loss_lines(found, only, columns, made_of, fingerprints=fingerprints)
    paint.show([tuple((logs.redact(text), style) for text, style in each) for each in told])
    return exits.OK
