"""What logs add to a decision: liveness and progress for runs without heartbeats, failures, and missing lines.

A failure that only a log shows counts at once. It is withdrawn when training goes on: when a step appears, in the logs
or in progress.json, later than a dead process could still have written. After one such mistake, the next failure of the
same attempt has to stand for :data:`DOUBT_S`.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from lastbeat import explain
from lastbeat.explain.signals.error_types import traits_of
from lastbeat.explain.signals.hints import either
from lastbeat.model.alert import ALSO_SEEN_LIMIT
from lastbeat.model.cause import (
    CERTAIN,
    FRAMES_LIMIT,
    MISSING_LIMIT,
    TEXT_LIMIT,
    WORTH_TELLING,
    Cause,
    Evidence,
    Explanation,
    Idle,
    MissingRanks,
    Warned,
)
from lastbeat.model.log_report import LogReport
from lastbeat.model.observation import Seen
from lastbeat.model.policy import Policy
from lastbeat.model.record import Finding, HeartbeatMemory, Record, ToldWarning
from lastbeat.model.state import RecordedCause
from lastbeat.model.stuck_collective import StuckCollective
from lastbeat.model.text import clean, fit, one_line

if TYPE_CHECKING:
    from lastbeat.model.signal import Absence

LAST_WORDS_S: Final = 60.0
"""For this many seconds after a fatal line, the last output of the dead program may still reach the store."""
DOUBT_S: Final = 180.0
_SLOWER: Final = 1.5
"""A step may take this many times the longest one so far before it is late."""
_MOST_SLOWER: Final = 3.0
"""Cap on that longest time, as a multiple of the stale limit."""
_TEXT_LIMIT: Final = 200
_NAME_LIMIT: Final = 200
_HINT_LIMIT: Final = 2000
WARNED_S: Final = 1800.0
"""A warning stands for this many seconds after its last line."""
_WARNED_LIMIT: Final = 64
"""At most this many lines that warned are kept: more than one look finds."""


def fatal(explanation: Explanation) -> bool:
    """Whether the explanation says that the run has ended."""
    cause = explanation.cause
    return cause is not None and explanation.ended and traits_of(cause.error_type).is_fatal


def token(evidence: Evidence) -> str:
    """A permanent identifier of one line of a log."""
    return f"{evidence.line}:{_digest(evidence.file, str(evidence.line), evidence.text)}"


def _text_token(evidence: Evidence) -> str:
    """A token that all lines of a file with the same text share."""
    return _digest(evidence.file, evidence.text)


def _digest(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode("utf-8", "replace")).hexdigest()[:16]


def shown(evidence: Evidence) -> str:
    """One line for people: the place and the text."""
    rank = f" (rank {evidence.rank})" if evidence.rank is not None else ""
    file = fit(one_line(evidence.file), _NAME_LIMIT)
    where = f"{file}:{evidence.line}" if evidence.line > 0 else file
    return f"{where}{rank}: {fit(one_line(evidence.text), _TEXT_LIMIT)}"


def recorded(cause: Cause, second: Cause | None) -> RecordedCause:
    """``cause``, and ``second``, the other possible one, as a record keeps them."""
    return RecordedCause(_bounded(cause), second=_bounded(second) if second is not None else None)


def _bounded(cause: Cause) -> Cause:
    """``cause`` cut to what a record can hold, without anything that a terminal would interpret, and with its
    fingerprint."""
    evidence = cause.evidence
    host = None if evidence.host is None else fit(one_line(evidence.host), _NAME_LIMIT)
    file, text = fit(one_line(evidence.file), _NAME_LIMIT), fit(clean(evidence.text).strip("\n"), TEXT_LIMIT)
    evidence = replace(evidence, file=file, text=text, host=host)
    frames = tuple(fit(one_line(frame), _TEXT_LIMIT) for frame in cause.frames[:FRAMES_LIMIT])
    kept = replace(cause, evidence=evidence, hint=fit(cause.hint, _HINT_LIMIT), frames=frames)
    return replace(kept, fingerprint=explain.causes.fingerprint.fingerprint_of(kept))


def bounded_missing(missing: MissingRanks | None) -> MissingRanks | None:
    """``missing`` cut to what a record can hold."""
    if missing is None:
        return None
    ranks = (
        replace(
            each,
            log=fit(one_line(each.log), _NAME_LIMIT),
            host=None if each.host is None else fit(one_line(each.host), _NAME_LIMIT),
            stack=fit(one_line(each.stack), _TEXT_LIMIT),
        )
        for each in missing.ranks[:MISSING_LIMIT]
    )
    return replace(missing, ranks=tuple(ranks))


def bounded_stuck(stuck: StuckCollective | None) -> StuckCollective | None:
    """``stuck`` cut to what a record can hold."""
    return None if stuck is None else stuck.masked(lambda text: fit(one_line(text), _TEXT_LIMIT))


def remember(
    memory: HeartbeatMemory | None, seen: Seen, now: datetime, *, late: bool, gone_since: datetime | None = None
) -> HeartbeatMemory | None:
    """What is known of the logs as a heartbeat. New text is life, a new step is progress. The same text uploaded again
    is neither, even for a reader that has not seen it before.

    ``late``: steps were overdue, so the record notes when the last one came. ``gone_since``: when logs that have
    disappeared start to count as silent, or None if their absence means nothing.
    """
    report, file = seen.logs, seen.log
    if report is None and file is None and memory is not None and memory.missing_since is None:
        return replace(memory, missing_since=gone_since)
    written = report.written_at if report is not None else None
    if written is not None and memory is not None and report is not None and memory.mark == report.mark != "":
        written = memory.modified
    # Text that could not be read may be new. Unreadable is not empty.
    unread = [file.modified] if file is not None and (report is None or report.unread) else []
    if report is not None and report.unread_at is not None:
        unread.append(report.unread_at)
    if unread:
        written = max(unread) if written is None else max(written, *unread)
    if written is None:
        return memory
    written = min(written, now)
    if memory is not None:
        written = max(written, memory.modified)
    fresh = HeartbeatMemory(written, alive_at=written)
    if memory is not None:
        fresh = replace(memory, modified=written, own_time=None, alive_at=written, missing_since=None)
    if report is not None and report.mark:
        fresh = replace(fresh, mark=report.mark)
    if report is None or report.step is None or report.step == fresh.step:
        return fresh
    at = min(report.progress_at or written, now)
    gap_s = (at - fresh.step_at).total_seconds() if fresh.step_at is not None and late else 0.0
    return replace(fresh, step=report.step, step_at=at, gap_s=max(fresh.gap_s, gap_s))


def patience_s(memory: HeartbeatMemory, stale_s: float) -> float:
    """Seconds that the last step in a log may be old before a warning: many programs print steps rarely."""
    return max(stale_s, _SLOWER * min(memory.gap_s, _MOST_SLOWER * stale_s))


def weigh(
    known: Finding | None,
    report: LogReport | None,
    memories: tuple[HeartbeatMemory | None, HeartbeatMemory | None],
    spent: tuple[str, ...],
    now: datetime,
) -> Finding | None:
    """The failure that the logs show, and whether it makes the run FAILED.

    ``memories`` are what is known of progress.json and of the logs, as of now. ``spent`` names lines that belong to
    earlier attempts.

    1. No logs read: nothing changes.
    2. No fatal line of this attempt now: withdraw an earlier failure only if a sign of life follows it. A line
       that is no longer found may merely lie before the part that was read.
    3. A fatal line, known or new: it is acquitted if a step came after it.
    4. It decides at once, unless an earlier one of this attempt was wrong: then after :data:`DOUBT_S`.
    """
    if report is None:
        return known
    # The report cannot say when a step first appeared: to a cold reader every step is new.
    steps = [memory.step_at for memory in memories if memory is not None and memory.step_at is not None]
    _, log = memories
    log_step_at = log.step_at if log is not None else None

    def went_on(found: Finding) -> bool:
        return any((at - found.seen_at).total_seconds() > LAST_WORDS_S for at in steps)

    cause = report.explanation.cause
    if cause is None or not fatal(report.explanation) or token(cause.evidence) in spent:
        if known is None or not known.alone:
            return known
        read_on = log_step_at is not None and log_step_at > known.seen_at
        # The line itself is still found, and a sign of life follows it.
        behind = not report.explanation.ended and cause is not None and token(cause.evidence) == known.line
        taken_back = went_on(known) or read_on or behind
        return replace(known, alone=False, acquitted=True) if taken_back else known
    line = token(cause.evidence)
    interrupted = report.explanation.interrupted
    if known is not None and known.line == line:
        # Later lines may show that something else had failed. A failure that was reported stays one.
        found = replace(known, interrupted=interrupted and (known.interrupted or not known.alone))
    else:
        seen_at = min(report.shown_at or report.written_at or now, now)
        found = Finding(line, seen_at, doubted=known is not None and (known.acquitted or known.doubted))
        found = replace(found, interrupted=interrupted)
    if found.acquitted or went_on(found):
        return replace(found, alone=False, acquitted=True)
    return replace(found, alone=not found.doubted or (now - found.seen_at).total_seconds() >= DOUBT_S)


def noted(known: Mapping[str, ToldWarning], warned: tuple[Warned, ...], now: datetime) -> dict[str, ToldWarning]:
    """``known`` with the lines ``warned``. A line is news for :data:`WARNED_S` from when it is first
    noted, no matter which reader finds it later: for a new reader every line is as new as its file.

    The same text is the same line unless its number has grown. If a number is unknown (0), it is the same line.
    """
    notes, seen = dict(known), set[str]()
    for each in warned[:_WARNED_LIMIT]:
        if each.at is None:
            continue
        name, number = _text_token(each.evidence), each.evidence.line
        seen.add(name)
        before = notes.get(name)
        if before is None or 0 < before.line < number:
            notes[name] = ToldWarning(number, min(each.at, now) + timedelta(seconds=WARNED_S))
        elif before.line == 0 < number:
            notes[name] = replace(before, line=number)
    # A forgotten line that is still reported would raise a new alert.
    oldest = sorted(notes, key=lambda name: (name in seen, notes[name].until))
    for name in oldest[: max(0, len(notes) - _WARNED_LIMIT)]:
        del notes[name]
    return notes


def no_news(known: Mapping[str, ToldWarning], now: datetime) -> dict[str, ToldWarning]:
    """``known`` of a finished attempt: no line of it is news any more."""
    return {name: replace(each, until=min(each.until, now)) for name, each in known.items()}


def latest_news(warned: tuple[Warned, ...], notes: Mapping[str, ToldWarning], now: datetime) -> Warned | None:
    """The latest line of ``warned`` that is still news."""
    new = [(notes[name].until, each) for each in warned if (name := _text_token(each.evidence)) in notes]
    latest = max(new, key=lambda one: one[0], default=None)
    return latest[1] if latest is not None and now <= latest[0] else None


def waits_for_lines(policy: Policy) -> bool:
    """Whether any new log line counts as progress."""
    return policy.stall_s is None and policy.inactivity_s is not None


def last_lines(
    known: Mapping[str, datetime], report: LogReport | None, rules: "tuple[Absence, ...]"
) -> dict[str, datetime]:
    """For each absence rule: when its line last appeared."""
    told = report.last_seen if report is not None else {}
    found = {}
    for rule in rules:
        times = [at for at in (known.get(rule.signal), told.get(rule.signal)) if at is not None]
        if times:
            found[rule.signal] = max(times)
    return found


def advice(explanation: Explanation) -> str:
    """What to do. If two causes are possible, a short hint for each."""
    cause, other = explanation.cause, explanation.second
    if cause is None or other is None:
        return explanation.hint or ""

    return either((cause.error_type, cause.hint), (other.error_type, other.hint))


def with_idle(explanation: Explanation, record: Record, report: LogReport | None) -> Explanation:
    """``explanation`` with how long the job idled by what watchers saw, if no line shows it: at most from the last step
    until the last write to its log."""
    cause, ended_at = explanation.cause, None if report is None else report.shown_at or report.written_at
    if cause is None or ended_at is None or explanation.idle is not None or not explanation.ended_by:
        return explanation
    steps = [each.step_at for each in (record.progress, record.log) if each is not None and each.step_at is not None]
    if not steps or ended_at - max(steps) < WORTH_TELLING:
        return explanation
    idle = Idle((ended_at - max(steps)).total_seconds(), explanation.ended_by, at_most=True)
    return replace(explanation, idle=idle)


def also_seen(explanation: Explanation) -> tuple[str, ...]:
    """One line each: the peer that went away, the idle time, the number of the attempt in its file, then other
    candidates and downstream errors."""
    cause = explanation.cause
    # Downstream errors of a certain cause are no alternatives.
    behind = explanation.downstream if cause is not None and cause.confidence >= CERTAIN else ()
    readings = [other for other in explanation.alternatives if other.evidence not in behind]
    if cause is not None and explanation.second is not None and explanation.second.evidence == cause.evidence:
        # It is shown beside the cause, and gets no line of its own.
        readings = readings[1:]
    others = [f"perhaps {other.error_type}: {shown(other.evidence)}" for other in readings]
    # At least one of each where both exist, and no line twice.
    told = readings[: max(1, ALSO_SEEN_LIMIT - len(explanation.downstream))]
    lines = {other.evidence for other in told}
    followed = [f"then {shown(evidence)}" for evidence in explanation.downstream if evidence not in lines]
    remarks = [each.told for each in (explanation.peer, explanation.idle, explanation.attempt) if each is not None]
    return (*remarks, *others[: len(told)], *followed)[:ALSO_SEEN_LIMIT]
