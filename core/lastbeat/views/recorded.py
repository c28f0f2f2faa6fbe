"""A run's record, made fit to be shown: every writer of the run's folder may have written it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from lastbeat.jobs.stopping import waiting_start
from lastbeat.model.cause import FRAMES_LIMIT, MISSING_LIMIT, TEXT_LIMIT, Cause
from lastbeat.model.record import Record, Transition
from lastbeat.model.restart import Budget, LeaseHolder
from lastbeat.model.state import RecordedCause
from lastbeat.model.stuck_collective import ROWS_LIMIT
from lastbeat.model.view import JobGist, JobLine, Span
from lastbeat.views.heartbeats import NAME_LIMIT
from lastbeat.views.safe import Safe, shown
from lastbeat.watch.decide.restart import budgets_used
from lastbeat.watch.decide.transition import HISTORY_LIMIT


def gist(record: Record, mask: Callable[[str], str] = str) -> JobGist | None:
    """The supervision as a row shows it; None without one."""
    supervision, job, ruling = record.supervision, record.job, record.ruling
    if supervision is None:
        return None
    next_start = waiting_start(record)
    told = ruling.attempt if ruling is not None and ruling.restart and record.restarts else ""
    return JobGist(
        launcher=shown(supervision.launcher, mask, NAME_LIMIT),
        id=None if job is None else shown(job.id, mask, NAME_LIMIT),
        state=None if job is None else job.state,
        restarts=len(record.restarts),
        attempt=shown(told, mask, NAME_LIMIT),
        waits=next_start is not None,
        starts_at=None if next_start is None else next_start.not_before,
    )


def supervisor(record: Record, at: datetime) -> LeaseHolder | None:
    """The supervisor that looks after the run as of ``at``, or None if there is none any more."""
    lease = record.seat
    return None if lease is None or lease.until is None or lease.until <= at else lease


def is_over(record: Record) -> bool:
    """Whether no supervisor has anything left to do: its job has ended, and no other one is to be started."""
    job = record.job
    return waiting_start(record) is None and (job is None or job.state.ended) and record.status is not None


def budgets(record: Record, at: datetime) -> tuple[Budget, ...] | None:
    """How much of each budget is used as of ``at``. None: its policy is not known here, or it has none."""
    policy = record.supervision.compiled if record.supervision is not None else None
    if policy is None or not policy.understood:
        return None
    last = record.restarts[-1].checkpoint_step if record.restarts else None
    found = record.checkpoint.step if record.checkpoint is not None else last
    return budgets_used(policy, record.restarts, found, at)


_REASON_LIMIT = 500
_REASONS = ("reason", "passed_over", "job", "text", "how", "output")
"""Fields of a job, its ruling, its notes and commands that hold a sentence."""
_HINT_LIMIT = 2000
_ALSO = 10
_NODES = 64
_BUDGETS = 32
_NOTED = 20


def explained(found: RecordedCause | None, safe: Safe) -> RecordedCause | None:
    """Why the run is as it is."""
    if found is None:
        return None
    missing, second, stuck = found.missing, found.second, found.stuck
    return replace(
        safe.all_of(replace(found, also_seen=found.also_seen[:_ALSO]), also_seen=_REASON_LIMIT),
        cause=_cause(found.cause, safe),
        second=None if second is None else _cause(second, safe),
        stuck=None if stuck is None else safe.all_of(replace(stuck, rows=stuck.rows[:ROWS_LIMIT])),
        missing=None if missing is None else safe.all_of(replace(missing, ranks=missing.ranks[:MISSING_LIMIT])),
    )


def _cause(cause: Cause, safe: Safe) -> Cause:
    whole = safe.all_of(replace(cause, frames=()), hint=_HINT_LIMIT)
    # Lines keep their indentation.
    evidence = replace(whole.evidence, text=safe.line(cause.evidence.text, TEXT_LIMIT))
    return replace(whole, evidence=evidence, frames=tuple(map(safe.line, cause.frames[:FRAMES_LIMIT])))


def history(record: Record, safe: Safe) -> tuple[Transition, ...]:
    """The latest transitions, oldest first."""
    return tuple(safe.all_of(each, reason=_REASON_LIMIT) for each in record.history[-HISTORY_LIMIT:])


def attempts(record: Record) -> tuple[Span, ...]:
    """Each attempt that history knows of, oldest first: when it began, as far as that is known, and its latest status.

    History keeps only the latest transitions. So earlier attempts may be missing, and the first one here may have begun
    before its span.
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
    supervision, memory, left = record.supervision, record.reactions, budgets(record, at)
    if supervision is None:
        return None
    lease, waits, known = supervisor(record, at), waiting_start(record), record.job
    notes, commands = (memory.notes[-_NOTED:], memory.commands[-_NOTED:]) if memory is not None else ((), ())
    line = JobLine(
        supervision.policy_name,
        None if known is None else replace(known, nodes=known.nodes[:_NODES]),
        record.ruling,
        waits.name if waits is not None else None,
        waits.not_before if waits is not None else None,
        len(record.restarts),
        supervision.launcher,
        budgets=None if left is None else left[:_BUDGETS],
        supervised_by=None if lease is None else lease.by,
        supervised_since=None if lease is None else lease.since,
        over=is_over(record),
        checkpoint=record.checkpoint,
        notes=notes,
        commands=tuple(replace(each, place=each.place.partition(":")[0]) for each in commands),
    )
    return safe.all_of(line, **dict.fromkeys(_REASONS, _REASON_LIMIT))
