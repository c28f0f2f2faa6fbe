"""The table of conditions in docs/statuses.md, made from the table in the code."""

from collections.abc import Iterator
from pathlib import Path

from lastbeat.model.policy import Policy
from lastbeat.model.signal import Absence
from lastbeat.watch.decide.conditions import table
from support.checkout import ROOT

PAGE = ROOT / "docs" / "statuses.md"
BEGIN, END = "<!-- begin: conditions -->\n", "<!-- end: conditions -->"
RULE = "checkpoint_overdue"
"""Stands for the rules of all catalogues."""


def filled(text: str) -> str:
    """``text`` with the table of conditions as it should be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "".join(f"{line}\n" for line in _rows()) + END + after


def _rows() -> Iterator[str]:
    yield "| condition | what it means |"
    yield "|---|---|"
    meanings: dict[str, list[str]] = {}
    beating = table.while_beating(Policy(absences=(Absence(RULE, "", 0, 0),)))
    for row in (*beating, *table.OF_JOB, *table.BEFORE_THE_FIRST_BEAT):
        meanings.setdefault(row.name, []).append(row.meaning)
    for name, ways in meanings.items():
        yield f"| `{name}`{', …' if name == RULE else ''} | {'; or '.join(ways)} |"


def written() -> dict[Path, str]:
    """The page → its text."""
    return {PAGE: filled(PAGE.read_text(encoding="utf-8"))}
