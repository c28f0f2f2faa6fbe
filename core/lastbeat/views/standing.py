"""What a run is: by its record, by the fleet index, or by the decision of a first look if it has no record. Pure.

For one version of a record, the first two agree, so it does not matter which of them was read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice, pairwise
from typing import Final

from lastbeat.fleet.index import IndexedRun
from lastbeat.model import runid
from lastbeat.model.record import Acknowledgement, LeftOut, Record, Transition
from lastbeat.model.state import HasShownState, ShownState, State
from lastbeat.model.status import Status
from lastbeat.model.view import STRIP_S, JobGist, Span
from lastbeat.stores.port import Entry
from lastbeat.views.alerts import pending
from lastbeat.views.heartbeats import NAME_LIMIT
from lastbeat.views.recorded import gist
from lastbeat.views.safe import TEXT_LIMIT, shown
from lastbeat.watch.decide.transition import Decision

SPANS_LIMIT: Final = 60


def spans_of(history: Iterable[Transition], status: Status | None, since: datetime | None, attempt: int) -> list[Span]:
    """Every span that is known, oldest first: what ``history`` tells, then what the run is since ``since``."""
    found = [Span(each.at, each.after, each.attempt) for each in history]
    if status is None or status is Status.UNKNOWN:
        return found
    last = found[-1] if found else None
    if since is not None and (last is None or (last.status, last.attempt) != (status, attempt)):
        # Nothing was recorded of how it came to this.
        found.append(Span(since, status, attempt))
    return sorted(found, key=lambda span: span.since)


def strip(spans: Sequence[Span], now: datetime | None, over_s: float = STRIP_S) -> tuple[Span, ...]:
    """What was so within the last ``over_s``. The first span may have begun before that: so the strip of a run to which
    nothing happens stays the same."""
    merged: list[Span] = []
    for span in spans:
        if not merged or (merged[-1].status, merged[-1].attempt) != (span.status, span.attempt):
            merged.append(span)
    if now is not None:
        begin = now - timedelta(seconds=over_s)
        over = sum(following.since <= begin for _, following in pairwise(merged))
        merged = merged[over:]
    return tuple(merged[-SPANS_LIMIT:])


CONDITIONS_LIMIT: Final = 20
_UNJUDGED: Final = "no pass has judged it since it was forgotten"
Mask = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Standing(HasShownState):
    """What a run is, and since when. Texts in it are fit to be shown."""

    state: ShownState
    """Its reason is empty for a healthy run: other columns show the age of its beats."""
    since: datetime | None = None
    attempt: int = 1
    start_time: datetime | None = None
    """When the attempt began, by the instance's clock."""
    step: int | None = None
    """As a watchdog saw it last, where no document tells one."""
    step_seen: tuple[int, datetime] | None = None
    """A step, and when it was reached, as a watchdog knows it."""
    watched_since: datetime | None = None
    """When a watchdog first looked at it. None: unknown."""
    pending: int = 0
    spans: tuple[Span, ...] = ()
    """Every one that is known."""
    recorded: bool = True
    partial: bool = False
    """Its record tells more that people want to see."""
    left_out: LeftOut | None = None
    """A user took it out of the fleet."""
    acknowledged: Acknowledgement | None = None
    """Who looks after it, if a person said so."""
    job: JobGist | None = None
    """The job of a supervised run."""


NOTHING: Final = Standing(ShownState(Status.UNKNOWN))
"""What a run is of which nothing is known."""


def shown_state(state: State, mask: Mask = str) -> ShownState:
    """``state`` as a row of a fleet has room for it."""
    return ShownState(
        state.status,
        shown(state.why, mask),
        _shown(state.cause, mask),
        _shown(state.action, mask, 2 * TEXT_LIMIT),
        _conditions(state.conditions, mask),
    )


def of_record(record: Record, mask: Mask = str) -> Standing:
    """All that people are shown of it in a row."""
    beats = [beat for beat in (record.progress, record.metadata, record.log) if beat is not None]
    last = next((beat for beat in beats if beat.step is not None), None)
    return Standing(
        shown_state(record.state or State(Status.UNKNOWN, _UNJUDGED), mask),
        since=record.came_to_be_at,
        attempt=record.attempt.number,
        start_time=record.attempt.start_time,
        step=last.step if last is not None else None,
        step_seen=record.step_seen,
        watched_since=record.first_looked_at,
        pending=pending(record),
        left_out=record.left_out,
        acknowledged=_acknowledged(record, mask),
        job=gist(record, mask),
        spans=tuple(_spans(record)),
    )


def _acknowledged(record: Record, mask: Mask) -> Acknowledgement | None:
    given = record.acknowledged
    return given and replace(given, by=shown(given.by, mask, NAME_LIMIT), note=shown(given.note, mask))


def _spans(record: Record) -> list[Span]:
    """What its history tells. What the first look found came to be so before it."""
    history = record.history[-2 * SPANS_LIMIT :]
    spans = spans_of(history, record.status, record.since, record.attempt.number)
    first = history[0] if history else None
    if first is None or first.before is not None or first.attempt != record.attempt.number:
        return spans
    since = record.came_to_be_at if len(history) == 1 else record.attempt.began_at
    if since is None or (first.after is not Status.RUNNING and len(history) > 1):
        return spans
    return [replace(spans[0], since=min(since, first.at)), *spans[1:]]


def of_memory(run: IndexedRun, strip_from: datetime, mask: Mask = str) -> Standing:
    """The same, as far as the index of the fleet knows it. ``strip_from``: statuses before that are not shown."""
    line = run.line
    happened = line.since is None or line.since > strip_from
    state = shown_state(State(line.status, line.reason, line.cause, line.action), mask)
    return Standing(
        replace(state, conditions=_conditions(line.conditions, mask)),
        since=line.since,
        attempt=line.attempt,
        start_time=run.start_time,
        step_seen=run.stood_at,
        watched_since=run.first_looked_at,
        pending=run.pending,
        spans=tuple(spans_of((), line.status, line.since, line.attempt)),
        # Only its record has recent history, the reasons for warnings, waiting alerts, the job and who looks after it.
        partial=bool(
            (happened and run.transitions != 1) or line.conditions or run.pending or run.supervised or run.acknowledged
        ),
    )


def of_decision(decision: Decision, files: Mapping[str, Entry]) -> Standing:
    """What one look decided about a run without a record, of which there are ``files``."""
    attempt, verdict = decision.record.attempt, decision.verdict
    if decision.unobservable is not None:
        return Standing(
            ShownState(Status.UNKNOWN, shown(decision.unobservable)), attempt=attempt.number, recorded=False
        )
    found = Standing(
        shown_state(verdict.state),
        attempt=attempt.number,
        start_time=attempt.start_time,
        step_seen=decision.record.step_seen,
        recorded=False,
    )
    if verdict.by_log:
        # Since when it is so, a log does not tell.
        return found
    began, end = attempt.began_at, decision.seen.end
    spans = [Span(began, Status.RUNNING, attempt.number)] if began is not None else []
    if verdict.status is Status.RUNNING:
        return replace(found, since=began, spans=tuple(spans))
    ended = end.modified if end is not None else _last(files)
    if ended is not None:
        spans.append(Span(ended, verdict.status, attempt.number))
    return replace(found, since=ended, spans=tuple(sorted(spans, key=lambda span: span.since)))


def _last(files: Mapping[str, Entry]) -> datetime | None:
    seen = (entry.modified for name, entry in files.items() if name != runid.RECORD and entry.fault is None)
    return max(seen, default=None)


def _shown(text: str | None, mask: Mask, limit: int = TEXT_LIMIT) -> str | None:
    return None if text is None else shown(text, mask, limit) or None


def _conditions(raised: Iterable[str], mask: Mask) -> tuple[str, ...]:
    return tuple(shown(name, mask, NAME_LIMIT) for name in islice(raised, CONDITIONS_LIMIT))
