"""How a run's wall time was used: timesheet → goodput. Pure.

A cursor walks over the attempts, from one known moment to the next, and never back. So the parts add up to the wall
time, whatever the clocks say.

    submitted      left the queue     first step      last step     died       seen        next one submitted
        │───────queued────│───starting────│─── steps ─────│── lost ────│─unnoticed─│──────restarting────│
                                           productive, lost

Downtime before ``watched_from``, a watcher's first look, does not count as unnoticed. It counts as time until the next
attempt; if there is none, the run was over when it died.

All steps of an attempt are taken to last equally long. A step is lost if a later attempt resumed before it. If the step
that an attempt resumed from is known, its later pace gives the duration of its first, unseen steps. The time after the
last step of an attempt that died is lost, too, unless the next attempt resumed from a later step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import Final

from lastbeat.model.data import dataclass
from lastbeat.model.goodput import Goodput
from lastbeat.model.status import Status
from lastbeat.model.timesheet import AttemptTimes, EarlierTimes, Timesheet, TimeUse

_NO_FAILURE: Final = frozenset({Status.SUCCEEDED, Status.CANCELLED, Status.PREEMPTED})


def goodput(
    sheet: Timesheet | None, now: datetime, *, restart_waits: bool = False, watched_from: datetime | None = None
) -> Goodput | None:
    """How the wall time was used as of ``now``, by the store's clock, or None if nothing is known of the run.

    ``restart_waits``: a restart is decided, and its job has not been submitted. Otherwise a run that has ended is over.
    Its wall time then stops at its end if that was a success, requested or before ``watched_from``, else when seen.
    """
    start = _start(sheet)
    if sheet is None or start is None:
        return None
    last = sheet.last
    over = last is not None and last.seen_at is not None and not restart_waits
    until = _over_at(last, watched_from) if over and last is not None else now
    walk = _Walk.over(sheet, start, max(until or now, start), watched_from)
    for index, each in enumerate(sheet.attempts):
        walk.walk(each, sheet.attempts[index + 1 :])
    walk.spend(TimeUse.UNKNOWN, walk.end)
    first = sheet.attempts[0].number if sheet.attempts else 1
    if sheet.earlier is not None:
        earlier = sheet.earlier.attempts
        first -= earlier + (_unseen(sheet.attempts[0], earlier) if sheet.attempts else 0)
    return Goodput(
        since=start,
        until=walk.end,
        spent={use: walk.spent[use] for use in TimeUse if use in walk.spent},
        attempts=walk.attempts,
        first_attempt=max(1, first),
        over=over,
        down=walk.down_since is not None,
        lost_steps=walk.lost_steps,
        failures=walk.failures,
        detected=walk.detected,
        detect_s=walk.detect_s,
        recovered=walk.recovered,
        recover_s=walk.recover_s,
    )


@dataclass(frozen=True, slots=True)
class AttemptUse:
    """What one attempt cost, in seconds."""

    times: AttemptTimes
    thrown_away_s: float | None
    """Its steps that do not count, and the time after its last step; None if it is unknown which steps count or when it
    died."""
    dead_s: float
    """Downtime until the next attempt began, seen or not, as far as it is known. Excludes the time before a watcher's
    first look."""
    unnoticed_s: float
    """The part of ``dead_s`` before a watcher saw that it was down."""
    stood_s: float
    """Time without progress that ended by itself."""


def attempt_uses(
    sheet: Timesheet | None,
    now: datetime,
    *,
    restart_waits: bool = False,
    watched_from: datetime | None = None,
    checkpoint: int | None = None,
) -> Iterator[AttemptUse]:
    """Each attempt that ``sheet`` keeps, as :func:`goodput` counts it. ``checkpoint``: the step of the last complete
    checkpoint, which the next attempt resumes from."""
    start = _start(sheet)
    if sheet is None or start is None:
        return
    last = sheet.last
    over = last is not None and last.seen_at is not None and not restart_waits
    until = _over_at(last, watched_from) if over and last is not None else now
    walk = _Walk.over(sheet, start, max(until or now, start), watched_from)
    for index, each in enumerate(sheet.attempts):
        later = sheet.attempts[index + 1 :]
        before, unwatched_s = dict(walk.spent), walk.unwatched_s
        walk.walk(each, later)
        unwatched_s = walk.unwatched_s - unwatched_s
        lost_s, unnoticed_s, restarting_s = (
            walk.spent.get(use, 0.0) - before.get(use, 0.0)
            for use in (TimeUse.LOST, TimeUse.UNNOTICED, TimeUse.RESTARTING)
        )
        stood_s = max(0.0, each.still_s) + max(0.0, each.given_up_s)
        thrown_away_s: float | None = lost_s
        if each.died_at is None or each.last_step is None:
            thrown_away_s = None
        elif _bound(later) is None:
            # The walk counts all its steps as kept.
            more_s = None if later or checkpoint is None else _beyond(each, checkpoint)
            thrown_away_s = None if more_s is None else lost_s + more_s
        dead_s = max(0.0, unnoticed_s + restarting_s - unwatched_s - stood_s)
        yield AttemptUse(each, thrown_away_s, dead_s, min(dead_s, max(0.0, unnoticed_s - each.still_s)), stood_s)


def _beyond(each: AttemptTimes, checkpoint: int) -> float | None:
    """Seconds that the steps after ``checkpoint`` took, or None if a step's duration is unknown."""
    last, before = each.last_step, _before_first(each)
    if last is None or before is None or checkpoint >= last:
        return 0.0
    step_s = _step_s(each)
    return None if step_s is None else (last - max(checkpoint, before)) * step_s


def summed(sheet: Timesheet, most: int, watched_from: datetime | None = None) -> Timesheet:
    """``sheet`` with the latest ``most`` attempts kept one by one; those before them are added to the sum."""
    while len(sheet.attempts) > most:
        start = _start(sheet)
        first, rest = sheet.attempts[0], sheet.attempts[1:]
        if start is None:
            sheet = replace(sheet, attempts=rest)
            continue
        walk = _Walk.over(sheet, start, max(start, rest[0].began_at or start), watched_from)
        walk.walk(first, rest)
        walk.spend(TimeUse.UNKNOWN, walk.end)
        sheet = replace(sheet, attempts=rest, earlier=walk.earlier(sheet.earlier, start, first, rest))
    return sheet


def _unseen(each: AttemptTimes, before: int) -> int:
    """How many starts in place between attempt number ``before`` and this one no watcher saw."""
    return max(0, min(each.in_place, each.number - 1 - before))


def _start(sheet: Timesheet | None) -> datetime | None:
    if sheet is None:
        return None
    if sheet.earlier is not None:
        return sheet.earlier.since
    return next((each.began_at for each in sheet.attempts if each.began_at is not None), None)


def _over_at(last: AttemptTimes, watched_from: datetime | None) -> datetime | None:
    at_once = last.end in _NO_FAILURE or _found_dead(last, watched_from)
    return last.died_at if at_once and last.died_at is not None else last.seen_at


def _found_dead(each: AttemptTimes, watched_from: datetime | None) -> bool:
    """Whether the attempt was dead at a watcher's first look."""
    if each.died_at is None or each.seen_at is None or watched_from is None:
        return False
    return each.died_at < watched_from and each.seen_at <= watched_from


def _resumed(each: AttemptTimes) -> int | None:
    """The last step before its own, at most, or None if no step is known."""
    known = [step for step in (each.resumed_from, _before_first(each)) if step is not None]
    return min(known, default=None)


def _before_first(each: AttemptTimes) -> int | None:
    return None if each.first_step is None else each.first_step - 1


def _bound(later: Sequence[AttemptTimes]) -> int | None:
    """The last step that no later attempt repeated, or None if no repeated step is known."""
    return min((step for step in map(_resumed, later) if step is not None), default=None)


def _step_s(each: AttemptTimes) -> float | None:
    """Seconds that one step of the attempt took, or None if unknown."""
    first, last, first_at, last_at = each.first_step, each.last_step, each.first_step_at, each.last_step_at
    if first is None or last is None or first_at is None or last_at is None:
        return None
    steps = last - first + each.redone
    span_s = (last_at - first_at).total_seconds() - each.still_s - each.given_up_s
    return span_s / steps if steps > 0 and span_s > 0 else None


@dataclass
class _Walk:
    """Where the cursor is, and what it found on the way."""

    cursor: datetime
    end: datetime
    tells_steps: bool
    """Whether any attempt of the run shows steps. If so, an attempt that shows none made none."""
    watched_from: datetime | None = None
    attempts: int = 0
    """Attempts behind the cursor, including starts in place that no watcher saw."""
    spent: dict[TimeUse, float] = field(default_factory=dict)
    lost_steps: int | None = None
    failures: int = 0
    detected: int = 0
    detect_s: float = 0.0
    recovered: int = 0
    recover_s: float = 0.0
    down_since: datetime | None = None
    unwatched_s: float = 0.0
    """Downtime before ``watched_from``, in s."""
    number: int = 0
    """Number of the attempt that the cursor has passed."""

    @classmethod
    def over(cls, sheet: Timesheet, start: datetime, end: datetime, watched_from: datetime | None) -> "_Walk":
        """A walk from ``start`` to ``end``, which begins with the sums of the attempts before those of ``sheet``."""
        known = sheet.earlier
        tells = any(each.first_step is not None for each in sheet.attempts)
        spent = {TimeUse.UNNOTICED: 0.0, TimeUse.RESTARTING: 0.0}
        if known is None:
            return cls(start, end, tells, watched_from, 0, spent)
        for name, seconds in known.spent.items():
            # The record may name uses that this version does not know.
            use = TimeUse(name) if name in set(map(str, TimeUse)) else TimeUse.UNKNOWN
            spent[use] = spent.get(use, 0.0) + max(0.0, seconds)
        lost_steps, bound = known.lost_steps, _bound(sheet.attempts)
        if known.top_step is not None and bound is not None and bound < known.top_step:
            again = known.top_step - bound
            again_s = min(spent.get(TimeUse.PRODUCTIVE, 0.0), again * max(0.0, known.step_s))
            spent[TimeUse.PRODUCTIVE] = spent.get(TimeUse.PRODUCTIVE, 0.0) - again_s
            spent[TimeUse.LOST] = spent.get(TimeUse.LOST, 0.0) + again_s
            lost_steps = (lost_steps or 0) + again
        until = max(start, known.until)
        tells = tells or known.top_step is not None
        return cls(
            until,
            max(end, until),
            tells,
            watched_from,
            known.attempts,
            spent,
            lost_steps,
            known.failures,
            known.detected,
            known.detect_s,
            known.recovered,
            known.recover_s,
            known.down_since,
            number=known.attempts,
        )

    def earlier(
        self, known: EarlierTimes | None, start: datetime, last: AttemptTimes, later: Sequence[AttemptTimes]
    ) -> EarlierTimes:
        """The sums, as the timesheet keeps them; ``last`` is the attempt that the cursor has just passed."""
        bound = _bound(later)
        tops = [step for step in (known.top_step if known is not None else None, last.last_step) if step is not None]
        top = max(tops, default=None)
        known_step_s = known.step_s if known is not None else 0.0
        return EarlierTimes(
            since=start,
            until=self.cursor,
            attempts=self.attempts,
            spent={str(use): round(seconds, 6) for use, seconds in self.spent.items()},
            top_step=top if top is None or bound is None else min(top, bound),
            step_s=round(_step_s(last) or known_step_s, 6),
            lost_steps=self.lost_steps,
            failures=self.failures,
            detected=self.detected,
            detect_s=round(self.detect_s, 6),
            recovered=self.recovered,
            recover_s=round(self.recover_s, 6),
            down_since=self.down_since,
            unknown=known.unknown if known is not None else {},
        )

    def spend(self, use: TimeUse, until: datetime | None) -> None:
        """Count the time up to ``until`` as ``use``; None if that moment is unknown."""
        if until is None:
            return
        self._add(use, (min(until, self.end) - self.cursor).total_seconds())

    def _add(self, use: TimeUse, seconds: float) -> None:
        seconds = min(max(0.0, seconds), (self.end - self.cursor).total_seconds())
        self.spent[use] = self.spent.get(use, 0.0) + seconds
        self.cursor = min(self.end, self.cursor + timedelta(seconds=seconds))

    def walk(self, each: AttemptTimes, later: Sequence[AttemptTimes]) -> None:
        """Walk over one attempt, up to where the next one begins."""
        # Each start in place follows a failure or a hang, whether a watcher saw it or not.
        unseen = _unseen(each, self.number)
        self.attempts, self.failures, self.number = self.attempts + unseen + 1, self.failures + unseen, each.number
        then = next((other.began_at for other in later if other.began_at is not None), None)
        limit = self.end if then is None else min(self.end, max(self.cursor, then))
        bound = _bound(later)
        stop = each.died_at or each.seen_at
        if each.first_step is None:
            self._without_steps(each, min(stop or limit, limit))
        else:
            self._steps(each, bound, limit)
        self._last_words(each, bound, later, limit)
        self._death(each, limit)

    def _without_steps(self, each: AttemptTimes, stop: datetime) -> None:
        if each.submitted_at is not None:
            # No watcher saw it leave the queue.
            self.spend(TimeUse.QUEUED, stop if each.started_at is None else min(each.started_at, stop))
        if self.tells_steps:
            self.spend(TimeUse.STARTING, None if each.no_step_at is None else min(each.no_step_at, stop))
        self.spend(TimeUse.UNKNOWN, stop)

    def _steps(self, each: AttemptTimes, bound: int | None, limit: datetime) -> None:
        first, last = each.first_step, each.last_step
        first_at, last_at = each.first_step_at, each.last_step_at
        if first is None or last is None or first_at is None or last_at is None:
            return
        if each.submitted_at is not None:
            self.spend(TimeUse.QUEUED, None if each.started_at is None else min(each.started_at, limit))
        before = self._start_up(each, first, min(first_at, limit))
        if self.down_since is not None:
            self.recovered += 1
            self.recover_s += max(0.0, (self.cursor - self.down_since).total_seconds())
            self.down_since = None
        stepped_s = max(0.0, (min(last_at, limit) - self.cursor).total_seconds())
        still_s = min(max(0.0, each.still_s), stepped_s)
        given_up_s = min(max(0.0, each.given_up_s), stepped_s - still_s)
        stepped_s -= still_s + given_up_s
        done = max(0, last - before) + each.redone
        lost = each.redone + (0 if bound is None else max(0, last - max(before, bound)))
        lost_s = stepped_s * min(1.0, lost / done) if done > 0 else 0.0
        self._add(TimeUse.PRODUCTIVE, stepped_s - lost_s)
        self._add(TimeUse.LOST, lost_s)
        self._add(TimeUse.UNNOTICED, still_s)
        self._add(TimeUse.RESTARTING, given_up_s)
        resumed = _resumed(each)
        again = 0 if bound is None or resumed is None else max(0, last - max(resumed, bound))
        self.lost_steps = (self.lost_steps or 0) + each.redone + again

    def _start_up(self, each: AttemptTimes, first: int, first_at: datetime) -> int:
        """Walk to the attempt's first step, as far as that is known. Returns the step before it."""
        # If no watcher saw the job begin, waiting cannot be separated from start-up.
        use = TimeUse.STARTING if each.started_at is not None or each.submitted_at is None else TimeUse.UNKNOWN
        self.spend(use, None if each.no_step_at is None else min(each.no_step_at, first_at))
        step_s, resumed = _step_s(each), _resumed(each)
        if each.first_is_told:
            self.spend(use, first_at - timedelta(seconds=step_s or 0.0))
            return first - 1
        if step_s is not None and each.resumed_from is not None and resumed is not None:
            unseen_s = min((first - resumed) * step_s, max(0.0, (first_at - self.cursor).total_seconds()))
            self.spend(use, first_at - timedelta(seconds=unseen_s))
            return resumed
        self.spend(TimeUse.UNKNOWN, first_at)
        return first

    def _last_words(
        self, each: AttemptTimes, bound: int | None, later: Sequence[AttemptTimes], limit: datetime
    ) -> None:
        """Walk from the attempt's last step to its end."""
        if each.died_at is None or each.last_step is None:
            return
        died_at = min(each.died_at, limit)
        if each.end is Status.SUCCEEDED or (
            each.end is Status.PREEMPTED and (bound is None or bound >= each.last_step)
        ):
            # The time after the last step went into saving it.
            self.spend(TimeUse.PRODUCTIVE, died_at)
            return
        step_s = _step_s(each)
        # Steps that were made and saved, but not reported.
        more = bound - each.last_step if bound is not None and any(map(_knows_resumed, later)) else 0
        if step_s is not None and more > 0:
            self._add(TimeUse.PRODUCTIVE, min((died_at - self.cursor).total_seconds(), more * step_s))
        self.spend(TimeUse.LOST, died_at)

    def _death(self, each: AttemptTimes, limit: datetime) -> None:
        if each.end is Status.SUCCEEDED:
            # The run was back, but without a step of it the time is unknown.
            self.down_since = None
        if each.seen_at is None:
            self.spend(TimeUse.UNKNOWN, limit)
            return
        if each.end not in _NO_FAILURE:
            self.failures += 1
            noticeable_from = each.died_at
            if each.died_at is not None and self.watched_from is not None and each.died_at < self.watched_from:
                noticeable_from, dead_from = self.watched_from, self.cursor
                self.spend(TimeUse.RESTARTING, min(self.watched_from, each.seen_at, limit))
                self.unwatched_s += (self.cursor - dead_from).total_seconds()
            if noticeable_from is not None and not _found_dead(each, self.watched_from):
                self.detected += 1
                self.detect_s += max(0.0, (each.seen_at - noticeable_from).total_seconds())
            self.down_since = self.down_since or each.died_at or each.seen_at
            dead = TimeUse.UNKNOWN if each.died_at is None else TimeUse.UNNOTICED
            self.spend(dead, min(each.seen_at, limit))
        self.spend(TimeUse.RESTARTING, limit)


def _knows_resumed(each: AttemptTimes) -> bool:
    return each.resumed_from is not None or each.first_is_told
