"""The alarms that learned limits would have raised: read from three bounded files a run, as lines and as a document."""

import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from lastbeat.fleet.all_records import FleetRecords
from lastbeat.lab.past_timeouts import Came, KeptTimes, LongWait, PastTimeouts, StepPoint, past_timeouts
from lastbeat.model import runid
from lastbeat.model.as_json import picked
from lastbeat.model.heartbeat import DOCUMENT_LIMIT_BYTES, read_heartbeat
from lastbeat.model.learned_limits import LIMIT_BYTES, read_state
from lastbeat.model.record import Record
from lastbeat.model.text import counted, fit, one_line
from lastbeat.model.times import format_duration, format_time
from lastbeat.stores.port import Store, StoreError
from lastbeat.views.heartbeats import read_told
from lastbeat.views.lines.paint import Line, cut, line, paragraph
from lastbeat_cli.backtest.told import record_notes, unusable_note

_THREADS: Final = 16
SCHEMA: Final = 1
_SHOWN: Final = 60
_NAME: Final = 60
_MOST_TOLD: Final = 100


@dataclass
class FleetTimeouts:
    """The alarms that learned limits would have raised in a fleet."""

    root: str
    records: FleetRecords
    runs: list[PastTimeouts] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    """Run → why its files could not be read."""

    @property
    def judged(self) -> list[PastTimeouts]:
        """The runs with enough recorded data."""
        return [each for each in self.runs if each.why_not is None]

    def count(self, came: Came) -> int:
        """The number of alarms with that outcome."""
        return sum(told.came is came for run in self.judged for told in run.told)


def kept_times(store: Store, record: Record) -> KeptTimes:
    """The recorded times of the run. Raises :class:`StoreError` if they cannot be read."""
    folder = f"{record.run_id}/"
    progress = store.read(folder + runid.PROGRESS, DOCUMENT_LIMIT_BYTES)
    metadata = store.read(folder + runid.METADATA, DOCUMENT_LIMIT_BYTES)
    state = store.read(folder + runid.LEARNED, LIMIT_BYTES)
    points = read_told(progress).points if progress is not None else ()
    beat = read_heartbeat(metadata) if metadata is not None else None
    return KeptTimes(
        [StepPoint(each.at, each.step) for each in points],
        record.progress.skew_s if record.progress is not None else 0.0,
        beat.start_time if beat is not None else None,
        beat.modified if beat is not None else None,
        beat.sections if beat is not None else (),
        read_state(state.body) if state is not None else None,
    )


def read_timeouts(found: FleetTimeouts, until: float) -> None:
    """Judge each run. ``until`` is a time of ``time.monotonic()``."""
    records, store = found.records, found.records.store

    def one(record: Record) -> PastTimeouts | str:
        if time.monotonic() >= until:
            return "no time was left"
        try:
            return past_timeouts(record, kept_times(store, record), records.at)
        except StoreError as error:
            return str(error)

    wanted = _wanted(records, until)
    with ThreadPoolExecutor(_THREADS, "lastbeat-times") as pool:
        while some := list(islice(wanted, 4 * _THREADS)):
            for record, told in zip(some, pool.map(one, some), strict=True):
                if isinstance(told, PastTimeouts):
                    found.runs.append(told)
                else:
                    found.unreadable[record.run_id] = told
    found.runs.sort(key=lambda each: each.run_id)


def _wanted(records: FleetRecords, until: float) -> Iterator[Record]:
    for record in records.read(until):
        if record.left_out is None or not record.left_out.forgotten:
            yield record


def timeout_lines(found: FleetTimeouts, columns: int) -> Iterator[Line]:
    """The result as lines for people: totals, then run by run, runs with alarms or missed hangs first."""
    judged = found.judged
    hours = sum(each.watched_s for each in judged) / 3600
    runs = f"{len(judged):,} of {len(found.runs) + len(found.unreadable):,} recorded runs"
    head = f"{found.root}: learned limits on the latest attempt of {runs}, {hours:,.1f} h of known steps"
    yield from paragraph(head, columns, "", style="heading")
    if judged:
        yield line("")
        yield from (line(cut(each, columns)) for each in _sums(found))
        yield line("")
        yield from _run_by_run(judged, columns)
    notes = list(_notes(found))
    if notes:
        yield line("")
    for note in notes:
        yield from paragraph(note, columns, "", style="dim")


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
            yield from paragraph(f"{one_line(run.run_id)}: {told}", columns, "  ")
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
    thin = [each for each in found.runs if each.why_not is not None]
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
    yield from record_notes(found.records)
    if found.unreadable:
        yield unusable_note(found.unreadable, len(found.unreadable))


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
        **picked(run, "run_id steps limit_s hung missed unclear earlier_attempts"),
        "too_little": run.why_not,
        "hours": round(run.watched_s / 3600, 3),
        "longest_s": round(run.longest_s, 3) if run.steps else None,
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
