"""``report compare``: several runs beside each other."""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import click

from lastbeat.alerts.facts import number
from lastbeat.model.text import counted, one_line
from lastbeat.model.view import RunView
from lastbeat.settings import SettingsError, opening
from lastbeat.views.choosing import ChosenRun, choose
from lastbeat.views.comparison import RUNS_MOST, ComparedRun, Comparison, Reached, compare, comparison_document
from lastbeat.views.lines import paint, signs
from lastbeat.views.lines.paint import Line
from lastbeat.views.lines.signs import Signs, harmless, middle_cut, padded
from lastbeat_cli import exits, logs, options, values
from lastbeat_cli.document import tell
from lastbeat_cli.fleet import cells

_SPARK: Final = 16
_LEAST_COLUMNS: Final = 12
"""Least columns of a run in the table. Where the terminal has less room, further runs follow below."""
EPILOG = """\
Exit status:
  0  done
  3  fewer than two runs, or one that could not be read; also wrong settings or arguments

Examples:
  lastbeat compare llama-lr1e-4 llama-lr3e-4
  lastbeat compare 'llama-*'
  lastbeat compare 'llama-*' --json | jq '.runs[] | [.run_id, .figures.loss.least]'

Figures are those of the curves that a run keeps, or else of its latest points. Of each, the table has the last and the
least value.
"""


@click.command("compare", cls=options.Grouped, epilog=EPILOG)
@options.argument("runs", "RUN...", "Ids or quoted globs, at most 20 runs.", group="Which runs")
@options.place
@options.form
def command(*, runs: tuple[str, ...], as_json: bool, **given: str | None) -> int:
    """Show runs beside each other: what their configurations do not share, their figures and their losses."""
    faults: list[str] = []
    values.check_globs(runs, faults)
    settings = values.settings(given, faults)
    found = compared(choose(settings, opening.store(settings), runs, curves=True))
    if not 2 <= len(found.runs) <= RUNS_MOST:
        what = f"2 to {RUNS_MOST} runs can be compared, and these are {counted(len(found.runs), 'run')}"
        raise SettingsError([f"{what}; name others, or use a glob: lastbeat compare 'llama-*'"])
    if as_json:
        tell(comparison_document(found), (), as_json=True)
    else:
        paint.show(list(comparison_lines(found, paint.width(sys.stdout), signs.of(sys.stdout))))
    return exits.OK


def compared(runs: Sequence[ChosenRun]) -> Comparison:
    """Those of ``runs`` that were seen, beside each other."""
    kept = {run.run_id: run.curves for run in runs if run.curves is not None}
    return compare([run.view for run in runs if run.view is not None], kept)


def comparison_lines(found: Comparison, columns: int, made_of: Signs) -> Iterator[Line]:
    """The table: a line for each fact and a column for each run; as many tables as the width asks for."""
    rows = [(name, of) for name, of in _rows(found, made_of) if any(map(of, found.runs))]
    first = min(max(paint.cells(name) for name, _ in rows), columns // 3)
    room = max(1, (columns - first) // (_LEAST_COLUMNS + 2))
    for start in range(0, len(found.runs), room):
        some = found.runs[start : start + room]
        wide = (columns - first) // len(some) - 2
        if start:
            yield ()
        yield (
            (" " * first, ""),
            *((f"  {padded(middle_cut(harmless(run.view.row.run_id), wide), wide)}", "heading") for run in some),
        )
        for name, of in rows:
            texts = (paint.cut(logs.redact(one_line(of(run))), wide) for run in some)
            yield (
                (padded(middle_cut(name, first), first), "dim"),
                *((f"  {padded(text, wide)}", "") for text in texts),
            )
    if found.same:
        yield paint.line(f"{counted(found.same, 'key of the configuration is', 'keys are')} the same", "dim")


def _rows(found: Comparison, made_of: Signs) -> Iterator[tuple[str, Callable[[ComparedRun], str]]]:
    """Name of a fact → its text for a run."""
    yield "status", lambda run: f"{made_of.of(signs.word(run.view.row))} {signs.word(run.view.row)}"
    yield "step", lambda run: cells.steps(run.view.row, cells.Sight(run.view.at, made_of))[0]
    yield "speed", lambda run: _speed(run.view)
    yield "loss curve", lambda run: signs.spark([loss for _, loss in run.curve], _SPARK, made_of)
    for name in found.figures:
        yield harmless(name, 100), lambda run, name=name: _figure(run.figures.get(name))  # type: ignore[misc]
    for key in found.keys:
        yield harmless(key, 100), lambda run, key=key: harmless(str(run.config.get(key, "")), 100)  # type: ignore[misc]
    if any(run.view.row.tags for run in found.runs):
        yield "tags", lambda run: harmless(", ".join(run.view.row.tags))


def _speed(view: RunView) -> str:
    row = view.row
    if row.tokens_per_s is not None:
        return f"{cells.si(row.tokens_per_s)} tokens/s"
    return "" if row.steps_per_s is None else f"{number(row.steps_per_s, 3)} steps/s"


def _figure(figure: Reached | None) -> str:
    if figure is None or figure.last is None:
        return ""
    least = "" if figure.least is None or figure.least == figure.last else f" (least {number(figure.least)})"
    return f"{number(figure.last)}{least}"
