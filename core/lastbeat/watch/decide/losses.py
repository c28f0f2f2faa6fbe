"""A run's record → its failures, and what each of them cost. Pure.

The times come from the goodput (``goodput.py``), attempt by attempt. The failures and their aftermath come from a
backtest (``backtest.py``). A value that neither has is unknown.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from lastbeat.explain.signals.error_types import TYPES
from lastbeat.model.losses import CountedFailure, Loss
from lastbeat.model.record import Record, Transition
from lastbeat.model.status import UNWELL
from lastbeat.model.timesheet import AttemptTimes
from lastbeat.watch.decide.goodput import AttemptUse, attempt_uses
from lastbeat.watch.decide.past_run import PastEnd, past_run
from lastbeat.watch.decide.timesheet import restart_waits, watched_from


def counted_failures(record: Record, now: datetime) -> Iterator[CountedFailure]:
    """Every failure that ``record`` knows of, oldest first, as of ``now`` by the store's clock.

    A silence that ended by itself counts if the run made no progress meanwhile: that time is lost. A requested end does
    not count.
    """
    checkpoint = record.checkpoint.step if record.checkpoint is not None else None
    waits, since = restart_waits(record), watched_from(record)
    uses = {
        each.times.number: each
        for each in attempt_uses(record.timesheet, now, restart_waits=waits, watched_from=since, checkpoint=checkpoint)
    }
    tells_steps = any(each.times.first_step is not None for each in uses.values())
    ends = [each for each in past_run(record).ends if each.status in UNWELL and each.end.asked_by is None]
    stood: set[int] = set()
    for end in ends:
        use = uses.get(end.attempt)
        if end.came_back:
            still_s = use.stood_s if use is not None else 0.0
            if still_s > 0 and end.attempt not in stood:
                stood.add(end.attempt)
                yield _counted(record, end, use, Loss(0.0, still_s), tells_steps=tells_steps)
            continue
        loss = _loss(end, use, since, tells_steps=tells_steps)
        if not (waits and end is ends[-1]) and _stays_down(record, end):
            # After the alert, the time depends on the people who fix it.
            loss = replace(loss, dead_s=use.unnoticed_s if use is not None and loss.dead_s is not None else None)
        yield _counted(record, end, use, loss, tells_steps=tells_steps)


def _stays_down(record: Record, end: PastEnd) -> bool:
    """Whether a restart would not have helped, and lastbeat decided none."""
    if end.restarted is not None:
        return False
    ruling = record.ruling
    if ruling is not None and not ruling.restart and end.attempt == record.attempt.number and ruling.at >= end.at:
        return True
    known = TYPES.get(end.end.error_type)
    return known is not None and not known.restartable


def _counted(record: Record, end: PastEnd, use: AttemptUse | None, loss: Loss, *, tells_steps: bool) -> CountedFailure:
    shown = _transition(record, end)
    times = use.times if use is not None else None
    later = [each.attempt for each in record.history if each.attempt > end.attempt]
    return CountedFailure(
        record.run_id,
        end.attempt,
        end.at,
        end.status,
        shown.cause,
        shown.signal,
        shown.fingerprint,
        shown.reason,
        shown.node or end.end.node,
        record.owner,
        end.end.step,
        _is_early(end, times, tells_steps=tells_steps),
        loss,
        bool(later) or record.attempt.number > end.attempt or end.came_back,
        end.died_at,
    )


def _transition(record: Record, end: PastEnd) -> Transition:
    """The transition that shows why the attempt failed: a run may be seen as silent before its error is found."""
    own = [each for each in record.history if each.attempt == end.attempt and each.after in UNWELL]
    first = next(each for each in own if each.at == end.at)
    after = [each for each in own if each.number >= first.number]
    return next((each for each in reversed(after) if each.cause is not None), first)


def _is_early(end: PastEnd, times: AttemptTimes | None, *, tells_steps: bool) -> bool:
    # For a run that never shows steps, it is unknown whether it made any.
    return tells_steps and times is not None and times.first_step is None and end.end.step is None


def _loss(end: PastEnd, use: AttemptUse | None, watched_from: datetime | None, *, tells_steps: bool) -> Loss:
    if use is None:
        # The timesheet has dropped this old attempt: count from the look that saw the end to the next beginning.
        dead_from = end.died_at if watched_from is None else max(end.died_at, watched_from)
        lay_s = None if end.resumed_at is None else max(0.0, (end.resumed_at - dead_from).total_seconds())
        return Loss(None, lay_s)
    times = use.times
    dead_s = use.dead_s if times.died_at is not None and times.seen_at is not None else None
    if times.first_step is not None:
        return Loss(use.thrown_away_s, dead_s)
    begun_at = times.started_at or times.submitted_at
    if not tells_steps or begun_at is None or times.died_at is None:
        return Loss(None, dead_s)
    return Loss(max(0.0, (times.died_at - begun_at).total_seconds()), dead_s)
