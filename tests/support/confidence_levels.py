"""How sure causes are, measured on the labelled logs.

    PYTHONPATH=core:cli:tests .venv/bin/python -m support.confidence_levels

writes the measured numbers of core/lastbeat/causes/confidence.py anew, and the tables of docs/signals.md.

The logs of each repository are read without the signals that they alone need, as if nobody had seen them: rules that
have seen a log are right about it nearly always, which says nothing of other logs.
"""

import re
from dataclasses import dataclass

from lastbeat.causes.calibration import crosswise, levels, told
from lastbeat.causes.confidence import MEASURED, Grounds
from lastbeat.causes.scoring import ScoredCase
from lastbeat.signals import loading
from lastbeat_cli.signals.labelled_folders import FolderScorer, together
from support.checkout import ROOT

CORPORA = (ROOT / "tests" / "corpus", ROOT / "tests" / "corpus_further")
MODULE = ROOT / "core" / "lastbeat" / "causes" / "confidence.py"
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


def measured() -> Measurement:
    """Read all labelled logs, with all signals and with fewer."""
    scorer = FolderScorer(loading.load(loading.DEFAULT))
    every = together([scorer.score(folder) for folder in CORPORA])
    unseen = told(scorer.unseen(every))
    return Measurement(told(every.ours), unseen, crosswise(unseen, MEASURED), levels(unseen))


def written(text: str, found: dict[Grounds, float]) -> str:
    """The module's text with the numbers as measured."""
    rows = "\n".join(f"    Grounds.{grounds.name}: {level:g}," for grounds, level in found.items())
    return _BLOCK.sub(lambda _: rows, text)


if __name__ == "__main__":
    MODULE.write_text(written(MODULE.read_text(encoding="utf-8"), measured().levels), encoding="utf-8")
