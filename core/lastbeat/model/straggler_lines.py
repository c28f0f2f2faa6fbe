"""A straggler report in words: for the log in those that people know from NeMo and search for, or as JSON. Pure."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from lastbeat.model.stragglers import StragglerReport

WARNING: Final = "STRAGGLER DETECTION WARNING"
_MOST_TOLD: Final = 64
"""Most affected ranks in one line."""


class ReportLine(NamedTuple):
    """One entry of the log."""

    text: str
    warns: bool = False


def report_lines(report: StragglerReport, most: int, took_s: float) -> Iterator[ReportLine]:
    """``report`` for people. ``most``: so many of the worst and of the best ranks stand there; 0: only warnings do.
    ``took_s``: so long it took."""
    if most:
        for title, found in (("relative", report.scores.relative), ("individual", report.scores.individual)):
            if found:
                yield ReportLine(f"GPU {title} performance:\n{_table(found, report.nodes, most)}")
    if report.worse:
        what = "Some GPUs have worse relative performance"
        yield ReportLine(f"{WARNING}: {what}. Affected ranks: {_ranks(report.worse)}", warns=True)
    if report.dropped:
        what = "Some GPUs performance dropped"
        yield ReportLine(f"{WARNING}: {what}. Affected ranks: {_ranks(report.dropped)}", warns=True)
    if report.slow is not None:
        what = "All ranks alike are slower than they were, so none of them is a straggler"
        yield ReportLine(f"SLOW JOB WARNING: {what}. Score={report.slow:.2f}", warns=True)
    if most:
        yield ReportLine(f"Straggler report processing time: {took_s:.3f} sec.")


def report_json(report: StragglerReport, most: int, took_s: float) -> ReportLine | None:
    """The same as one line of JSON. None: there is nothing to tell."""
    warns = bool(report.worse or report.dropped or report.slow is not None)
    if not (most or warns):
        return None
    told = {"straggler_report": report.number, **report_fields(report), "took_s": round(took_s, 3)}
    for name, found in (("relative", report.scores.relative), ("individual", report.scores.individual)):
        worst = _worst_first(found)
        rows = worst if len(worst) <= 2 * most else [*worst[:most], *worst[-most:]]
        if most and found:
            told[name] = [
                {"rank": rank, "node": report.nodes.get(rank), "score": round(score, 4)} for rank, score in rows
            ]
    return ReportLine(json.dumps(told, ensure_ascii=False), warns)


def report_fields(report: StragglerReport) -> dict[str, Any]:
    """The stragglers in the run's heartbeat: which ranks are slow and where, and whether the job is."""
    scored = report.scores.relative or report.scores.individual
    ranks = [
        {
            "rank": each.rank,
            "node": each.node or None,
            "relative": None if each.relative is None else round(each.relative, 4),
            "individual": None if each.individual is None else round(each.individual, 4),
        }
        for each in report.stragglers[:_MOST_TOLD]
    ]
    nodes = [{"node": node, "ranks": hit, "of": of} for node, (hit, of) in list(report.slow_nodes.items())[:_MOST_TOLD]]
    fields = {
        "number": report.number,
        "scored": len(scored),
        "world_size": report.world,
        "by": report.basis,
        "count": len({*report.worse, *report.dropped}),
        "ranks": [{name: value for name, value in each.items() if value is not None} for each in ranks],
        "nodes": nodes,
        "slow": None if report.slow is None else round(report.slow, 4),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _table(found: Mapping[int, float], nodes: Mapping[int, str], most: int) -> str:
    """The worst and the best; all of them, the worst first, where they are few."""
    worst = _worst_first(found)
    if len(worst) <= 2 * most:
        return "\n".join(_row(*each, nodes) for each in worst)
    rows = [f" Worst performing {most}/{len(worst)} ranks:", *(_row(*each, nodes) for each in worst[:most])]
    best = reversed(worst[-most:])
    return "\n".join([*rows, f" Best performing {most}/{len(worst)} ranks:", *(_row(*each, nodes) for each in best)])


def _row(rank: int, score: float, nodes: Mapping[int, str]) -> str:
    return f"  Rank={rank} Node={nodes.get(rank) or '<unk>'} Score={score:.2f}"


def _worst_first(found: Mapping[int, float]) -> list[tuple[int, float]]:
    return sorted(found.items(), key=lambda each: (each[1], each[0]))


def _ranks(ranks: tuple[int, ...]) -> str:
    told = ", ".join(str(rank) for rank in ranks[:_MOST_TOLD])
    return f"[{told}{f', and {len(ranks) - _MOST_TOLD} more' if len(ranks) > _MOST_TOLD else ''}]"
