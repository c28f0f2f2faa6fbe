"""The tables of docs/signals.md and docs/accuracy.md, made from the code and from the labelled logs."""

import re
from collections.abc import Iterator
from pathlib import Path

from lastbeat.explain.causes.confidence import LEVELS, MEASURED, Grounds
from lastbeat.explain.signals import loading
from lastbeat.explain.signals.error_types import TYPES
from lastbeat.lab.by_repository import repository_of, shares, uses
from lastbeat.lab.calibration import brier, calibration_error
from lastbeat.lab.scoring import Score, ScoreCounts, ScoredCase
from lastbeat.model.times import format_duration
from lastbeat_cli.signals.evaluation import interval
from support.checkout import ROOT
from support.confidence_levels import every_log, every_log_unseen, measured, scored

PAGES = (ROOT / "docs" / "signals.md", ROOT / "docs" / "accuracy.md")
CORPUS = ROOT / "tests" / "corpus"
CATALOGUES = (
    "default", "base", "megatron_basic", "megatron_nccl", "megatron_stall_detection", "megatron_production",
    "huggingface", "lightning", "deepspeed", "jax",
)  # fmt: skip
"""Those that people choose from; the others are parts of them."""

_BLOCK = re.compile(r"(?P<begin><!-- begin: (?P<name>[a-z ]+) -->\n).*?(?P<end><!-- end: (?P=name) -->)", re.DOTALL)


def filled(text: str) -> str:
    """``text`` with each block as it should be."""
    made = {
        "error types": _error_types,
        "catalogues": _catalogues,
        "results": _results,
        "by repository": _by_repository,
        "confidence": _confidence,
    }

    def block(match: "re.Match[str]") -> str:
        return match["begin"] + "".join(f"{line}\n" for line in made[match["name"]]()) + match["end"]

    return _BLOCK.sub(block, text)


def _error_types() -> Iterator[str]:
    yield "| error type | restart? | what it means | what to do where nothing more specific is known |"
    yield "|---|---|---|---|"
    words = {True: "yes", False: "no", None: "it depends"}
    for name, known in TYPES.items():
        yield f"| `{name}` | {words[known.restartable]} | {known.meaning} | {_cell(known.hint)} |"


def _cell(text: str) -> str:
    """``text`` as a cell of a table shows it."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("$", "\\$")


def _catalogues() -> Iterator[str]:
    yield "| catalogue | signals | inactivity | checked each | logs read each | what it is for |"
    yield "|---|---|---|---|---|---|"
    for name in CATALOGUES:
        found = loading.load(name)
        limits = (found.inactivity_s, found.inactivity_check_s, found.poll_s)
        shown = " | ".join("" if limit is None else format_duration(limit) for limit in limits)
        yield f"| `{name}` | {len(found.signals)} | {shown} | {loading.description(name)} |"


def _results() -> Iterator[str]:
    ours, naive = scored(CORPUS).ours, scored(CORPUS).naive
    beside = naive.groups()
    yield "| expected | logs | right type | right or acceptable | evidence within 2 lines | any match |"
    yield "|---|---|---|---|---|---|"
    for name, tally in ours.groups().items():
        shown = f"`{name}`" if name in TYPES else f"**{name}**"
        shares = [_share(part, tally) for part in (tally.accepted, tally.near, beside[name].accepted)]
        yield f"| {shown} | {tally.count} | {tally.right} | {' | '.join(shares)} |"
    yield ""
    yield (
        f"Healthy logs said to have failed: {len(ours.misread)} of {len(ours.healthy)}; "
        f"by any match {len(naive.misread)} of {len(naive.healthy)}."
    )
    yield from _confusions(ours)


def _by_repository() -> Iterator[str]:
    every = every_log()
    repositories = len({repository_of(row.case) for row in every.ours.rows})
    known, unseen = shares(every.ours), shares(every_log_unseen())
    yield f"| {len(every.ours.rows)} logs of {repositories} repositories | all signals | its repository unseen |"
    yield "|---|---|---|"
    for name, share in known.items():
        yield f"| {name} | {interval(share)} | {interval(unseen[name])} |"
    alone = [f"`{use.name}`" for use in uses(every.ours).values() if len(use.repositories) == 1]
    yield ""
    yield f"Signals that show the cause in logs of one repository alone: {len(alone)} of {len(uses(every.ours))}."


def _confidence() -> Iterator[str]:
    found = measured()
    yield "| what the cause rests on | said | right, its repository unseen | right, all signals |"
    yield "|---|---|---|---|"
    for grounds in Grounds:
        level = LEVELS[grounds]
        parts = [_right(rows, grounds) for rows in (found.unseen, found.seen)]
        said = f"{level:.0%}" if grounds in MEASURED else f"{level:.0%} or so, a guess"
        yield f"| {grounds.value} | {said} | {' | '.join(parts)} |"
    yield ""
    for name, rows in (
        ("its repository unseen", found.unseen),
        ("the same, with levels measured without it", found.crosswise),
        ("all signals", found.seen),
    ):
        yield f"- {name}: Brier score {brier(rows):.3f}, expected calibration error {calibration_error(rows):.3f}"


def _right(rows: list[ScoredCase], grounds: Grounds) -> str:
    of = [row for row in rows if row.diagnosis.grounds == grounds.value]
    accepted, right = sum(row.accepted for row in of), sum(row.right for row in of)
    return f"{accepted} of {len(of)} ({right} the first choice)" if of else "no log"


def _confusions(ours: Score) -> Iterator[str]:
    if ours.confusions:
        told = (f"{expected} as {got} ({', '.join(ids)})" for (expected, got), ids in ours.confusions.items())
        yield f"Taken for something else: {'; '.join(told)}."


def _share(part: int, tally: ScoreCounts) -> str:
    return f"{part} ({part * 100 // tally.count}%)" if tally.count else "0"


def written() -> dict[Path, str]:
    """Each page → its text."""
    return {page: filled(page.read_text(encoding="utf-8")) for page in PAGES}
