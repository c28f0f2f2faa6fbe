"""``signals eval``: score a catalogue on labelled logs."""

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from lastbeat.lab import by_repository, scoring
from lastbeat.lab.by_repository import BoundedShare, SignalUse, shares
from lastbeat.lab.calibration import brier, calibration_error, diagnosed, reliability
from lastbeat.lab.scoring import Score, ScoreCounts, ScoredCase
from lastbeat.model.as_json import picked
from lastbeat.model.secrets import mask_tokens
from lastbeat.model.signal import Catalogue
from lastbeat.model.text import counted
from lastbeat.settings import SettingsError
from lastbeat_cli import exits, logs, options
from lastbeat_cli.document import tell
from lastbeat_cli.signals import command as signals
from lastbeat_cli.signals.labelled_folders import AllFolders, FolderScorer, ScoredFolder, together, without_repeats

EPILOG = """\
The index has one JSON object a line:
  id, file (below DIR), label (an error type, or none for a healthy log),
  first_cause_lineno (from 1, of the line that shows the cause);
  optional acceptable_labels, provenance, cascade, and for --unseen and --rules
  source (owner/name of the repository that it comes from) and framework.

Exit status:
  0  the catalogue was scored
  3  the index or a log of some DIR could not be read (the other folders are
     scored anyway); also wrong settings or arguments
"""


@click.command("eval", cls=options.Grouped, epilog=EPILOG)
@click.argument("named", metavar="DIR…", nargs=-1, required=True, type=click.Path(path_type=Path))
@signals.which
@options.option(
    "--unseen", "Also score each repository's logs without the signals that no other repository's logs need."
)
@options.option("--rules", "List the signals that revealed a cause, with the number of logs and repositories.")
@options.form
def evaluate(*, named: tuple[Path, ...], given: str | None, unseen: bool, rules: bool, as_json: bool) -> int:
    """Score a catalogue on the labelled logs of each DIR, which DIR/index.jsonl lists.

    Prints the share of failures with the right error type and the right line, the confusions, and the misread healthy
    logs. For comparison, prints the result of the first match of any signal. Also shows whether causes with a higher
    confidence were right more often. Several folders are scored each by itself and then together, where logs with the
    same content count once.
    """
    catalogue = signals.catalogue(given)
    folders, notes = without_repeats(named)
    scorer = FolderScorer(catalogue)
    asked = [(folder, _scored(scorer, folder)) for folder in folders]
    scored = [each for _, each in asked if isinstance(each, ScoredFolder)]
    unread = [(folder, each.faults) for folder, each in asked if isinstance(each, SettingsError)]
    if not scored:
        raise SettingsError([fault for _, faults in unread for fault in faults])
    every = together(scored)
    left_out = [f"{folder} could not be read, so its logs count nowhere" for folder, _ in unread]
    notes = [*notes, *every.twice, *left_out]
    more = _More(scorer.unseen(every) if unseen else None, scorer.rules(every) if rules else None)
    # Names of folders and logs are as untrusted as logs.
    document = _document(scored, every, more, notes, catalogue)
    tell(document, map(mask_tokens, _lines(scored, every, more, notes, catalogue)), as_json=as_json)
    for folder, faults in unread:
        for line in (f"Error: {folder} was not scored:", *(f"  {fault}" for fault in faults)):
            print(mask_tokens(logs.shown(line)), file=sys.stderr)
    return exits.UNKNOWN if unread else exits.OK


def _scored(scorer: FolderScorer, folder: Path) -> ScoredFolder | SettingsError:
    try:
        return scorer.score(folder)
    except SettingsError as fault:
        return fault


@dataclass(frozen=True, slots=True)
class _More:
    """The optional parts of the result; None if not requested."""

    unseen: Score | None
    rules: list[SignalUse] | None


def _lines(
    folders: Sequence[ScoredFolder], every: AllFolders, more: _More, notes: Sequence[str], catalogue: Catalogue
) -> Iterator[str]:
    for folder in folders:
        yield f"Catalogue {catalogue.name} on the {len(folder.ours.rows)} logs of {folder.name}"
        yield ""
        yield from _table(folder.ours, folder.naive)
        yield from _mistakes(folder.ours)
        yield ""
    if len(folders) > 1:
        yield f"All {len(every.ours.rows)} logs of {len(folders)} folders"
        yield ""
        yield from _table(every.ours, every.naive)
        yield ""
    yield from _reliability(every.ours)
    if more.unseen is not None:
        yield from _beside(every.ours, more.unseen)
        yield ""
    if more.rules is not None:
        yield from _rules(more.rules)
        yield ""
    yield from (f"Note: {note}" for note in notes)
    yield "any match: the type of the first line that any failure signal of the catalogue matches, right or acceptable"


def _reliability(ours: Score) -> Iterator[str]:
    found = diagnosed(ours)
    if not found:
        return
    yield f"{'How sure, and how often right':<34} {'causes':>6} {'right type':>11} {'or acceptable':>14}"
    for each in reliability(found):
        right, accepted = (f"{part} ({part * 100 // each.logs}%)" for part in (each.right, each.accepted))
        yield f"  {f'said {each.said * 100:.0f}%':<32} {each.logs:>6} {right:>11} {accepted:>14}"
    yield f"Brier score {brier(found):.3f}, expected calibration error {calibration_error(found):.3f}"
    yield ""


def _beside(ours: Score, unseen: Score) -> Iterator[str]:
    repositories = len({by_repository.repository_of(row.case) for row in ours.rows})
    yield f"By repository ({repositories}), with the 95 % interval of logs like these:"
    yield f"{'':<24} {'all signals':>24} {'its repository unseen':>24}"
    for (name, known), other in zip(shares(ours).items(), shares(unseen).values(), strict=True):
        yield f"{name:<24} {interval(known):>24} {interval(other):>24}"


def interval(known: BoundedShare) -> str:
    """``97 of 99 (92-99%)``."""
    if not known.count:
        return "-"
    # The bounds are rounded outwards.
    return f"{known.part} of {known.count} ({int(known.low * 100)}-{min(100, math.ceil(known.high * 100))}%)"


def _rules(rules: Sequence[SignalUse]) -> Iterator[str]:
    yield "Signals that showed a cause, those that the fewest repositories need first:"
    yield f"{'':<32} {'shows the cause in':>26} {'matches a line in':>26}"
    for use in rules:
        shows, matches = _of(len(use.logs), len(use.repositories)), _of(use.matched_logs, use.matched_repositories)
        yield f"{use.name:<32} {shows:>26} {matches:>26}" + (f"  {use.logs[0]}" if len(use.logs) == 1 else "")


def _of(logs_: int, repositories: int) -> str:
    return f"{counted(logs_, 'log')} of {counted(repositories, 'repository', 'repositories')}"


def _table(ours: Score, naive: Score) -> Iterator[str]:
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
    by_provenance = ours.misread_by_provenance()
    if len(by_provenance) > 1:
        yield from (f"  of {name}: {misread} of {count}" for name, (misread, count) in by_provenance.items())


def _mistakes(ours: Score) -> Iterator[str]:
    yield from (f"  {row.case.id}: {row.answer}, line {row.diagnosis.line}" for row in ours.misread)
    if ours.confusions:
        yield "Confusions (expected → got):"
        for (expected, got), ids in ours.confusions.items():
            yield f"  {expected} → {got}: {', '.join(ids)}"
    elsewhere = [row for row in ours.failures if not row.near and row.diagnosis.line is not None]
    if elsewhere:
        yield f"Evidence more than {scoring.NEAR_LINES} lines off (expected → got):"
        yield from (f"  {row.case.id}: line {row.case.line} → {row.diagnosis.line}" for row in elsewhere)


def _share(part: int, tally: ScoreCounts) -> str:
    return f"{part} ({part * 100 // tally.count}%)" if tally.count else "-"


def _document(
    folders: Sequence[ScoredFolder], every: AllFolders, more: _More, notes: Sequence[str], catalogue: Catalogue
) -> dict[str, object]:
    """The result for all folders together, and for each folder."""
    return {
        "catalogue": catalogue.name,
        **_scores(every.ours, every.naive),
        "confidence": _confidence(every.ours),
        **({} if more.unseen is None else {"unseen": _unseen(every.ours, more.unseen)}),
        **({} if more.rules is None else {"rules": [_rule(use) for use in more.rules]}),
        "folders": [{"folder": each.name, **_scores(each.ours, each.naive)} for each in folders],
        "notes": list(notes),
    }


def _scores(ours: Score, naive: Score) -> dict[str, object]:
    return {
        "logs": len(ours.rows),
        "groups": {name: _tally(tally) for name, tally in ours.groups().items()},
        "healthy": len(ours.healthy),
        "healthy_by_provenance": {
            name: {"logs": count, "misread": misread} for name, (misread, count) in ours.misread_by_provenance().items()
        },
        "misread": [_row(row) for row in ours.misread],
        "wrong": [_row(row) for row in ours.failures if not row.accepted],
        "elsewhere": [_row(row) for row in ours.failures if not row.near],
        "any_match": {
            "groups": {name: _tally(tally) for name, tally in naive.groups().items()},
            "misread": [row.case.id for row in naive.misread],
        },
    }


def _confidence(ours: Score) -> dict[str, object]:
    found = diagnosed(ours)
    return {
        "said": [asdict(each) for each in reliability(found)],
        "brier": round(brier(found), 4),
        "calibration_error": round(calibration_error(found), 4),
    }


def _unseen(ours: Score, unseen: Score) -> dict[str, object]:
    beside = zip(shares(ours).items(), shares(unseen).values(), strict=True)
    return {name: {"all_signals": asdict(known), "repository_unseen": asdict(other)} for (name, known), other in beside}


def _rule(use: SignalUse) -> dict[str, object]:
    return {"signal": use.name, **picked(use, "logs repositories matched_logs matched_repositories")}


def _tally(tally: ScoreCounts) -> dict[str, object]:
    return {"logs": tally.count, **picked(tally, "right accepted near")}


def _row(row: ScoredCase) -> dict[str, object]:
    case, diagnosis = row.case, row.diagnosis
    return {"id": case.id, "expected": case.label, "got": row.answer, "line": case.line, "got_line": diagnosis.line}
