"""Which attempt of the run is being looked at, and which evidence belongs to it."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

from lastbeat.model import status as names
from lastbeat.model.cause import NOTHING
from lastbeat.model.data import dataclass
from lastbeat.model.efa_use import UNTOLD
from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.log_report import LogReport
from lastbeat.model.observation import LogFile, PreemptedSentinel, Seen, Sentinel, StopAsked
from lastbeat.model.record import Attempt, Record
from lastbeat.model.status import Status
from lastbeat.watch.decide.conditions.log_text import sockets_used
from lastbeat.watch.decide.logs import token as line_token

_SAME_START_S = 1.0
_UPLOAD_S = 5.0
"""A timestamp that lags its file by at most this many seconds is explained by the upload, not by a clock."""
_MOST_REMEMBERED = 8
_File = TypeVar("_File", Heartbeat, Sentinel, PreemptedSentinel, LogFile)
_End = TypeVar("_End", Sentinel, PreemptedSentinel)


@dataclass(frozen=True, slots=True)
class AttemptMatch:
    """The current attempt, and the part of the observation that counts for it."""

    attempt: Attempt
    is_new: bool
    seen: Seen
    """The observation without the evidence of other attempts."""
    leftover: bool = False
    """metadata.json exists, but an earlier attempt wrote it."""


def token(name: str, file: Heartbeat | Sentinel | LogFile) -> str:
    """Identifies one write of a file. The version alone does not: every empty file has the same one."""
    return f"{name}@{file.modified.isoformat()}:{file.version}"


def sentinel_tokens(seen: Seen) -> tuple[str, ...]:
    """Tokens of the sentinels that exist."""
    named = (("_error", seen.error), ("_complete", seen.complete), ("_preempted", seen.preempted))
    return tuple(token(name, sentinel) for name, sentinel in named if sentinel is not None)


def match_attempt(record: Record | None, seen: Seen, skew_s: tuple[float, float] | None) -> AttemptMatch:
    """Identify the attempt that ``seen`` shows, and drop what earlier attempts left behind.

    ``skew_s`` is the store's clock minus the instance's: the least and the most that it can be, None if unknown. It
    converts the run's ``start_time`` to the clock that stamps files.

    1. Same attempt, new attempt, or a leftover document of an earlier one? The attempt number decides, then the start
       time.
    2. Fix the skew at the start of the attempt once it is known: that clock wrote the start time.
    3. At the first look at a new attempt, mark as spent every file that existed before it.
    4. Drop files that are spent or older than the attempt's start.
    5. Keep a sentinel if the clocks leave it open and it was written after the latest heartbeat.
    """
    attempt, kind = _of_job(record, seen) or _attempt(record, seen.metadata)
    if kind == "leftover" or (seen.metadata is not None and _is_too_old(seen.metadata.modified, attempt)):
        seen = replace(seen, metadata=None)
    if attempt.start_skew_s is None and attempt.start_time is not None and kind != "leftover":
        attempt = replace(attempt, start_skew_s=_at_start(skew_s, attempt.start_time, seen.metadata))
    if kind == "new" and record is not None:
        attempt = replace(attempt, spent=_spent(record, seen, attempt.begun_at or _begun(attempt, seen.metadata)))
    least_s, most_s = attempt.start_skew_s or (0.0, 0.0)
    started = attempt.start_time
    log = _current("log", seen.log, attempt, least_s)
    seen = replace(
        seen,
        progress=_current("progress.json", seen.progress, attempt, least_s),
        log=log,
        stacks=_current("stacks", seen.stacks, attempt, least_s),
        logs=_current_report(seen, log, attempt, least_s),
        error=_counting(_current("_error", seen.error, attempt, least_s), started, most_s, seen.metadata),
        stop=_of_attempt(seen.stop, attempt),
        complete=_counting(_current("_complete", seen.complete, attempt, least_s), started, most_s, seen.metadata),
        preempted=_counting(_current("_preempted", seen.preempted, attempt, least_s), started, most_s, seen.metadata),
    )
    return AttemptMatch(attempt, kind == "new" and record is not None, seen, leftover=kind == "leftover")


def _of_job(record: Record | None, seen: Seen) -> tuple[Attempt, str] | None:
    """The attempt that a supervised job begins, or None if the job is the same as before."""
    if record is None or seen.job is None or record.attempt.job == seen.job.memory.key:
        return None
    known, job = record.attempt, seen.job.memory
    begun_at = job.submitted_at
    if job.restarts > 0:
        # While it waits in the queue again, no file is its own.
        begun_at = seen.job.report.started_at or job.seen_at or job.submitted_at
    named = replace(known, job=job.key, begun_at=begun_at)
    if (known.job is None and not _lived(record)) or _began_since(record, begun_at):
        # Nothing of the run was ever seen: its first job is its first attempt. Or a watcher that knows no jobs has seen
        # this one's heartbeats before.
        return named, "same"
    starts = (*known.earlier_starts, *([known.start_time] if known.start_time else []))
    fresh = replace(
        named,
        number=known.number + 1,
        start_time=None,
        start_skew_s=None,
        declared=None,
        earlier_starts=starts[-_MOST_REMEMBERED:],
    )
    if seen.metadata is None or _is_too_old(seen.metadata.modified, fresh):
        return fresh, "new"
    return replace(fresh, start_time=seen.metadata.start_time, declared=seen.metadata.attempt), "new"


def _lived(record: Record) -> bool:
    """Whether anything of the run was ever seen."""
    seen = (record.metadata, record.progress, record.log, *record.sentinels)
    return any(each is not None for each in seen) or record.status not in {None, Status.RUNNING, Status.NO_HEARTBEAT}


def _began_since(record: Record, at: datetime) -> bool:
    """Whether the current attempt was first seen by its own heartbeats, at ``at`` or later."""
    attempt = record.attempt
    first = next((each.at for each in record.history if each.attempt == attempt.number), None)
    seen = record.metadata
    return (
        attempt.start_time is not None
        and seen is not None
        and not _before_start(seen.modified, at, 0.0)
        and first is not None
        and first >= at
    )


def _is_too_old(modified: datetime, attempt: Attempt) -> bool:
    """Whether a file stored at ``modified`` was written before the attempt's job was submitted."""
    return attempt.begun_at is not None and _before_start(modified, attempt.begun_at, 0.0)


def _of_attempt(asked: StopAsked | None, attempt: Attempt) -> StopAsked | None:
    known = asked is not None and asked.request.is_of(attempt.start_time, attempt.number)
    return asked if known else None


def _at_start(
    skew_s: tuple[float, float] | None, start_time: datetime, metadata: Heartbeat | None
) -> tuple[float, float] | None:
    """The skew at the attempt's start. The clock may have been set since, for example after booting; but no attempt
    began after one of its own documents was stored."""
    if metadata is None:
        return skew_s
    highest_s = (metadata.modified - start_time).total_seconds()
    if skew_s is None:
        return (highest_s, highest_s) if highest_s < 0 else None
    return min(skew_s[0], highest_s), min(skew_s[1], highest_s)


def _begun(attempt: Attempt, metadata: Heartbeat | None) -> datetime | None:
    """The latest time at which a new attempt can have begun, by the store's clock. It may have been beating for some
    time."""
    if metadata is None or attempt.start_time is None or attempt.start_skew_s is None:
        return metadata.modified if metadata is not None else None
    return min(metadata.modified, attempt.start_time + timedelta(seconds=attempt.start_skew_s[1]))


def _spent(record: Record, seen: Seen, begun: datetime | None) -> tuple[str, ...]:
    """Tokens of files that existed when a new attempt was first seen: those known from before, and those older than
    it."""
    known = {*record.attempt.spent, *record.sentinels}
    lines = [record.finding.line] if record.finding is not None else []
    cause = seen.logs.explanation.cause if seen.logs is not None else None
    if cause is not None:
        lines.append(line_token(cause.evidence))
    network = seen.logs.efa_line if seen.logs is not None else None
    told = record.conditions.get(names.EFA_FALLBACK)
    if network is not None and told is not None and sockets_used(seen.logs) == told:
        # The same line was reported for the last attempt: this one has not printed any yet.
        lines.append(line_token(network))
    files = (
        ("_error", seen.error), ("_complete", seen.complete), ("_preempted", seen.preempted),
        ("progress.json", seen.progress), ("log", seen.log), ("stacks", seen.stacks),
    )  # fmt: skip
    return tuple(lines) + tuple(
        token(name, file)
        for name, file in files
        if file is not None and (token(name, file) in known or (begun is not None and file.modified < begun))
    )


def _current(name: str, file: _File | None, attempt: Attempt, skew_s: float) -> _File | None:
    if file is None or token(name, file) in attempt.spent or _is_too_old(file.modified, attempt):
        return None
    if attempt.start_time is not None and _before_start(file.modified, attempt.start_time, skew_s):
        return None
    return file


def _current_report(seen: Seen, log: LogFile | None, attempt: Attempt, skew_s: float) -> LogReport | None:
    """The report, or None if no log text is younger than the attempt. Within a file that goes on, the reader cuts."""
    at = seen.logs.written_at if seen.logs is not None else None
    if at is None:
        return seen.logs
    if _is_too_old(at, attempt):
        return None
    if attempt.start_time is not None and _before_start(at, attempt.start_time, skew_s):
        return None
    if seen.logs is None or (log is None and seen.log is not None and at <= seen.log.modified):
        return None
    report, cause, network = seen.logs, seen.logs.explanation.cause, seen.logs.efa_line
    if cause is not None and line_token(cause.evidence) in attempt.spent:
        # A first read of the log finds what ended an earlier attempt.
        report = replace(report, explanation=NOTHING)
    if network is not None and line_token(network) in attempt.spent:
        report = replace(report, efa=UNTOLD, efa_line=None)
    return report


def _counting(
    sentinel: _End | None, started: datetime | None, most_s: float, metadata: Heartbeat | None
) -> _End | None:
    if sentinel is None or started is None or metadata is None:
        return sentinel
    # If the clocks leave it open, the order of writes decides: an attempt beats first and ends later.
    if _before_start(sentinel.modified, started, most_s) and metadata.modified > sentinel.modified:
        return None
    return sentinel


def _before_start(modified: datetime, start_time: datetime, skew_s: float) -> bool:
    started = start_time + timedelta(seconds=skew_s)
    # With stamps in whole seconds, a file written right after the start looks older than it.
    return modified < (started if modified.microsecond else started.replace(microsecond=0))


def skew_range(skew_s: float, lag_s: float) -> tuple[float, float]:
    """The least and the most that the store's clock can be ahead of the instance's, in s.

    A file is never older than the time written in it, so any lead is due to the clock. A small lag is due to the
    upload; a larger one to either.
    """
    least_s = min(skew_s, lag_s) if skew_s <= 0 else skew_s
    return least_s, least_s if lag_s <= _UPLOAD_S else max(least_s, lag_s)


def _attempt(record: Record | None, metadata: Heartbeat | None) -> tuple[Attempt, str]:
    if record is None:
        if metadata is None:
            return Attempt(), "new"
        return Attempt(max(1, metadata.attempt or 1), metadata.start_time, declared=metadata.attempt), "new"
    known = record.attempt
    if metadata is None:
        return known, "same"
    if _is_too_old(metadata.modified, known):
        return known, "leftover"
    number, start = metadata.attempt, metadata.start_time
    moved = start is not None and known.start_time is not None and not _same(start, known.start_time)
    if number is not None and number > (known.declared or known.number):
        return _next(known, metadata), "new"
    # Without a higher number the start time decides. A clock that jumps may bring back an old one.
    if start is not None and moved and any(_same(start, earlier) for earlier in known.earlier_starts):
        return known, "leftover"
    if moved:
        return _next(known, metadata), "new"
    return replace(known, start_time=known.start_time or start, declared=known.declared or number), "same"


def _next(known: Attempt, metadata: Heartbeat) -> Attempt:
    starts = (*known.earlier_starts, *([known.start_time] if known.start_time else []))
    same_start = metadata.start_time is None or (
        known.start_time is not None and _same(metadata.start_time, known.start_time)
    )
    return Attempt(
        job=known.job,
        begun_at=known.begun_at,
        number=max(metadata.attempt or 0, known.number + 1),
        # A start time carried over unchanged is that of the first attempt and does not apply to this one.
        start_time=None if same_start else metadata.start_time,
        declared=metadata.attempt if metadata.attempt is not None else known.declared,
        earlier_starts=() if same_start else starts[-_MOST_REMEMBERED:],
    )


def reopened(known: Attempt) -> Attempt:
    """The next attempt of a finished run whose files name no attempt: its sentinel was removed and it beats again."""
    return replace(known, number=known.number + 1, spent=())


def _same(one: datetime, other: datetime) -> bool:
    return abs((one - other).total_seconds()) <= _SAME_START_S
