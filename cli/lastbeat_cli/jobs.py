"""``jobs``: list the supervised runs of a fleet and their supervisors."""

import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Final

import click

from lastbeat.fleet.all_records import FleetRecords, all_records, ended_long_ago, never_supervised
from lastbeat.fleet.index import FleetIndex
from lastbeat.model.text import counted, one_line
from lastbeat.model.times import format_duration
from lastbeat.settings import opening
from lastbeat.stores.port import MissingStoreError
from lastbeat.views.jobs import JobRow, in_order, job_row, jobs_document
from lastbeat.views.safe import Safe
from lastbeat.watch.observe.fleet import RunFiles
from lastbeat.watch.record.agent_mark import agent_at_work
from lastbeat_cli import exits, logs, options, values
from lastbeat_cli.document import dump
from lastbeat_cli.run import one_run
from lastbeat_cli.terminal import paint
from lastbeat_cli.terminal.paint import Line, cells, cut, line

WHICH = "Which jobs"
_LIMIT_S: Final = 300.0
_EPILOG = """\
\b
Exit status:
  0  the jobs were printed, even if there are none
  3  the fleet could not be read; also wrong settings or arguments

\b
Examples:
  lastbeat restart jobs
  lastbeat restart jobs --all --json
  lastbeat restart jobs --json | jq -r '.jobs[] | select(.alone) | .resume'
"""


@click.command("jobs", cls=options.Grouped, epilog=_EPILOG)
@options.option("--all", "every", is_flag=True, group=WHICH, help="Include runs that are over.")
@options.place
@options.form
def command(*, every: bool, as_json: bool, **given: str | None) -> int:
    """List the runs whose jobs lastbeat starts, with job, restarts, remaining budgets and supervisor.

    This command reads only records, no launcher, so it shows each job's state as its supervisor last saw it.
    """
    faults: list[str] = []
    settings = values.settings(given, faults)
    store = opening.store(settings)
    until = time.monotonic() + _LIMIT_S
    try:
        found = all_records(store, until=until, skip=never_supervised if every else _not_running)
    except MissingStoreError as fault:
        raise one_run.missing(fault) from None
    agents = cache(lambda launcher: agent_at_work(store, launcher, found.at))
    safe = Safe(settings.redactor)
    rows = [row for record in found.read(until) if (row := job_row(record, found.at, agents, safe)) is not None]
    shown = in_order([row for row in rows if every or not row.line.over])
    notes = list(_notes(found))
    hidden = len(rows) - len(shown)
    if as_json:
        print(dump(jobs_document(shown, root=opening.root_url(settings), at=found.at, notes=notes, hidden=hidden)))
        return exits.OK
    columns = paint.width(sys.stdout)
    told = [*_table(shown, found.at, columns), *_below(shown, hidden, opening.root_url(settings), every=every)]
    paint.show([*told, *(line(f"Note: {note}", "dim") for note in notes)])
    return exits.OK


def _not_running(index: FleetIndex, run: RunFiles) -> bool:
    return never_supervised(index, run) or ended_long_ago(index, run)


_COLUMNS: Final = ("RUN", "STATUS", "JOB", "STATE", "ATTEMPT", "RESTARTS", "BUDGET LEFT", "NEXT", "SUPERVISED BY")


def _table(rows: Sequence[JobRow], at: datetime, columns: int) -> Iterator[Line]:
    filled = [_cells(row, at) for row in rows]
    if not filled:
        return
    kept = [index for index, name in enumerate(_COLUMNS) if name != "NEXT" or any(each[index] for each in filled)]
    widths = [max(cells(_COLUMNS[index]), *(cells(each[index]) for each in filled)) for index in kept]
    heading = "  ".join(f"{_COLUMNS[index]:<{width}}" for index, width in zip(kept, widths, strict=True))
    yield line(cut(heading.rstrip(), columns), "dim")
    for row, each in zip(rows, filled, strict=True):
        text = "  ".join(
            f"{each[index]}{' ' * (width - cells(each[index]))}" for index, width in zip(kept, widths, strict=True)
        )
        yield line(cut(text.rstrip(), columns), "mark" if row.alone else "")
        if row.resume is not None:
            yield line(f"    → {row.resume}", "mark")


def _cells(row: JobRow, at: datetime) -> tuple[str, ...]:
    told, job = row.line, row.line.job
    restarts = told.ruling.attempt if told.ruling is not None and told.ruling.restart and told.restarts else ""
    budgets = (f"{each.name} {'∞' if each.left is None else each.left}" for each in told.budgets or ())
    by = told.supervised_by or (f"agent {row.agent}" if row.agent is not None else "")
    return tuple(
        one_line(text)
        for text in (
            row.run_id,
            row.status.value,
            f"{told.launcher} {job.id if job is not None else '-'}",
            job.state.value if job is not None else "not started",
            str(row.attempt),
            f"{told.restarts} ({restarts})" if restarts else str(told.restarts),
            ", ".join(budgets) if told.budgets is not None else ("?" if told.policy else "no policy"),
            _next(row, at),
            by or ("" if told.over else "nobody"),
        )
    )


def _next(row: JobRow, at: datetime) -> str:
    starts_at = row.line.starts_at
    if row.line.next_job is None:
        return ""
    left_s = 0.0 if starts_at is None else (starts_at - at).total_seconds()
    return f"in {format_duration(left_s)}" if left_s > 0 else "now"


def _below(rows: Sequence[JobRow], hidden: int, root: str, *, every: bool) -> Iterator[Line]:
    if not rows:
        yield line(f"No supervised run {'is' if every else 'runs'} in {root}.")
    if hidden:
        yield line(f"{counted(hidden, 'supervised run is', 'supervised runs are')} over: lastbeat jobs --all", "dim")


def _notes(found: FleetRecords) -> Iterator[str]:
    if found.partial is not None:
        yield logs.redact(found.partial)
    if found.unread:
        yield f"{counted(found.unread, 'record was', 'records were')} not read: there are too many, or no time was left"
    if found.unusable:
        run_id, why = next(iter(found.faults.items()))
        yield logs.redact(f"{counted(found.unusable, 'run')} could not be looked at; {run_id}: {why}")
