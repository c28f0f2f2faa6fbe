"""The alarms that learned limits would have raised in a fleet, as lines for people and as a document."""

import statistics
from collections.abc import Iterator
from typing import Final

from lastbeat.lab.past_timeouts import Came, LongWait, PastTimeouts
from lastbeat.model.text import counted, fit, one_line
from lastbeat.model.times import format_duration, format_time
from lastbeat_cli.backtest.kept_times import FleetTimeouts
from lastbeat_cli.terminal.paint import Line, cut, line, wrapped

SCHEMA: Final = 1
_SHOWN: Final = 60
_NAME: Final = 60
_MOST_TOLD: Final = 100


def timeout_lines(found: FleetTimeouts, columns: int) -> Iterator[Line]:
    """The result as lines for people: totals, then run by run, runs with alarms or missed hangs first."""
    judged = found.judged
    hours = sum(each.watched_s for each in judged) / 3600
    runs = f"{len(judged):,} of {len(found.runs) + len(found.unreadable):,} recorded runs"
    head = f"{found.root}: learned limits on the latest attempt of {runs}, {hours:,.1f} h of known steps"
    yield from (line(part, "heading") for part in wrapped(head, columns, ""))
    if judged:
        yield line("")
        yield from (line(cut(each, columns)) for each in _sums(found))
        yield line("")
        yield from _run_by_run(judged, columns)
    notes = list(_notes(found))
    if notes:
        yield line("")
    for note in notes:
        yield from (line(part, "dim") for part in wrapped(note, columns, ""))


def _sums(found: FleetTimeouts) -> Iterator[str]:
    judged = found.judged
    hung = sum(each.hung for each in judged)
    hangs = [each for run in judged for each in run.told if each.came is Came.HANG]
    wrong = sum(any(each.came is Came.WRONG for each in run.told) for run in judged)
    yield f"hangs found    {len(hangs):,} of {hung:,}{_when(hangs)}"
    where = f", in {counted(wrong, 'run')}" if wrong else ""
    yield f"false alarms   {found.count(Came.WRONG):,}{where}"
    unknown = found.count(Came.UNKNOWN)
    if unknown:
        yield f"unknown        {unknown:,}"


def _when(hangs: list[LongWait]) -> str:
    told = [each.earlier_s for each in hangs if each.earlier_s is not None]
    return f", {_earlier(statistics.median(told))} in the middle" if told else ""


def _earlier(seconds: float) -> str:
    return f"{format_duration(abs(seconds))} {'later' if seconds < 0 else 'earlier'} than told"


def _run_by_run(judged: list[PastTimeouts], columns: int) -> Iterator[Line]:
    yield line("Run by run", "heading")
    ranked = sorted(judged, key=lambda each: (not (each.told or each.missed), each.run_id))
    for run in ranked[:_SHOWN]:
        for told in list(_run_lines(run))[:_MOST_TOLD]:
            yield from map(line, wrapped(f"{one_line(run.run_id)}: {told}", columns, "  "))
    if len(ranked) > _SHOWN:
        yield line(f"  … and {len(ranked) - _SHOWN:,} more runs (--json has them)", "dim")


def _run_lines(run: PastTimeouts) -> Iterator[str]:
    for each in run.told:
        at = f" at {format_time(each.at.replace(microsecond=0))}" if each.at is not None else ""
        came = {Came.WRONG: "false alarm, it went on", Came.UNKNOWN: "its outcome is unknown"}.get(each.came, "it hung")
        when = f", {_earlier(each.earlier_s)}" if each.earlier_s is not None else ""
        yield f"{came}{when}: {_wait(each)}{at}"
    if run.missed:
        yield f"it hung, and no learned limit would have told by then: {_kept_steps(run)}"
    elif not run.told:
        yield f"nothing to tell: {_kept_steps(run)}"


def _wait(each: LongWait) -> str:
    name = fit(one_line(each.name), _NAME) or "in no section"
    usual = f"usual {format_duration(each.usual_s)}, " if each.usual_s else ""
    return f"{name} for {format_duration(each.lasted_s)} ({usual}limit {format_duration(each.limit_s)})"


def _kept_steps(run: PastTimeouts) -> str:
    limit = "no limit yet" if run.limit_s is None else f"limit {format_duration(run.limit_s)}"
    if not run.steps:
        return "its sections as ft_state.json keeps them"
    steps = f"{counted(run.steps, 'step')} in {run.watched_s / 3600:,.1f} h"
    return f"{steps}, the longest {format_duration(run.longest_s)}, {limit}"


def _notes(found: FleetTimeouts) -> Iterator[str]:
    """The limits of the result: missing runs and step times."""
    records, thin = found.records, [each for each in found.runs if each.why_not is not None]
    for each in thin[:_SHOWN]:
        yield f"Too little to judge: {one_line(each.run_id)}: {each.why_not}."
    if len(thin) > _SHOWN:
        yield f"… and {counted(len(thin) - _SHOWN, 'more run')} of which too little is kept (--json has them)."
    unclear = sum(each.unclear for each in found.judged)
    if unclear:
        yield (
            f"Unclear: {counted(unclear, 'stretch', 'stretches')} longer than a limit, with steps in between that are "
            "not kept: it may have been one long step or many."
        )
    earlier = sum(each.earlier_attempts for each in found.runs)
    if earlier:
        yield f"Of {counted(earlier, 'earlier attempt')} no step times are kept."
    if found.judged:
        yield "Only rank 0 is looked at. What lies between two steps in no section, such as a save, counts as a step."
    if records.unrecorded:
        yield f"No watchdog has looked at {counted(records.unrecorded, 'run')}."
    if records.partial is not None:
        yield f"Not all runs are known: {records.partial}."
    if records.unread:
        yield f"{counted(records.unread, 'record')} not read: there are too many, or no time was left."
    for faults, many in ((records.faults, records.unusable), (found.unreadable, len(found.unreadable))):
        if many:
            run_id, why = next(iter(faults.items()))
            yield f"{counted(many, 'run')} could not be looked at; {run_id}: {why}"


def timeout_document(found: FleetTimeouts) -> dict[str, object]:
    """The result as a document: the documented keys, always all of them; unknown values are null."""
    judged = found.judged
    return {
        "schema": SCHEMA,
        "root": found.root,
        "at": format_time(found.records.at),
        "runs": len(found.runs),
        "judged": len(judged),
        "unrecorded": found.records.unrecorded,
        "unread": found.records.unread + len(found.unreadable),
        "unusable": found.records.unusable,
        "hours": round(sum(each.watched_s for each in judged) / 3600, 3),
        "hangs": sum(each.hung for each in judged),
        "hangs_found": found.count(Came.HANG),
        "hangs_missed": sum(each.missed for each in judged),
        "false_alarms": found.count(Came.WRONG),
        "unknown": found.count(Came.UNKNOWN),
        "notes": list(_notes(found)),
        "by_run": [_run(each) for each in found.runs],
    }


def _run(run: PastTimeouts) -> dict[str, object]:
    return {
        "run_id": run.run_id,
        "too_little": run.why_not,
        "hours": round(run.watched_s / 3600, 3),
        "steps": run.steps,
        "longest_s": round(run.longest_s, 3) if run.steps else None,
        "limit_s": run.limit_s,
        "hung": run.hung,
        "missed": run.missed,
        "unclear": run.unclear,
        "earlier_attempts": run.earlier_attempts,
        "told": [
            {
                "section": each.name or None,
                "came": str(each.came),
                "at": format_time(each.at),
                "lasted_s": round(each.lasted_s, 3),
                "usual_s": round(each.usual_s, 3),
                "limit_s": round(each.limit_s, 3),
                "earlier_s": None if each.earlier_s is None else round(each.earlier_s, 3),
            }
            for each in run.told[:_MOST_TOLD]
        ],
    }
