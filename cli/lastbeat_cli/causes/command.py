"""``causes``: which causes, nodes, users and steps cost how many hours."""

import sys
import time
from typing import Final

import click

from lastbeat import opening
from lastbeat.model.losses import Dimension
from lastbeat.stores.port import MissingStoreError
from lastbeat.views.fleet_losses import LossReader, losses_document
from lastbeat_cli import exits, logs, options, values
from lastbeat_cli.causes.lines import loss_lines
from lastbeat_cli.document import dump, masked_throughout
from lastbeat_cli.run import one_run
from lastbeat_cli.terminal import paint, signs

WHICH: Final = "Which failures"
_LIMIT_S: Final = 300.0
EPILOG = """\
\b
Words:
  thrown away  training since the step from which the next attempt went on, else since the last complete checkpoint
  dead         from a death until it was seen; where a restart may help also until the next attempt. Time before
               a watcher first looked does not count
  last         when it happened last
  +            at least: of some of these failures not all is known, and what is not known is not counted
  ?            nothing of that is known

\b
Exit status:
  0  it was told
  3  the fleet could not be seen; also wrong settings or arguments

\b
Examples:
  lastbeat causes s3://bucket/training-runs --since 30d
  lastbeat causes --by node --since 7d
  lastbeat causes --by cause --fingerprints
  lastbeat causes --json | jq '.causes[0]'

Hours are of wall time, whatever the number of GPUs. It reads the records of runs and nothing else, and changes nothing.
"""


@click.command("causes", cls=options.Grouped, epilog=EPILOG, context_settings=options.HELP)
@options.argument(
    "place", group=WHICH, listed=("ROOT", "The fleet: a directory, s3://…, gs://… or az://… [as set]."),
    metavar="[ROOT]", required=False,
)  # fmt: skip
@options.option("--since", metavar="TIME", default="30d", group=WHICH, help="What failed within this time [30d].")
@options.option(
    "--by",
    type=click.Choice([str(each) for each in Dimension]),
    group=WHICH,
    help="Only this, and all of it [the four of them, in short].",
)
@options.option(
    "--fingerprints",
    is_flag=True,
    group=WHICH,
    help="Open each cause to its fingerprints: the same mistake in other words.",
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
    verbose: bool,
    **given: str | None,
) -> int:
    """What to mend first: which causes, nodes, users and steps cost how many hours, those that cost most first.

    Lost are training that was thrown away and the time that runs lay dead.
    """
    logs.verbose(on=verbose)
    faults: list[str] = []
    since_s = values.since(since, faults)
    if place is not None and any(given.get(each) for each in ("root", "bucket")):
        faults.append("ROOT and --root name two fleets; leave one of them out")
    settings = values.settings(given if place is None else {**given, "root": place}, faults)
    logs.follow(settings)
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
