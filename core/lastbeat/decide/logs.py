"""What logs add to a decision: life and progress where nobody writes heartbeats, failures, and lines that are missing.

A failure that only a log shows is believed at once and taken back when training goes on, which a step shows that is
told later than the failure could still have been: in the logs or in progress.json. Whoever was wrong once in an attempt
waits for :data:`DOUBT_S` the next time.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from lastbeat.model import status as names
from lastbeat.model.cause import CERTAIN, TEXT_LIMIT, Cause, Evidence, Explanation
from lastbeat.model.log_report import LogReport
from lastbeat.model.observation import Seen
from lastbeat.model.policy import Policy
from lastbeat.model.record import Finding, HeartbeatMemory
from lastbeat.model.text import clean, fit, one_line
from lastbeat.model.times import format_duration

if TYPE_CHECKING:
    from lastbeat.model.error_type import ErrorTraits
    from lastbeat.model.signal import Absence

LAST_WORDS_S: Final = 60.0
"""What a dead program still told may reach the store so long after the line that says why it died."""
DOUBT_S: Final = 180.0
_SLOWER: Final = 1.5
"""Times the longest time between two steps is no reason to worry yet."""
_MOST_SLOWER: Final = 3.0
"""Times the stale limit is what that longest time counts for at most."""
_TEXT_LIMIT: Final = 200
_NAME_LIMIT: Final = 200
_HINT_LIMIT: Final = 2000
ALSO_SEEN_LIMIT: Final = 3
LOG_CONDITIONS: Final = frozenset({names.FAILURE_IN_LOG})


def fatal(explanation: Explanation) -> bool:
    """Whether it says that the run is over."""
    cause = explanation.cause
    return cause is not None and explanation.ended and _traits(cause).is_fatal


def token(evidence: Evidence) -> str:
    """Names a line of a log for good."""
    words = f"{evidence.file}\0{evidence.line}\0{evidence.text}"
    return f"{evidence.line}:{hashlib.sha256(words.encode('utf-8', 'replace')).hexdigest()[:16]}"


def shown(evidence: Evidence) -> str:
    """One line for people: where it stands, and what it says."""
    rank = f" (rank {evidence.rank})" if evidence.rank is not None else ""
    file = fit(one_line(evidence.file), _NAME_LIMIT)
    where = f"{file}:{evidence.line}" if evidence.line > 0 else file
    return f"{where}{rank}: {fit(one_line(evidence.text), _TEXT_LIMIT)}"


def bounded(cause: Cause) -> Cause:
    """``cause`` as short as a record wants it, and without what a terminal would interpret."""
    evidence = cause.evidence
    host = None if evidence.host is None else fit(one_line(evidence.host), _NAME_LIMIT)
    file, text = fit(one_line(evidence.file), _NAME_LIMIT), fit(clean(evidence.text).strip("\n"), TEXT_LIMIT)
    evidence = replace(evidence, file=file, text=text, host=host)
    return replace(cause, evidence=evidence, hint=fit(cause.hint, _HINT_LIMIT))


def remember(
    memory: HeartbeatMemory | None, seen: Seen, now: datetime, *, late: bool, gone_since: datetime | None = None
) -> HeartbeatMemory | None:
    """What is known of the logs as a heartbeat. New text is life, a new step is progress; the same text uploaded again
    is neither, also where whoever looks has seen none of it before. ``late``: its steps were missed, so it was written
    down when the last one had come. ``gone_since`` is from when logs count that are not there any more; None: that
    means nothing."""
    report, file = seen.logs, seen.log
    if report is None and file is None and memory is not None and memory.missing_since is None:
        return replace(memory, missing_since=gone_since)
    written = report.written_at if report is not None else None
    if written is not None and memory is not None and report is not None and memory.mark == report.mark != "":
        written = memory.modified
    # Text that could not be read may be new: unreadable is not empty.
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
    """How old the last step of a log may be before it is worth a warning: many programs print one only now and then."""
    return max(stale_s, _SLOWER * min(memory.gap_s, _MOST_SLOWER * stale_s))


def weigh(
    known: Finding | None,
    report: LogReport | None,
    memories: tuple[HeartbeatMemory | None, HeartbeatMemory | None],
    spent: tuple[str, ...],
    now: datetime,
) -> Finding | None:
    """The failure that the logs show, and whether the run is to be called FAILED for it. ``memories`` are what is known
    of progress.json and of the logs, as of now, and ``spent`` names lines that belong to earlier attempts."""
    if report is None:
        return known
    # The report cannot say when a step first appeared; a cold reader sees every step as new.
    steps = [memory.step_at for memory in memories if memory is not None and memory.step_at is not None]
    _, log = memories
    log_step_at = log.step_at if log is not None else None

    def went_on(found: Finding) -> bool:
        return any((at - found.seen_at).total_seconds() > LAST_WORDS_S for at in steps)

    cause = report.explanation.cause
    if cause is None or not fatal(report.explanation) or token(cause.evidence) in spent:
        if known is None or not known.alone:
            return known
        # That the line is not found any more means nothing: it may lie before what was read.
        read_on = log_step_at is not None and log_step_at > known.seen_at
        # The line itself has to be there, with something behind it that shows life.
        behind = not report.explanation.ended and cause is not None and token(cause.evidence) == known.line
        taken_back = went_on(known) or read_on or behind
        return replace(known, alone=False, acquitted=True) if taken_back else known
    line = token(cause.evidence)
    if known is not None and known.line == line:
        found = known
    else:
        seen_at = min(report.shown_at or report.written_at or now, now)
        found = Finding(line, seen_at, doubted=known is not None and (known.acquitted or known.doubted))
    if found.acquitted or went_on(found):
        return replace(found, alone=False, acquitted=True)
    return replace(found, alone=not found.doubted or (now - found.seen_at).total_seconds() >= DOUBT_S)


def conditions(report: LogReport | None, finding: Finding | None) -> dict[str, str]:
    """What the logs say that is worth a warning beside RUNNING."""
    if report is None or report.explanation.cause is None:
        return {}
    cause = report.explanation.cause
    if finding is not None and finding.acquitted and finding.line == token(cause.evidence):
        return {}
    return {_traits(cause).condition: f"{cause.error_type} in {shown(cause.evidence)}"}


def waits_for_lines(policy: Policy) -> bool:
    """Whether any new line of a log is progress."""
    return policy.stall_s is None and policy.inactivity_s is not None


def kept(
    raised: Mapping[str, str], report: LogReport | None, policy: Policy, *, steps_elsewhere: bool
) -> dict[str, str]:
    """Of the conditions that were raised those that stand while logs cannot be read. ``steps_elsewhere``: something
    else than logs tells steps."""
    standing = {*LOG_CONDITIONS, *(rule.name for rule in policy.absences)}
    if report is not None and report.hidden:
        # How long a step has stood still is not known now; that it had, is.
        standing |= {names.STALLED} if waits_for_lines(policy) or not steps_elsewhere else set()
        standing |= {names.PROGRESS_STALE} if not steps_elsewhere else set()
    return {name: text for name, text in raised.items() if name in standing}


def _traits(cause: Cause) -> "ErrorTraits":
    from lastbeat.signals.error_types import traits_of  # noqa: PLC0415 - only where a log shows a failure

    return traits_of(cause.error_type)


def last_lines(
    known: Mapping[str, datetime], report: LogReport | None, rules: "tuple[Absence, ...]"
) -> dict[str, datetime]:
    """When each line that has to appear again and again was last new."""
    told = report.last_seen if report is not None else {}
    found = {}
    for rule in rules:
        times = [at for at in (known.get(rule.signal), told.get(rule.signal)) if at is not None]
        if times:
            found[rule.signal] = max(times)
    return found


def overdue(
    lines: Mapping[str, datetime], rules: "tuple[Absence, ...]", started: datetime, now: datetime
) -> dict[str, str]:
    """The rules that are broken: rule → what is missing, for how long."""
    broken = {}
    for rule in rules:
        last = lines.get(rule.signal)
        limit_s = rule.within_s if last is None or last < started else rule.every_s
        waited_s = (now - (started if last is None else max(last, started))).total_seconds()
        if waited_s > limit_s:
            ever = "no" if last is None or last < started else "no further"
            broken[rule.name] = (
                f"{ever} line of '{rule.signal}' in the logs for {format_duration(waited_s)} "
                f"(limit {format_duration(limit_s)})"
            )
    return broken


def also_seen(explanation: Explanation) -> tuple[str, ...]:
    """What people may read of the rest, a line each: other readings first, then what followed."""
    cause = explanation.cause
    # What followed from a cause that is certain is no other reading.
    behind = explanation.downstream if cause is not None and cause.confidence >= CERTAIN else ()
    readings = [other for other in explanation.alternatives if other.evidence not in behind]
    others = [f"perhaps {other.error_type}: {shown(other.evidence)}" for other in readings]
    # One of either, at least, where there are both; and no line twice.
    told = readings[: max(1, ALSO_SEEN_LIMIT - len(explanation.downstream))]
    lines = {other.evidence for other in told}
    followed = [f"then {shown(evidence)}" for evidence in explanation.downstream if evidence not in lines]
    return (*others[: len(told)], *followed)[:ALSO_SEEN_LIMIT]
