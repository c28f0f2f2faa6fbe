"""``causes``: hours lost to failures, by cause, node, user and step, as one table each."""

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

import click

from lastbeat.model.document import masked
from lastbeat.model.losses import CountedFailure, Dimension, LossGroup, by_loss
from lastbeat.model.text import counted
from lastbeat.model.times import format_time
from lastbeat.settings import opening
from lastbeat.views.fleet_losses import MOST_FINGERPRINTS, FleetLosses, LossReader, losses_document, notes
from lastbeat.views.lines import paint, signs
from lastbeat.views.lines.paint import Line, cut, line, paragraph, wrapped
from lastbeat.views.lines.signs import Signs, harmless
from lastbeat_cli import exits, logs, options, values
from lastbeat_cli.document import dump

WHICH: Final = "Which failures"
_LIMIT_S: Final = 300.0
"""Longest time, in seconds, to read the records."""
EPILOG = """\
Words:
  thrown away  training since the step from which the next attempt continued, else since the last complete checkpoint
  dead         time from a failure until it was detected; if a restart may help, until the next attempt. Time before
               a watcher first looked does not count
  last         date of the last failure
  +            at least this: data of some of these failures is missing, and does not count
  ?            not known

Exit status:
  0  the figures were printed
  3  the fleet could not be read; also wrong settings or arguments

Examples:
  lastbeat report causes s3://bucket/training-runs --since 30d
  lastbeat report causes --by node --since 7d
  lastbeat report causes --by cause --fingerprints
  lastbeat report causes --json | jq '.causes[0]'

Hours are wall time, whatever the number of GPUs. This command is read-only and reads only the records of runs.
"""
_SHOWN: Final = {Dimension.CAUSE: 8}
_SHOWN_BESIDE: Final = 5
_MOST: Final = 50
_BAR: Final = 12
_HEADINGS: Final = {
    Dimension.CAUSE: "What to mend first",
    Dimension.NODE: "On which nodes",
    Dimension.USER: "Whose runs",
    Dimension.STEPS: "At which steps",
}
_NAMELESS: Final = {
    Dimension.NODE: "not known",
    Dimension.USER: "no owner is named",
    Dimension.STEPS: "not known",
}


@click.command("causes", cls=options.Grouped, epilog=EPILOG)
@options.fleet(WHICH)
@options.option("--since DURATION", "Only failures within this time [30d].", WHICH, default="30d")
@options.option(
    "--by",
    "Show only this table, in full [all four, shortened].",
    WHICH,
    type=click.Choice([str(each) for each in Dimension]),
)
@options.option("--fingerprints", "Split each cause by fingerprint: one line for each distinct error.", WHICH)
@options.place
@options.form
def command(
    *,
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
    settings = values.settings(given, faults)
    store = opening.store(settings)
    reader = LossReader(store, opening.root_url(settings), settings.redactor)
    found = reader.read(since_s, until=time.monotonic() + _LIMIT_S)
    if as_json:
        print(dump(masked(losses_document(found), logs.redact)))
        return exits.OK
    only = Dimension(by) if by is not None else None
    columns, made_of = paint.width(sys.stdout), signs.of(sys.stdout)
    told = loss_lines(found, only, columns, made_of, fingerprints=fingerprints)
    paint.show(told, logs.redact)
    return exits.OK


def loss_lines(
    found: FleetLosses, only: Dimension | None, columns: int, signs: Signs, *, fingerprints: bool = False
) -> list[Line]:
    """All tables, or with ``only`` one of them in full. ``fingerprints`` splits each cause by fingerprint."""
    told = list(_head(found, columns))
    for each in Dimension if only is None else (only,):
        groups = found.by(each)
        if not groups:
            continue
        most = _MOST if only is not None else _SHOWN.get(each, _SHOWN_BESIDE)
        told += [line(""), *_table(each, groups, most, columns, signs, fingerprints=fingerprints)]
    remarks = notes(found)
    if remarks:
        told.append(line(""))
    told += [line(part, "dim") for text in remarks for part in wrapped(harmless(text), columns, "")]
    return [signs.line(each) for each in told]


def _head(found: FleetLosses, columns: int) -> Iterator[Line]:
    total = found.total
    since = format_time(found.since.replace(microsecond=0))
    if not total.failures:
        text = f"{found.root}: no failure is recorded since {since}, of {counted(found.runs, 'run')} that changed"
    else:
        lost = "not known" if total.lost_s is None else f"{hours(total.lost_s)}{' at least' if total.at_least else ''}"
        failures, runs = counted(total.failures, "failure"), counted(len(total.runs), "run")
        text = f"{found.root}: {failures} of {runs} since {since}, lost: {lost}"
    yield from paragraph(harmless(text), columns, "", style="heading")


def hours(seconds: float) -> str:
    """``seconds`` as ``31.2 h``, or ``1,204 h`` from 1,000 hours on."""
    told = seconds / 3600
    return f"{told:,.1f} h" if told < 1000 else f"{told:,.0f} h"


def _table(
    by: Dimension, groups: Sequence[LossGroup], most: int, columns: int, signs: Signs, *, fingerprints: bool
) -> Iterator[Line]:
    yield line(_HEADINGS[by], "heading")
    heads = f"{'THROWN AWAY ':>12} {'DEAD ':>10} {'FAILED':>6} {'RUNS':>5} {'LAST':<6} {by.name}"
    yield line(f"{'LOST ':>11} {'':<{_BAR}} {heads}", "dim")
    top = max((group.lost_s or 0.0 for group in groups), default=0.0)
    for group in groups[:most]:
        yield from _row(by, group, top, columns, signs, fingerprints=fingerprints)
    if len(groups) > most:
        more = f"… and {len(groups) - most:,} more (--by {by}, or --json)"
        yield line(f"{'':>11} {more}", "dim")


def _row(
    by: Dimension, group: LossGroup, top: float, columns: int, signs: Signs, *, fingerprints: bool
) -> Iterator[Line]:
    latest, lost = group.latest, _lost(group)
    when = f"{latest.happened_at.day} {latest.happened_at:%b}" if latest is not None else ""
    thrown = _hours_known(group.thrown_away_s, group.thrown_away_known, group.failures)
    dead = _hours_known(group.dead_s, group.dead_known, group.failures)
    filled = 0 if top <= 0 or not group.lost_s else max(1, round(_BAR * group.lost_s / top))
    bar = ("#" if signs.plain else "█") * filled
    figures = f" {thrown:>12} {dead:>10} {group.failures:>6,} {len(group.runs):>5,} {when:<6} "
    name = _cause(latest) if by is Dimension.CAUSE else harmless(group.name) or _NAMELESS[by]
    room = max(12, columns - 11 - 1 - _BAR - len(figures))
    yield ((f"{lost:>11} ", ""), (f"{bar:<{_BAR}}", "bad"), (figures, ""), (cut(name, room), "mark"))
    if by is not Dimension.CAUSE:
        return
    kinds = by_loss(group.fingerprints.values())
    if fingerprints and len(kinds) > 1:
        for each in kinds[:MOST_FINGERPRINTS]:
            yield line(cut(f"{_lost(each):>11} {counted(each.failures, 'failure')}: {_last_message(each)}", columns))
        if len(kinds) > MOST_FINGERPRINTS:
            yield line(f"{'':>12}and {len(kinds) - MOST_FINGERPRINTS:,} other fingerprints", "dim")
        return
    if said := _last_message(group):
        yield line(f"{'':>12}{cut(said, columns - 12)}")
    if len(kinds) > 1:
        yield line(f"{'':>12}and {counted(len(kinds) - 1, 'other fingerprint')} (--fingerprints)", "dim")


def _lost(group: LossGroup) -> str:
    return "? " if group.lost_s is None else hours(group.lost_s) + ("+" if group.at_least else " ")


def _last_message(group: LossGroup) -> str:
    latest = group.latest
    return f"{harmless(latest.said)} ({latest.run_id})" if latest is not None and latest.said else ""


def _hours_known(seconds: float, of: int, failures: int) -> str:
    """The hours of the ``of`` failures whose hours are known, with ``+`` if some are unknown; ``?`` if all are."""
    return hours(seconds) + ("+" if of < failures else " ") if of else "? "


def _cause(latest: CountedFailure | None) -> str:
    if latest is None:
        return ""
    name = latest.error_type or "no cause known"
    return harmless(f"{name} · {latest.signal}" if latest.signal else name)
