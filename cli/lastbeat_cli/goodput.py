"""``goodput``: how much of the wall time was productive: a bar and its parts for one run, a table for a fleet."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from lastbeat.model.goodput import MEANINGS, Goodput, TimeSpent
from lastbeat.model.text import counted
from lastbeat.model.times import format_duration, format_time
from lastbeat.model.timesheet import AttemptTimes, TimeUse
from lastbeat.settings import Settings, opening
from lastbeat.stores import run_names
from lastbeat.stores.port import StoreError
from lastbeat.views.goodput import (
    SCHEMA,
    FleetGoodput,
    RunGoodput,
    fleet_goodput,
    goodput_document,
    spent_document,
    times_document,
)
from lastbeat.views.lines import paint, signs
from lastbeat.views.lines.paint import Line, line, sentence
from lastbeat.views.lines.signs import Signs, harmless, name, padded
from lastbeat.views.one_run import run_watch
from lastbeat.views.order import select
from lastbeat.views.watching import fleet_watch
from lastbeat_cli import exits, logs, options, values
from lastbeat_cli.document import dump
from lastbeat_cli.run import one_run

if TYPE_CHECKING:
    from lastbeat.model.view import FleetView

WHICH: Final = "Which runs"
_LIMIT_S: Final = 300.0
"""Longest time, in seconds, to read a fleet. The output says what was not read by then."""
_MOST: Final = 20_000
_LOG_LINES: Final = 40
EPILOG = """\
Words:
  ETTR      effective training time ratio: productive steps over wall time, from the first submission on
  lost      steps repeated after a restart, and the step that a failure interrupted
  unseen    down or stalled, and not detected by a watcher yet (MTTD: mean time to detect)
  restart   down and detected, or before a watcher looked, until the next attempt was submitted
  MTTR      mean time to recover, from a failure to the next step

Exit status:
  0  the figures were printed
  3  there is no such run, or it could not be read; also wrong settings or arguments

Examples:
  lastbeat report goodput llama-7b
  lastbeat report goodput 'llama-*' --json | jq .total.ettr

This command reads only the record and the progress of a run. Missing figures are shown as "not known", never as zero.
"""
_WIDEST: Final = 100
_INDENT: Final = "  "
_MOST_ATTEMPTS: Final = 8
_MOST_FAULTS: Final = 5
_SURE: Final = 0.005
"""If less than this share of the wall time is unknown, ETTR is shown as one number, not as a range."""
_SIGNS: Final[Mapping[TimeUse, tuple[str, str, str]]] = {
    TimeUse.PRODUCTIVE: ("█", "#", "good"),
    TimeUse.LOST: ("\u00d7", "x", "bad"),
    TimeUse.QUEUED: ("░", ".", ""),
    TimeUse.STARTING: ("▒", ":", ""),
    TimeUse.UNNOTICED: ("!", "!", "mark"),
    TimeUse.RESTARTING: ("~", "~", "mark"),
    TimeUse.UNKNOWN: ("?", "?", "unknown"),
}
"""Time use → its sign, its sign in ASCII, and its style."""
_HEADINGS: Final[Mapping[TimeUse, str]] = {
    TimeUse.LOST: "LOST",
    TimeUse.QUEUED: "QUEUE",
    TimeUse.STARTING: "START",
    TimeUse.UNNOTICED: "UNSEEN",
    TimeUse.RESTARTING: "RESTART",
    TimeUse.UNKNOWN: "UNKNOWN",
}
_NUMBERS: Final = 9
"""Number of columns of the table after the run and its wall time."""
_CELL: Final = 7


@click.command("goodput", cls=options.Grouped, epilog=EPILOG)
@options.argument("globs", "[PATTERN]...", "One run in full; several, or a quoted glob, as a table [all].", group=WHICH)
@options.option("--since DURATION", "Only runs that were alive within this time [30d].", WHICH, default="30d")
@options.option("--most N", "Read no more runs than this [1000].", WHICH, default="1000")
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
    view = run_watch(settings, run, at=store, places=True).look(log_lines=_LOG_LINES)
    if view is None:
        raise run_names.unknown(store, run)
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
        paint.show(lines, logs.redact)
    return exits.OK


def _document(settings: Settings, view: "FleetView", found: FleetGoodput, left: int) -> dict[str, object]:

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


def run_lines(run_id: str, found: Goodput, attempts: Sequence[AttemptTimes], columns: int, signs: Signs) -> list[Line]:
    """One run."""
    since = format_time(found.since.replace(microsecond=0))
    many = counted(found.attempts, "attempt")
    over = "" if not found.over else "; it is over"
    told = [
        (("Run ", "heading"), (run_id, "heading"), (f": {ettr(found)}", "")),
        line(f"{format_duration(found.wall_s)} of wall time since {since}, {many}{over}"),
        line(""),
        bar(found, min(columns, _WIDEST), signs),
        line(""),
        *_parts(found, signs),
        line(""),
        *(line(text) for text in _means(found)),
    ]
    if found.first_attempt > 1:
        before = f"the attempts before number {found.first_attempt}"
        counts = found.attempts >= found.first_attempt
        told.append(line(f"When {before} ran is not known." if counts else f"Of {before} nothing is known."))
    if len(attempts) > 1:
        told += [line(""), *_attempts(attempts)]
    return [signs.line(each) for each in told]


def ettr(found: TimeSpent) -> str:
    """The ratio in words: a range if unknown time could change it."""
    least, most = found.ettr, found.ettr_most
    if least is None or most is None:
        return "ETTR not known: no step of it is"
    if most - least < _SURE:
        return f"ETTR {percent(least)}"
    return f"ETTR {percent(least)} at least, {percent(most)} at most: the rest is not known"


def percent(share: float | None) -> str:
    """``share`` as a percentage with one decimal; ``?`` if unknown."""
    return "?" if share is None else f"{100 * share:.1f}%"


def bar(found: TimeSpent, columns: int, signs: Signs) -> Line:
    """``columns`` signs, divided by the time of each use; each use with any time gets at least one."""
    used = [(use, seconds) for use, seconds in found.spent.items() if seconds > 0]
    widths = [1] * len(used)
    wall_s = sum(seconds for _, seconds in used)
    for _ in range(columns - len(used) if used else 0):
        # The next sign goes to the use with the largest deficit.
        lacks = [columns * seconds / wall_s - width for (_, seconds), width in zip(used, widths, strict=True)]
        widths[lacks.index(max(lacks))] += 1
    return tuple((_sign(use, signs) * width, _SIGNS[use][2]) for (use, _), width in zip(used, widths, strict=True))


def _sign(use: TimeUse, signs: Signs) -> str:
    return _SIGNS[use][1 if signs.plain else 0]


def _parts(found: TimeSpent, signs: Signs) -> Iterator[Line]:
    for use, what in MEANINGS.items():
        seconds = found.spent.get(use)
        if use is TimeUse.UNKNOWN and not seconds:
            continue
        if use is TimeUse.LOST and found.lost_steps:
            what += f": {counted(found.lost_steps, 'step')}"  # noqa: PLW2901 - the same words, and more
        if seconds is None:
            yield line(f"{_INDENT}{_sign(use, signs)} {'?':>7} {'not known':>9}  {what}")
            continue
        share, long = percent(found.share(seconds)), format_duration(seconds)
        yield ((_INDENT, ""), (_sign(use, signs), _SIGNS[use][2]), (f" {share:>7} {long:>9}  {what}", ""))


def _means(found: Goodput) -> Iterator[str]:
    if not found.failures:
        yield "No failure was seen."
        return
    failures = counted(found.failures, "failure")
    detect, recover = found.mean_detect_s, found.mean_recover_s
    seen = "not known" if detect is None else format_duration(detect)
    never = "it has not come back" if found.down else "not known"
    back = never if recover is None else format_duration(recover)
    yield f"{failures}: mean time to detect {seen}, to recover {back}"


def _attempts(attempts: Sequence[AttemptTimes]) -> Iterator[Line]:
    yield line("Attempts", "heading")
    for each in attempts[-_MOST_ATTEMPTS:]:
        begun = each.began_at
        when = format_time(begun.replace(microsecond=0)) if begun is not None else "not known when"
        steps = ""
        if each.first_step is not None and each.last_step is not None:
            steps = f", steps {each.first_step:,} to {each.last_step:,}"
        given = f", from step {each.resumed_from:,}" if each.resumed_from else ""
        end = str(each.end) if each.end is not None else "its end was not seen" if each is not attempts[-1] else "lives"
        yield line(f"{_INDENT}{each.number}: {when}{given}{steps}, {end}")
    if len(attempts) > _MOST_ATTEMPTS:
        yield line(f"{_INDENT}and {len(attempts) - _MOST_ATTEMPTS} before those (--json has the latest 16)")


def fleet_lines(where: str, found: FleetGoodput, unasked: Sequence[str], columns: int, signs: Signs) -> list[Line]:
    """A table with a total. ``unasked`` are sentences about the runs that were not read."""
    told: list[Line] = [((harmless(where), "heading"), (f" · {ettr(found.total)}", ""))]
    if found.runs:
        told += [line(""), *_table(found)]
    else:
        told.append(line("Of no run anything is known of this: passes and supervisors record it.", "dim"))
    remarks = [*unasked]
    if found.unrecorded:
        remarks.append(f"Nothing of this recorded yet: {found.unrecorded:,}.")
    remarks += [f"{each.run_id} could not be read: {each.fault}" for each in found.unread[:_MOST_FAULTS]]
    if len(found.unread) > _MOST_FAULTS:
        remarks.append(f"and {len(found.unread) - _MOST_FAULTS:,} more could not be read.")
    if remarks:
        told.append(line(""))
        told += [line(part, "dim") for text in remarks for part in sentence(harmless(text), columns, 3)]
    return [signs.line(each) for each in told]


def _table(found: FleetGoodput) -> Iterator[Line]:
    # Ids of a parameter sweep may differ anywhere, so they stay whole and lines may be too long.
    width = max(*(len(each.run_id) for each in found.runs), len("total, 1,000 runs"))
    heads = ("ETTR", *_HEADINGS.values(), "MTTD", "MTTR")
    yield line(f"{'RUN':<{width}} {'WALL':>8} " + " ".join(f"{head:>{_CELL}}" for head in heads), "dim")
    for each in found.runs:
        yield _row(each, width)
    count = f"total, {counted(len(found.runs), 'run')}"
    yield line(f"{padded(count, width)} {_figures(found.total)}", "heading")


def _row(each: RunGoodput, width: int) -> Line:
    assert each.goodput is not None  # noqa: S101 - the table has only runs with goodput
    return line(f"{padded(name(each.run_id), width)} {_figures(each.goodput)}")


def _figures(found: TimeSpent) -> str:
    means = [found.mean_detect_s, found.mean_recover_s]
    cells = [
        percent(found.ettr),
        *(percent(found.share(found.spent.get(use))) for use in _HEADINGS),
        *("-" if mean is None else format_duration(mean) for mean in means),
    ]
    return f"{format_duration(found.wall_s):>8} " + " ".join(f"{cell:>{_CELL}}" for cell in cells)
