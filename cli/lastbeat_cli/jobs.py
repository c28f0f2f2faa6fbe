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
from lastbeat.views.jobs import JobRow, in_order, job_row, jobs_document
from lastbeat.views.lines import paint
from lastbeat.views.lines.paint import Line, cut, line
from lastbeat.views.lines.paint import columns as columns_of
from lastbeat.views.safe import Safe
from lastbeat.watch.observe.fleet import RunFiles
from lastbeat.watch.record.agent_mark import agent_at_work
from lastbeat_cli import exits, logs, options, values
from lastbeat_cli.document import dump

WHICH = "Which jobs"
_LIMIT_S: Final = 300.0
_EPILOG = """\
Exit status:
  0  the jobs were printed, even if there are none
  3  the fleet could not be read; also wrong settings or arguments

Examples:
  lastbeat restart jobs
  lastbeat restart jobs --all --json
  lastbeat restart jobs --json | jq -r '.jobs[] | select(.alone) | .resume'
"""


@click.command("jobs", cls=options.Grouped, epilog=_EPILOG)
@options.option("--all", "Include runs that are over.", WHICH, name="every")
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
    found = all_records(store, until=until, skip=never_supervised if every else _not_running)
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


_NEXT: Final = "NEXT"
"""A column that is left out if no job waits for its start."""
_COLUMNS: Final = ("RUN", "STATUS", "JOB", "STATE", "ATTEMPT", "RESTARTS", "BUDGET LEFT", _NEXT, "SUPERVISED BY")


def _table(rows: Sequence[JobRow], at: datetime, columns: int) -> Iterator[Line]:
    if not rows:
        return
    filled = [_cells(row, at) for row in rows]
    starts = any(each[_COLUMNS.index(_NEXT)] for each in filled)
    shown = columns_of([[name if starts or name != _NEXT else "" for name in _COLUMNS], *filled])
    yield line(cut(shown[0], columns), "dim")
    for row, text in zip(rows, shown[1:], strict=True):
        yield line(cut(text, columns), "mark" if row.alone else "")
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
