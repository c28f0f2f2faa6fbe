"""``digest``: the last day of a fleet in one message, as LASTBEAT_DIGEST sends it."""

import time
from datetime import timedelta, timezone
from functools import partial
from typing import Final

import click

from lastbeat.alerts import document, plain
from lastbeat.fleet.digest import read_digest
from lastbeat.model.digest import time_zone
from lastbeat.settings import opening
from lastbeat.settings.table import DIGEST
from lastbeat_cli import exits, options, values
from lastbeat_cli.document import tell

WHICH: Final = "Which time"
_LIMIT_S: Final = 300.0
"""Longest time, in seconds, to read the records."""
EPILOG = """\
Exit status:
  0  the digest was printed
  3  the fleet could not be read; also wrong settings or arguments

Examples:
  lastbeat report digest
  lastbeat report digest --since 3d --json

LASTBEAT_DIGEST='08:00 Europe/Zurich' makes a pass send it each day.
"""


@click.command("digest", cls=options.Grouped, epilog=EPILOG)
@options.option("--since DURATION", "What happened within this time [24h].", WHICH, default="24h")
@options.place
@options.form
def command(*, since: str, as_json: bool, **given: str | None) -> int:
    """Show what ended, what was restarted and what needs attention, with links. This command is read-only.

    With --json it prints the document of the alert, as a webhook gets it.
    """
    faults: list[str] = []
    since_s = values.since(since, faults)
    settings = values.settings(given, faults)
    store, daily = opening.store(settings), settings[DIGEST]
    message = read_digest(
        store,
        store.clock() - timedelta(seconds=since_s),
        zone=time_zone(daily.zone) if daily is not None else timezone.utc,
        link=partial(opening.run_link, settings),
        mask=settings.redactor,
        until=time.monotonic() + _LIMIT_S,
    )
    tell(document.document(message), plain.lines(message), as_json=as_json)
    return exits.OK
