"""The result of a backtest, as lines for people and as a document."""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Final

from lastbeat.explain.signals.error_types import traits_of
from lastbeat.fleet.all_records import FleetRecords
from lastbeat.lab.backtest import Backtest, Hindsight, PastDecision, Worth
from lastbeat.model.as_json import picked
from lastbeat.model.status import Status
from lastbeat.model.text import counted, one_line
from lastbeat.model.times import format_time
from lastbeat.views.lines.paint import Line, cut, line, paragraph
from lastbeat.views.lines.paint import columns as columns_of
from lastbeat.watch.decide.past_run import PastEnd

SCHEMA: Final = 1
_SHOWN: Final = 40
_REASONS: Final = 12
_RESTARTS: Final = (Hindsight.SAVED, Hindsight.WASTED, Hindsight.UNKNOWN, Hindsight.BACK)
_STOPS: Final = (Hindsight.MISSED, Hindsight.SPARED, Hindsight.UNKNOWN, Hindsight.BACK)


@dataclass
class FleetBacktest:
    """The replayed history, and the results of each policy."""

    root: str
    records: FleetRecords
    tests: dict[str, Backtest]
    """Policy → its decisions and their worth."""
    runs: int = 0
    """Number of runs whose history was read."""
    thin: int = 0
    """Number of runs without any transition in their record."""
    cut: int = 0
    """Number of runs whose first transitions are no longer in their record."""
    ends: int = 0
    failures: int = 0
    """Number of ends that were neither requested nor successful."""
    causeless: int = 0
    """Number of failures without a known cause."""
    stepless: int = 0
    """Number of failures without a known step."""
    first: datetime | None = None
    last: datetime | None = None
    decisions: list[tuple[datetime, int, str, PastDecision]] = field(default_factory=list)
    """The latest decisions, as a heap."""
    unlisted: int = 0
    """Number of earlier decisions, which were dropped."""
    _numbers: Iterator[int] = field(default_factory=count)

    def saw(self, end: PastEnd) -> None:
        """Count one end of a run's attempt."""
        self.ends += 1
        self.first = min(end.at, self.first or end.at)
        self.last = max(end.at, self.last or end.at)
        if end.status in {Status.SUCCEEDED, Status.PREEMPTED} or end.end.asked_by is not None:
            return
        self.failures += 1
        self.causeless += traits_of(end.end.error_type).says_nothing
        self.stepless += end.end.step is None

    def keep(self, policy: str, decision: PastDecision, most: int) -> None:
        """List ``decision``, unless there are ``most`` later ones. Successful ends need no decision."""
        if decision.hindsight is Hindsight.DONE:
            return
        # A unique number breaks ties, because decisions have no order.
        entry = (decision.past.at, next(self._numbers), policy, decision)
        if len(self.decisions) < most:
            heapq.heappush(self.decisions, entry)
        else:
            heapq.heappushpop(self.decisions, entry)
            self.unlisted += 1

    @property
    def listed(self) -> list[tuple[str, PastDecision]]:
        """The listed decisions, latest first."""
        newest = sorted(self.decisions, key=lambda each: (each[0], -each[1]), reverse=True)
        return [(policy, decision) for _, _, policy, decision in newest]


def backtest_lines(found: FleetBacktest, columns: int, *, decisions: bool) -> Iterator[Line]:
    """The result as lines for people."""
    yield from _head(found, columns)
    if not found.ends:
        return
    yield line("")
    yield from _table(found, columns)
    for name, test in found.tests.items():
        yield line("")
        yield from _reasons(name, test, columns)
    if decisions:
        yield line("")
        yield from _decisions(found, columns)
    notes = list(_notes(found))
    if notes:
        yield line("")
    for note in notes:
        yield from paragraph(note, columns, "", style="dim")


def _head(found: FleetBacktest, columns: int) -> Iterator[Line]:
    when = ""
    if found.first is not None and found.last is not None:
        when = (
            f", {format_time(found.first.replace(microsecond=0))} to {format_time(found.last.replace(microsecond=0))}"
        )
    many = f"{found.ends:,} ends of attempts in {found.runs:,} recorded runs, {found.failures:,} of them failures"
    yield from paragraph(f"{found.root}: {many}{when}", columns, "", style="heading")


def _table(found: FleetBacktest, columns: int) -> Iterator[Line]:
    rows: list[tuple[str, list[str]]] = [("", list(found.tests))]
    tests = list(found.tests.values())
    rows.append(("would restart", [f"{_count(test.restarts):,}" for test in tests]))
    rows += [_row(each, [test.restarts for test in tests]) for each in _RESTARTS]
    rows.append(("would stop", [f"{_count(test.stops):,}" for test in tests]))
    rows += [_row(each, [test.stops for test in tests]) for each in _STOPS]
    rows.append(("ended by a person", [str(_worth_of(test, Hindsight.ASKED)) for test in tests]))
    rows.append(("ended well", [str(_worth_of(test, Hindsight.DONE)) for test in tests]))
    for number, text in enumerate(columns_of([(label, *told) for label, told in rows])):
        yield line(cut(text, columns), "" if number else "dim")


def _row(what: Hindsight, tallies: list[dict[Hindsight, Worth]]) -> tuple[str, list[str]]:
    return f"  {_word(what)}", [_tally_text(each.get(what)) for each in tallies]


def _word(what: Hindsight) -> str:
    return "it came back by itself" if what is Hindsight.BACK else what.value


def _tally_text(tally: Worth | None) -> str:
    """``12: 31.5 h, 4,000 steps (of 7)``: count, time and steps, and how many of the cases they are known for."""
    if tally is None:
        return "0"
    parts = []
    if tally.timed:
        of = f" (of {tally.timed})" if tally.timed < tally.count else ""
        parts.append(f"{tally.seconds / 3600:,.1f} h{of}")
    if tally.stepped:
        of = f" (of {tally.stepped})" if tally.stepped < tally.count else ""
        parts.append(f"{counted(tally.steps, 'step')}{of}")
    return f"{tally.count:,}{': ' if parts else ''}{', '.join(parts)}"


def _count(tallies: Mapping[Hindsight, Worth]) -> int:
    apart = (Hindsight.ASKED, Hindsight.DONE)
    return sum(tally.count for what, tally in tallies.items() if what not in apart)


def _worth_of(test: Backtest, what: Hindsight) -> int:
    return sum(each[what].count for each in (test.restarts, test.stops) if what in each)


def _reasons(name: str, test: Backtest, columns: int) -> Iterator[Line]:
    yield line(f"Why, by {name}", "heading")
    ranked = sorted(test.reasons.items(), key=lambda each: (-each[1], each[0]))
    for reason, many in ranked[:_REASONS]:
        yield line(cut(f"  {many:>5,}  {one_line(reason)}", columns))
    if len(ranked) > _REASONS:
        yield line(f"  … and {len(ranked) - _REASONS:,} more reasons (--json has them)", "dim")


def _decisions(found: FleetBacktest, columns: int) -> Iterator[Line]:
    yield line("Decisions, the latest first", "heading")
    several = len(found.tests) > 1
    for policy, each in found.listed[: _SHOWN * len(found.tests)]:
        past, worth = each.past, _worth(each)
        who = f"{policy}: " if several else ""
        what = f"restart {each.decision.attempt}" if each.decision.restart else "stop"
        at = format_time(past.at.replace(microsecond=0))
        step = f", step {past.end.step:,}" if past.end.step is not None else ""
        told = f"{at}  {each.run_id}, attempt {past.attempt}, {past.status}{step}: {who}{what}: {each.decision.reason}"
        yield from paragraph(f"{one_line(told)} ({worth})", columns, "  ")
    more = len(found.listed) - _SHOWN * len(found.tests)
    if more > 0:
        yield line(f"  … and {more:,} earlier ones (--json has them)", "dim")


def _worth(each: PastDecision) -> str:
    said = _word(each.hindsight)
    hours = f" {each.seconds / 3600:,.1f} h" if each.seconds is not None else ""
    steps = f", {counted(each.steps, 'step')}" if each.steps is not None else ""
    return f"{said}{hours}{steps}"


def _notes(found: FleetBacktest) -> Iterator[str]:
    """The limits of the result: missing runs, causes and steps."""
    if found.thin:
        yield f"Too thin to judge: {counted(found.thin, 'run')}, of which no change of status is kept."
    if found.cut:
        yield f"Known in part: {counted(found.cut, 'run')}: of a longer history the latest 50 changes are kept."
    if found.causeless:
        yield f"No cause was recorded of {counted(found.causeless, 'failure')}, which count as unknown."
    if found.stepless:
        yield f"No step was recorded of {counted(found.stepless, 'failure')}."
    if found.ends:
        yield (
            "Where no checkpoint was recorded, restarts in a row are never given back: budgets look tighter than they "
            "would have been."
        )
    yield from record_notes(found.records)


def record_notes(records: FleetRecords) -> Iterator[str]:
    """What is not known of the fleet's runs, because their records are missing or were not read."""
    if records.unrecorded:
        yield f"No watchdog has looked at {counted(records.unrecorded, 'run')}."
    if records.partial is not None:
        yield f"Not all runs are known: {records.partial}."
    if records.unread:
        yield f"{counted(records.unread, 'record')} not read: there are too many, or no time was left."
    if records.unusable:
        yield unusable_note(records.faults, records.unusable)


def unusable_note(faults: Mapping[str, str], many: int) -> str:
    """A sentence about ``many`` runs that could not be looked at, the first of ``faults`` with the reason."""
    run_id, why = next(iter(faults.items()))
    return f"{counted(many, 'run')} could not be looked at; {run_id}: {why}"


def backtest_document(found: FleetBacktest) -> dict[str, object]:
    """The result as a document: the documented keys, always all of them; unknown values are null."""
    return {
        "schema": SCHEMA,
        **picked(found, "root runs thin cut ends failures unlisted"),
        **picked(found.records, "at unrecorded unread unusable"),
        "without_cause": found.causeless,
        "without_step": found.stepless,
        "first_at": format_time(found.first),
        "last_at": format_time(found.last),
        "notes": list(_notes(found)),
        "policies": [
            {
                "name": name,
                "restarts": _tallies(test.restarts),
                "stops": _tallies(test.stops),
                "reasons": dict(sorted(test.reasons.items(), key=lambda each: (-each[1], each[0]))),
            }
            for name, test in found.tests.items()
        ],
        "decisions": [_decision(policy, each) for policy, each in found.listed],
    }


def _tallies(tallies: Mapping[Hindsight, Worth]) -> dict[str, object]:
    return {
        str(what): {
            "count": tally.count,
            "hours": round(tally.seconds / 3600, 3) if tally.timed else None,
            "hours_known_of": tally.timed,
            "steps": tally.steps if tally.stepped else None,
            "steps_known_of": tally.stepped,
        }
        for what in Hindsight
        for tally in (tallies.get(what, Worth()),)
    }


def _decision(policy: str, each: PastDecision) -> dict[str, object]:
    past, end = each.past, each.past.end
    return {
        "policy": policy,
        **picked(each, "run_id hindsight steps"),
        **picked(past, "attempt at died_at status resumed_at"),
        **picked(end, "mode error_type step"),
        "confidence": round(end.confidence, 3),
        "action": "restart" if each.decision.restart else "stop",
        "reason": each.decision.reason,
        "budget": each.decision.attempt or None,
        "delay_s": each.decision.delay_s,
        "hours": None if each.seconds is None else round(each.seconds / 3600, 3),
    }
