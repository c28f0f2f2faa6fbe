"""How sure causes are, measured on the labelled logs.

    PYTHONPATH=core:cli:tests .venv/bin/python -m support.confidence_levels

writes the measured numbers of core/lastbeat/explain/causes/confidence.py anew, and the table of docs/accuracy.md.

The logs of each repository are read without the signals that they alone need, as if nobody had seen them: rules that
have seen a log are right about it nearly always, which says nothing of other logs.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from lastbeat.explain.causes.confidence import MEASURED, MOST, Grounds
from lastbeat.explain.signals import loading
from lastbeat.lab.by_repository import repository_of, share
from lastbeat.lab.calibration import diagnosed
from lastbeat.lab.scoring import Score, ScoredCase
from lastbeat_cli.signals.labelled_folders import AllFolders, FolderScorer, ScoredFolder, together
from support.checkout import ROOT

CORPORA = (ROOT / "tests" / "corpus", ROOT / "tests" / "corpus_further")
MODULE = ROOT / "core" / "lastbeat" / "explain" / "causes" / "confidence.py"
_CAUTION: Final = 0.674490
"""Standard deviations: three of four true values lie above the lower end of such an interval."""
FEWEST: Final = 10
"""From fewer logs nothing is measured."""
_BLOCK = re.compile(r"(?<=\nMEASURED: Final\[Mapping\[Grounds, float\]\] = \{\n).*?(?=\n?\}\n)", re.DOTALL)


@dataclass(frozen=True)
class Measurement:
    """The causes that were said of the labelled logs."""

    seen: list[ScoredCase]
    """With all signals."""
    unseen: list[ScoredCase]
    """Each repository's logs as if nobody had seen them."""
    crosswise: list[ScoredCase]
    """The same with confidence as it would be without their repository."""
    levels: dict[Grounds, float]
    """As measured now; the code may be a little behind."""


def levels(rows: Iterable[ScoredCase]) -> dict[Grounds, float]:
    """For each kind of grounds how sure causes on them are; kinds with fewer than :data:`FEWEST` logs are left out.

    It is how many were right (no mistake), at the lower end of the interval that :func:`share` gives for 50 %: the
    fewer repositories they come from, the lower. For rules are always better on logs that their authors have seen.
    """
    of: dict[Grounds, list[ScoredCase]] = {}
    for row in rows:
        if row.diagnosis.grounds:
            of.setdefault(Grounds(row.diagnosis.grounds), []).append(row)
    return {
        grounds: min(MOST, round(share(of[grounds], lambda row: row.accepted, _CAUTION).low, 2))
        for grounds in Grounds
        if len(of.get(grounds, ())) >= FEWEST
    }


def crosswise(rows: Sequence[ScoredCase], now: Mapping[Grounds, float]) -> list[ScoredCase]:
    """``rows`` with the confidence that would have been said had the levels been measured without the row's repository:
    cross-validation by repository. ``now``: the levels that the rows' confidence was made of."""
    found = []
    for repository in sorted({repository_of(row.case) for row in rows}):
        own = [row for row in rows if repository_of(row.case) == repository]
        of_others = levels(row for row in rows if repository_of(row.case) != repository)
        found += [_moved(row, of_others, now) for row in own]
    return found


def _moved(row: ScoredCase, then: Mapping[Grounds, float], now: Mapping[Grounds, float]) -> ScoredCase:
    said = row.diagnosis
    grounds = Grounds(said.grounds) if said.grounds else None
    if grounds is None or grounds not in then or grounds not in now:
        return row
    confidence = min(1.0, max(0.0, (said.confidence or 0.0) + then[grounds] - now[grounds]))
    return replace(row, diagnosis=replace(said, confidence=confidence))


@cache
def _scorer() -> FolderScorer:
    return FolderScorer(loading.load(loading.DEFAULT))


@cache
def scored(folder: Path) -> ScoredFolder:
    """The labelled logs of ``folder``, read with all signals."""
    return _scorer().score(folder)


@cache
def every_log() -> AllFolders:
    return together([scored(folder) for folder in CORPORA])


@cache
def every_log_unseen() -> Score:
    """All labelled logs, each read without the signals that are there for its repository alone."""
    return _scorer().unseen(every_log())


def measured() -> Measurement:
    """All labelled logs, with all signals and with fewer."""
    unseen = diagnosed(every_log_unseen())
    return Measurement(diagnosed(every_log().ours), unseen, crosswise(unseen, MEASURED), levels(unseen))


def written(text: str, found: dict[Grounds, float]) -> str:
    """The module's text with the numbers as measured."""
    rows = "\n".join(f"    Grounds.{grounds.name}: {level:g}," for grounds, level in found.items())
    return _BLOCK.sub(lambda _: rows, text)


if __name__ == "__main__":
    MODULE.write_text(written(MODULE.read_text(encoding="utf-8"), measured().levels), encoding="utf-8")
