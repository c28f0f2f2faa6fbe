"""A run's record, made fit to be shown: every writer of the run's folder may have written it."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from lastbeat.model.cause import FRAMES_LIMIT, MISSING_LIMIT, TEXT_LIMIT, Cause, MissingRanks
from lastbeat.model.record import Record, Transition
from lastbeat.model.restart import Budget
from lastbeat.model.state import RecordedCause
from lastbeat.model.view import JobLine, Span
from lastbeat.views.excerpts import Safe
from lastbeat.views.supervised import budgets, is_over, supervisor, waiting
from lastbeat.watch.decide.transition import HISTORY_LIMIT

_REASON_LIMIT = 500
_HINT_LIMIT = 2000
_ALSO = 10
_NODES = 64
_BUDGETS = 32
_NOTED = 20


def explained(found: RecordedCause | None, safe: Safe) -> RecordedCause | None:
    """Why the run is as it is."""
    if found is None:
        return None
    similar = found.similar
    if similar is not None:
        similar = replace(similar, run_id=safe.name(similar.run_id))
    return RecordedCause(
        _cause(found.cause, safe),
        tuple(safe.name(text, _REASON_LIMIT) for text in found.also_seen[:_ALSO]),
        similar,
        None if found.second is None else _cause(found.second, safe),
        None if found.missing is None else _missing(found.missing, safe),
    )


def _missing(missing: MissingRanks, safe: Safe) -> MissingRanks:
    ranks = (
        replace(each, log=safe.name(each.log), host=safe.maybe(each.host), stack=safe.name(each.stack))
        for each in missing.ranks[:MISSING_LIMIT]
    )
    return replace(missing, ranks=tuple(ranks))


def _cause(cause: Cause, safe: Safe) -> Cause:
    evidence = replace(
        cause.evidence,
        file=safe.name(cause.evidence.file),
        text=safe.line(cause.evidence.text, TEXT_LIMIT),
        host=safe.maybe(cause.evidence.host),
    )
    return replace(
        cause,
        error_type=safe.name(cause.error_type),
        evidence=evidence,
        subsystem=safe.maybe(cause.subsystem),
        hint=safe.name(cause.hint, _HINT_LIMIT),
        signal=safe.name(cause.signal),
        frames=tuple(safe.line(frame) for frame in cause.frames[:FRAMES_LIMIT]),
    )


def history(record: Record, safe: Safe) -> tuple[Transition, ...]:
    """The latest transitions, oldest first."""
    return tuple(
        replace(
            each,
            reason=safe.name(each.reason, _REASON_LIMIT),
            cause=safe.maybe(each.cause),
            silenced=safe.maybe(each.silenced),
            subsystem=safe.maybe(each.subsystem),
            signal=safe.maybe(each.signal),
            node=safe.maybe(each.node),
        )
        for each in record.history[-HISTORY_LIMIT:]
    )


def attempts(record: Record) -> tuple[Span, ...]:
    """Each attempt that history knows of, oldest first: when it began, as far as that is known, and its latest status.

    History keeps the latest transitions alone, so that earlier attempts may be missing, and the first of those that
    are there may have begun before what is told.
    """
    spans: dict[int, Span] = {}
    for each in record.history[-HISTORY_LIMIT:]:
        known = spans.get(each.attempt)
        spans[each.attempt] = Span(each.at if known is None else known.since, each.after, each.attempt)
    now = record.attempt
    latest = spans.get(now.number)
    began = now.began_at
    if began is not None and record.status is not None:
        status = record.status if latest is None else latest.status
        if latest is None or began < latest.since:
            spans[now.number] = Span(began, status, now.number)
    return tuple(spans[number] for number in sorted(spans))


def job(record: Record, safe: Safe, at: datetime) -> JobLine | None:
    """The job of a supervised run, and what was decided about restarts."""
    if record.supervision is None:
        return None
    lease = supervisor(record, at)
    waits, known, ruling, found = waiting(record), record.job, record.ruling, record.checkpoint
    return JobLine(
        safe.name(record.supervision.policy_name),
        None
        if known is None
        else replace(
            known,
            launcher=safe.name(known.launcher),
            id=safe.name(known.id),
            name=safe.name(known.name),
            said=safe.name(known.said),
            reason=safe.name(known.reason, _REASON_LIMIT),
            nodes=tuple(map(safe.name, known.nodes[:_NODES])),
        ),
        None
        if ruling is None
        else replace(
            ruling,
            reason=safe.name(ruling.reason, _REASON_LIMIT),
            attempt=safe.name(ruling.attempt),
            resume_from=safe.maybe(ruling.resume_from),
            passed_over=safe.name(ruling.passed_over, _REASON_LIMIT),
            job=safe.name(ruling.job, _REASON_LIMIT),
        ),
        safe.name(waits.name) if waits is not None else None,
        waits.not_before if waits is not None else None,
        len(record.restarts),
        safe.name(record.supervision.launcher),
        budgets=_named(budgets(record, at), safe),
        supervised_by=None if lease is None else safe.name(lease.by),
        supervised_since=None if lease is None else lease.since,
        over=is_over(record),
        checkpoint=None if found is None else replace(found, url=safe.name(found.url)),
        **_reactions(record, safe),
    )


def _named(told: tuple[Budget, ...] | None, safe: Safe) -> tuple[Budget, ...] | None:
    return None if told is None else tuple(replace(each, name=safe.name(each.name)) for each in told[:_BUDGETS])


def _reactions(record: Record, safe: Safe) -> dict[str, Any]:
    """What its policy's ``on:`` noted and ran."""
    memory = record.reactions
    if memory is None:
        return {}
    notes = (
        replace(each, on=safe.name(each.on), text=safe.name(each.text, _REASON_LIMIT))
        for each in memory.notes[-_NOTED:]
    )
    commands = (
        replace(
            each,
            name=safe.name(each.name),
            on=safe.name(each.on),
            place=safe.name(each.place.partition(":")[0]),
            how=safe.name(each.how, _REASON_LIMIT),
            output=safe.name(each.output, _REASON_LIMIT),
        )
        for each in memory.commands[-_NOTED:]
    )
    return {"notes": tuple(notes), "commands": tuple(commands)}
