"""Which life of the run is being looked at, and which evidence belongs to it."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lastbeat.model.observation import Heartbeat, Seen, Sentinel
from lastbeat.model.record import Attempt, Record

_SAME_START_S = 1.0
_MOST_REMEMBERED = 8


@dataclass(frozen=True, slots=True)
class Belonging:
    """The attempt, and what of the observation counts for it."""

    attempt: Attempt
    is_new: bool
    seen: Seen
    """Without the evidence that belongs to other attempts."""
    leftover: bool = False
    """metadata.json is there, but an earlier attempt wrote it."""


def sentinel_token(name: str, sentinel: Sentinel) -> str:
    """Names one writing of a sentinel. The version alone would not: an empty file always has the same."""
    return f"{name}@{sentinel.modified.isoformat()}:{sentinel.version}"


def sort_out(record: Record | None, seen: Seen, skew_s: tuple[float, float]) -> Belonging:
    """Tell the attempt that ``seen`` shows, and drop what an earlier attempt left behind.

    ``skew_s`` (store clock minus instance clock: the least and the most that it can be, 0 where unknown) brings
    the run's ``start_time`` to the clock that sentinels are stamped with.
    """
    attempt, kind = _attempt(record, seen.metadata)
    if kind == "leftover":
        seen = replace(seen, metadata=None)
    if kind == "new" and record is not None:
        spent = {*attempt.spent, *([record.sentinel] if record.sentinel else [])}
        attempt = replace(attempt, spent=tuple(sorted(spent))[-_MOST_REMEMBERED:])
    seen = replace(
        seen,
        progress=_progress(seen.progress, attempt, skew_s[0]),
        error=_counting("_error", seen.error, attempt, skew_s, seen.metadata),
        complete=_counting("_complete", seen.complete, attempt, skew_s, seen.metadata),
        stacks_modified=_stacks(seen.stacks_modified, attempt, skew_s[0]),
    )
    return Belonging(attempt, kind == "new" and record is not None, seen, leftover=kind == "leftover")


def _progress(progress: Heartbeat | None, attempt: Attempt, skew_s: float) -> Heartbeat | None:
    if progress is None or attempt.start_time is None:
        return progress
    return None if _before_start(progress.modified, attempt.start_time, skew_s) else progress


def _stacks(modified: datetime | None, attempt: Attempt, skew_s: float) -> datetime | None:
    if modified is None or attempt.start_time is None:
        return modified
    return None if _before_start(modified, attempt.start_time, skew_s) else modified


def _counting(
    name: str, sentinel: Sentinel | None, attempt: Attempt, skew_s: tuple[float, float], metadata: Heartbeat | None
) -> Sentinel | None:
    if sentinel is None or sentinel_token(name, sentinel) in attempt.spent:
        return None
    if attempt.start_time is None:
        return sentinel
    if _before_start(sentinel.modified, attempt.start_time, skew_s[0]):
        return None
    # Where the clocks leave it open, the order of the writes tells: an attempt beats first and ends then.
    if _before_start(sentinel.modified, attempt.start_time, skew_s[1]):
        return sentinel if metadata is None or metadata.modified <= sentinel.modified else None
    return sentinel


def _before_start(modified: datetime, start_time: datetime, skew_s: float) -> bool:
    started = start_time + timedelta(seconds=skew_s)
    # Stores that stamp whole seconds stamp a file written right after the start as older than it.
    return modified < (started if modified.microsecond else started.replace(microsecond=0))


def _attempt(record: Record | None, metadata: Heartbeat | None) -> tuple[Attempt, str]:
    if record is None:
        if metadata is None:
            return Attempt(), "new"
        first = Attempt(max(1, metadata.attempt or 1), metadata.start_time, metadata.attempt)
        return first, "new"
    known = record.attempt
    if metadata is None or metadata.fault is not None:
        return known, "same"
    number, start = metadata.attempt, metadata.start_time
    moved = start is not None and known.start_time is not None and not _same(start, known.start_time)
    if start is not None and moved and any(_same(start, earlier) for earlier in known.earlier_starts):
        return known, "leftover"
    if number is not None and known.declared is not None and number < known.declared and not moved:
        return known, "leftover"
    counted_on = number is not None and number > (known.declared or known.number)
    if moved or counted_on:
        return _next(known, metadata), "new"
    return replace(known, start_time=known.start_time or start, declared=known.declared or number), "same"


def _next(known: Attempt, metadata: Heartbeat) -> Attempt:
    starts = (*known.earlier_starts, *([known.start_time] if known.start_time else []))
    same_start = metadata.start_time is None or (
        known.start_time is not None and _same(metadata.start_time, known.start_time)
    )
    return Attempt(
        number=max(metadata.attempt or 0, known.number + 1),
        # A start time carried over unchanged is the first attempt's: it tells nothing about this one.
        start_time=None if same_start else metadata.start_time,
        declared=metadata.attempt if metadata.attempt is not None else known.declared,
        earlier_starts=() if same_start else starts[-_MOST_REMEMBERED:],
        spent=known.spent,
    )


def reopened(known: Attempt, record: Record) -> Attempt:
    """The next attempt of a finished run whose files carry no attempt at all: its sentinel was taken away
    and it beats again."""
    spent = {*known.spent, *([record.sentinel] if record.sentinel else [])}
    return replace(known, number=known.number + 1, spent=tuple(sorted(spent))[-_MOST_REMEMBERED:])


def _same(one: datetime, other: datetime) -> bool:
    return abs((one - other).total_seconds()) <= _SAME_START_S
