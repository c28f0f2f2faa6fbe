"""Whether a job that failed for good, and still runs, may be ended. Pure.

A program may catch an out-of-memory error and go on, so the failure alone ends nothing. Its job may be ended after a
grace period without a step or a log line. A section that it entered meanwhile, and that may last longer, extends that
period. A failure that later steps disprove is no failure, see ``decide.logs``. While a log cannot be read, the job may
still write into it, and is not ended.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from lastbeat.model.job import JobState
from lastbeat.model.record import Record
from lastbeat.model.restart import Mode, RestartPolicy
from lastbeat.model.status import Status
from lastbeat.watch.decide.jobs import STANDSTILL_S
from lastbeat.watch.decide.logs import DOUBT_S
from lastbeat.watch.decide.transition import Decision

_SLOWER: Final = 3.0
"""The next step may take this many times the longest recorded one: a record may fall short of it by a third."""


def lingers(decision: Decision, policy: RestartPolicy) -> bool:
    """Whether the job still runs although its run failed and ``policy`` does not restart it. A stalled job has failed
    only if the policy would restart stalled jobs at all."""
    sight, ruling, status = decision.seen.job, decision.record.ruling, decision.verdict.status
    if sight is None or sight.report.state is not JobState.RUNNING:
        return False
    if ruling is None or ruling.restart or ruling.on or ruling.number != sight.memory.number:
        return False
    if status is Status.TIMED_OUT:
        return policy.rule(Mode.STALL).kind != "never"
    return status in {Status.FAILED, Status.PREEMPTED}


def grace_s(decision: Decision) -> float:
    """Seconds that a failed job may show neither a step nor a log line. A run whose steps are known to take longer gets
    longer."""
    if decision.verdict.by_sentinel:
        return STANDSTILL_S
    return max(DOUBT_S, _SLOWER * _longest_wait_s(decision.record))


def may_end_at(decision: Decision) -> datetime | None:
    """When a lingering job may be ended, by the store's clock, or None while its logs cannot be read. After the job has
    reported its own failure, its output does not count."""
    said, grace = decision.seen.end, timedelta(seconds=grace_s(decision))
    if decision.verdict.by_sentinel and said is not None:
        return said.modified + grace
    shown_at = _last_shown_at(decision)
    return None if shown_at is None else max([shown_at + grace, *_limits_at(decision)])


def _limits_at(decision: Decision) -> Iterator[datetime]:
    """The times until which sections entered after the failure may last, by their limits."""
    finding, metadata = decision.record.finding, decision.seen.metadata
    if finding is None or metadata is None:
        return
    for each in metadata.sections:
        entered_at = metadata.modified - timedelta(seconds=each.open_s)
        if each.name is not None and each.limit_s is not None and entered_at > finding.seen_at:
            yield entered_at + timedelta(seconds=each.limit_s)


def _last_shown_at(decision: Decision) -> datetime | None:
    """When the job last showed a step, a log line, or a section that it entered; or None if that is unknown."""
    record, seen = decision.record, decision.seen
    report, progress, metadata = seen.logs, seen.progress, seen.metadata
    if (report is None and record.log is not None) or (seen.job is not None and seen.job.log_fault):
        return None
    if report is not None and (report.unread or report.hidden):
        return None
    if progress is not None and progress.fault is not None:
        return None
    shown = [memory.step_at for memory in (record.progress, record.log) if memory is not None]
    shown += [record.log.modified] if record.log is not None else []
    shown += [record.finding.seen_at] if record.finding is not None else []
    if metadata is not None:
        entered = (each.open_s for each in metadata.sections if each.name is not None)
        shown += [metadata.modified - timedelta(seconds=open_s) for open_s in entered]
    return max((at for at in shown if at is not None), default=None)


def _longest_wait_s(record: Record) -> float:
    """The longest recorded time between two steps of this attempt, in seconds."""
    noted = (memory.waits for memory in (record.progress, record.log) if memory is not None)
    return max((waits.longest_s for waits in noted if waits is not None), default=0.0)
