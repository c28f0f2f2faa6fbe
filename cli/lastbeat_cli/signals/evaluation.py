"""``signals eval``: how well a catalogue does on labelled logs."""

from collections.abc import Iterator
from pathlib import Path

import click

from lastbeat.causes import scoring
from lastbeat.causes.explaining import explain_text
from lastbeat.causes.scoring import Case, LabelsError, Score, ScoreCounts, ScoredCase
from lastbeat.model.signal import Catalogue
from lastbeat.scanning.matching import matcher_of
from lastbeat.scanning.splitting import Line, Splitter
from lastbeat.settings import SettingsError
from lastbeat_cli import exits, logs, options
from lastbeat_cli.document import dump
from lastbeat_cli.signals import command as signals

INDEX = "index.jsonl"
MOST_BYTES = 64 * 1024 * 1024
"""Of one log, and of the index."""
EPILOG = """\
\b
The index has one JSON object a line:
  id, file (below DIR), label (an error type, or none for a healthy log),
  first_cause_lineno (from 1, of the line that shows the cause);
  optional acceptable_labels, provenance, cascade.

\b
Exit status:
  0  it was scored
  3  the index or a log could not be read; also wrong settings or arguments
"""


@click.command("eval", cls=options.Grouped, epilog=EPILOG, context_settings=options.HELP)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@signals.which
@options.form
def evaluate(*, folder: Path, given: str | None, as_json: bool, verbose: bool) -> int:
    """Score a catalogue on the labelled logs of DIR, which DIR/index.jsonl lists.

    How many failures get the right error type, and how many the line that shows it; which were taken for what; which
    healthy logs were misread; and what the first match of any of the same signals would have said.
    """
    logs.verbose(on=verbose)
    catalogue = signals.catalogue(given)
    ours, naive = scores(folder, catalogue)
    if as_json:
        print(dump(_document(ours, naive, catalogue)))
    else:
        print("\n".join(_lines(ours, naive, catalogue, folder)))
    return exits.OK


def scores(folder: Path, catalogue: Catalogue) -> tuple[Score, Score]:
    """The catalogue's score on the logs of ``folder``, and the score of the first match of any of its signals."""
    try:
        index = _read(folder / INDEX).decode("utf-8")
        cases = scoring.read_index(index, str(folder / INDEX), catalogue.error_types)
    except LabelsError as fault:
        raise SettingsError(str(fault).splitlines()) from None
    except UnicodeDecodeError:
        raise SettingsError([f"{folder / INDEX} is not UTF-8 text"]) from None
    texts = {case.id: _read(folder / case.file) for case in cases}
    matcher = matcher_of(catalogue)

    def ours(case: Case) -> scoring.Diagnosis:
        return scoring.diagnosis_of(explain_text(texts[case.id], catalogue, case.file))

    def naive(case: Case) -> scoring.Diagnosis:
        return scoring.any_match(_lines_of(texts[case.id]), matcher)

    return scoring.score(cases, ours), scoring.score(cases, naive)


def _lines_of(text: bytes) -> Iterator[Line]:
    splitter = Splitter()
    for batch in (splitter.feed(text), splitter.finish()):
        yield from (batch.line(index) for index in range(len(batch)))


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES)
    except OSError as fault:
        hint = f"; DIR needs {INDEX}, see lastbeat signals eval --help" if path.name == INDEX else ""
        raise SettingsError([f"{path}: {fault.strerror}{hint}"]) from None


def _lines(ours: Score, naive: Score, catalogue: Catalogue, folder: Path) -> Iterator[str]:
    yield f"Catalogue {catalogue.name} on the {len(ours.rows)} logs of {folder}"
    yield ""
    yield f"{'':<24} {'logs':>5} {'right type':>11} {'or acceptable':>14} {'its line':>9} {'any match':>10}"
    beside = naive.groups()
    for name, tally in ours.groups().items():
        if name == "all failures":
            yield ""
        yield (
            f"{name:<24} {tally.count:>5} {_share(tally.right, tally):>11} {_share(tally.accepted, tally):>14} "
            f"{_share(tally.near, tally):>9} {_share(beside[name].accepted, tally):>10}"
        )
    yield ""
    healthy = len(ours.healthy)
    yield f"Healthy logs misread: {len(ours.misread)} of {healthy}; by any match {len(naive.misread)} of {healthy}"
    yield from (f"  {row.case.id}: {row.said}, line {row.diagnosis.line}" for row in ours.misread)
    if ours.confusions:
        yield "Confusions (expected → got):"
        for (expected, got), ids in ours.confusions.items():
            yield f"  {expected} → {got}: {', '.join(ids)}"
    elsewhere = [row for row in ours.failures if not row.near and row.diagnosis.line is not None]
    if elsewhere:
        yield f"Evidence more than {scoring.NEAR_LINES} lines off (expected → got):"
        yield from (f"  {row.case.id}: line {row.case.line} → {row.diagnosis.line}" for row in elsewhere)
    yield ""
    yield "any match: the type of the first line that any failure signal of the catalogue matches, right or acceptable"


def _share(part: int, tally: ScoreCounts) -> str:
    return f"{part} ({part * 100 // tally.count}%)" if tally.count else "-"


def _document(ours: Score, naive: Score, catalogue: Catalogue) -> dict[str, object]:
    return {
        "catalogue": catalogue.name,
        "logs": len(ours.rows),
        "groups": {name: _tally(tally) for name, tally in ours.groups().items()},
        "healthy": len(ours.healthy),
        "misread": [_row(row) for row in ours.misread],
        "wrong": [_row(row) for row in ours.failures if not row.accepted],
        "elsewhere": [_row(row) for row in ours.failures if not row.near],
        "any_match": {
            "groups": {name: _tally(tally) for name, tally in naive.groups().items()},
            "misread": [row.case.id for row in naive.misread],
        },
    }


def _tally(tally: ScoreCounts) -> dict[str, int]:
    return {"logs": tally.count, "right": tally.right, "accepted": tally.accepted, "near": tally.near}


def _row(row: ScoredCase) -> dict[str, object]:
    case, diagnosis = row.case, row.diagnosis
    return {"id": case.id, "expected": case.label, "got": row.said, "line": case.line, "got_line": diagnosis.line}
