"""``goodput``: how much of the wall time was productive."""

import sys
import time
from typing import TYPE_CHECKING, Final

import click

from lastbeat.model.times import format_time
from lastbeat.settings import Settings, opening
from lastbeat.stores.port import MissingStoreError, StoreError
from lastbeat.views.goodput import SCHEMA, fleet_goodput, goodput_document, spent_document, times_document
from lastbeat.views.one_run import run_watch
from lastbeat.views.order import select
from lastbeat.views.watching import fleet_watch
from lastbeat_cli import exits, logs, options, values
from lastbeat_cli.document import dump
from lastbeat_cli.goodput.lines import fleet_lines, run_lines
from lastbeat_cli.run import one_run
from lastbeat_cli.terminal import paint, signs

if TYPE_CHECKING:
    from lastbeat.model.view import FleetView
    from lastbeat.views.goodput import FleetGoodput

WHICH: Final = "Which runs"
_LIMIT_S: Final = 300.0
"""Longest time, in seconds, to read a fleet. The output says what was not read by then."""
_MOST: Final = 20_000
_LOG_LINES: Final = 40
EPILOG = """\
\b
Words:
  ETTR      effective training time ratio: productive steps over wall time, from the first submission on
  lost      steps repeated after a restart, and the step that a failure interrupted
  unseen    down or stalled, and not detected by a watcher yet (MTTD: mean time to detect)
  restart   down and detected, or before a watcher looked, until the next attempt was submitted
  MTTR      mean time to recover, from a failure to the next step

\b
Exit status:
  0  the figures were printed
  3  there is no such run, or it could not be read; also wrong settings or arguments

\b
Examples:
  lastbeat report goodput llama-7b
  lastbeat report goodput 'llama-*' --json | jq .total.ettr

This command reads only the record and the progress of a run. Missing figures are shown as "not known", never as zero.
"""


@click.command("goodput", cls=options.Grouped, epilog=EPILOG)
@options.argument("globs", "[PATTERN]...", "One run in full; several, or a quoted glob, as a table [all].", group=WHICH)
@options.option(
    "--since", metavar="DURATION", default="30d", group=WHICH, help="Only runs that were alive within this time [30d]."
)
@options.option("--most", metavar="N", default="1000", group=WHICH, help="Read no more runs than this [1000].")
@options.place
@options.form
def command(*, globs: tuple[str, ...], since: str, most: str, as_json: bool, **given: str | None) -> int:
    """Show where the wall time went: productive steps, repeated steps, queue, start-up, downtime undetected, and
    downtime until the restart.

    Shows one run, or a table of the fleet with the runs that lost the most time first.
    """
    faults: list[str] = []
    single = globs[0] if len(globs) == 1 and not set(globs[0]) & set("*?[") else None
    since_s = values.since(since, faults)
    count = values.count("--most", most, faults, _MOST)
    if single is not None:
        return _one(one_run.read(single, given, faults), single, as_json=as_json)
    values.check_globs(globs, faults)
    settings = values.settings(given, faults)
    return _fleet(settings, globs, since, since_s, count, as_json=as_json)


def _one(settings: Settings, run: str, *, as_json: bool) -> int:

    store = opening.store(settings)
    try:
        view = run_watch(settings, run, at=store, places=True).look(log_lines=_LOG_LINES)
    except MissingStoreError as fault:
        raise one_run.missing(fault) from None
    if view is None:
        raise one_run.unknown(store, run)
    found = view.goodput
    if as_json:
        told = goodput_document(found) if found is not None else None
        document = {"schema": SCHEMA, "run_id": run, "status": str(view.row.status), "at": format_time(view.at)}
        print(dump({**document, "goodput": told, "attempts": times_document(view.times)}))
        return exits.OK
    if found is None:
        print(f"Run {run}: nothing is known of its time yet: no pass has recorded it, and it has written nothing.")
        return exits.OK
    paint.show(run_lines(run, found, view.times, paint.width(sys.stdout), signs.of(sys.stdout)))
    return exits.OK


def _fleet(settings: Settings, globs: tuple[str, ...], since: str, since_s: float, most: int, *, as_json: bool) -> int:

    store, until = opening.store(settings), time.monotonic() + _LIMIT_S
    view = fleet_watch(settings, since_s=since_s, at=store).open(until)
    if view.at is None:
        outage = view.fault
        raise StoreError(*((outage.reason, outage.advice) if outage is not None else ("it could not be seen",)))
    rows = select(view.rows, globs, ())
    found = fleet_goodput(store, [row.run_id for row in rows[:most]], view.at, until)
    left = max(0, len(rows) - most)
    if as_json:
        print(logs.redact(dump(_document(settings, view, found, left))))
    else:
        unasked = [f"Not read: {left:,} more; name them, or raise --most."] if left else []
        if view.older:
            unasked.append(f"Older than --since {since}: {view.older:,}.")
        if view.fault is not None:
            unasked.append(f"Not all of the fleet could be seen: {view.fault.reason}.")
        columns, made_of = paint.width(sys.stdout), signs.of(sys.stdout)
        lines = fleet_lines(opening.root_url(settings), found, unasked, columns, made_of)
        paint.show([tuple((logs.redact(text), style) for text, style in each) for each in lines])
    return exits.OK


def _document(settings: Settings, view: "FleetView", found: "FleetGoodput", left: int) -> dict[str, object]:

    runs = [
        {"run_id": each.run_id, "status": str(each.status), **goodput_document(each.goodput)}
        for each in found.runs
        if each.goodput is not None
    ]
    return {
        "schema": SCHEMA,
        "root": opening.root_url(settings),
        "at": format_time(view.at),
        "fault": view.fault.reason if view.fault is not None else None,
        "runs": runs,
        "total": {"runs": len(runs), **spent_document(found.total)},
        "unrecorded": found.unrecorded,
        "unread": [[each.run_id, each.fault] for each in found.unread],
        "left_out": left,
        "older": view.older,
    }
