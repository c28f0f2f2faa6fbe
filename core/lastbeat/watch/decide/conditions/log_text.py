"""Conditions raised by lines of a log, or by missing lines."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from lastbeat.explain.signals.error_types import traits_of
from lastbeat.model import status as names
from lastbeat.model import straggler_lines
from lastbeat.model.cause import Cause, Warned
from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.log_report import LogReport
from lastbeat.model.policy import Policy
from lastbeat.model.record import Finding, LimitName
from lastbeat.model.times import format_duration
from lastbeat.watch.decide import jobs, logs
from lastbeat.watch.decide.conditions.condition import LOGS, NETWORK, Check, Condition, Found
from lastbeat.watch.decide.conditions.documents import NOT_FINITE_HINT
from lastbeat.watch.decide.conditions.stall import stall_hint
from lastbeat.watch.decide.headline import thread_note
from lastbeat.watch.decide.in_place import in_charge, may_get_over

if TYPE_CHECKING:
    from lastbeat.model.signal import Absence


def shown_failure(check: Check) -> tuple[str, str] | None:
    """The condition that the cause in the logs raises, and its text; or None if there is none, or if the run may still
    get over it."""
    seen, finding = check.evidence.seen, check.evidence.finding
    if jobs.may_get_over(seen.job, finding, check.now):
        return None
    raised = raised_by_cause(seen.explanation.cause, finding)
    if raised is None or raised[0] != names.FAILURE_IN_LOG:
        return raised
    return None if may_get_over(in_charge(seen, check.policy.stale_s, check.now), finding, check.now) else raised


def raised_by_cause(cause: Cause | None, finding: Finding | None) -> tuple[str, str] | None:
    """The condition that the cause in a log raises, and its text; or None if there is none or it was acquitted."""
    if cause is None:
        return None
    if finding is not None and finding.acquitted and finding.line == logs.token(cause.evidence):
        return None

    return traits_of(cause.error_type).condition, f"{cause.error_type} in {logs.shown(cause.evidence)}"


def _failure(name: str) -> Callable[[Check], str | None]:
    def find(check: Check) -> str | None:
        raised = shown_failure(check)
        return raised[1] if raised is not None and raised[0] == name else None

    return find


def _hang(check: Check) -> str | None:
    text = _failure(names.STALLED)(check)
    return None if text is None else text + thread_note(check.evidence.seen)


def _warning(check: Check) -> Found | None:
    """The latest warning that is news. A reader that began after its line keeps the text of the record."""
    evidence, now = check.evidence, check.now
    warned = logs.latest_news(evidence.seen.explanation.warned, evidence.warned, now)
    if warned is not None and not _is_in_heartbeat(warned, evidence.seen.metadata):
        return Found(logs.shown(warned.evidence), warned.hint or None)
    stood = evidence.stood.get(names.WARNING_IN_LOG)
    return Found(stood) if stood and any(now <= each.until for each in evidence.warned.values()) else None


def _is_in_heartbeat(warning: Warned, metadata: Heartbeat | None) -> bool:
    """Whether the line is lastbeat's own about stragglers, which the heartbeat describes in more detail."""
    return metadata is not None and metadata.stragglers is not None and straggler_lines.WARNING in warning.evidence.text


def _overdue(rule: "Absence", check: Check) -> str | None:
    """Which line of ``rule`` is missing, and for how long; or None if it came in time, or if the logs were unread."""
    started, last = check.evidence.started, check.evidence.log_lines.get(rule.signal)
    if started is None:
        return None
    came = last is not None and last >= started
    limit_s = rule.every_s if came else rule.within_s
    waited_s = check.age_s(_later(last, started))
    if waited_s <= limit_s:
        return None
    ever = "no further" if came else "no"
    return (
        f"{ever} line of '{rule.signal}' in the logs for {format_duration(waited_s)} (limit {format_duration(limit_s)})"
    )


def _later(last: datetime | None, started: datetime) -> datetime:
    return started if last is None else max(last, started)


def sockets_used(report: LogReport | None) -> str | None:
    """The text that NCCL uses sockets although EFA is available or requested, or None if no line shows it."""
    if report is None or not report.efa.fallback:
        return None
    line = "" if report.efa_line is None else f": {logs.shown(report.efa_line)}"
    return f"NCCL uses sockets, though EFA is there or asked for{line}"


def absences(policy: Policy) -> tuple[Condition, ...]:
    """A row for each rule of the user's catalogue."""
    return tuple(
        Condition(rule.name, ABSENCE_MEANING, partial(_overdue, rule), needs=(LOGS,), hint=rule.hint or None)
        for rule in policy.absences
    )


ABSENCE_MEANING: Final = (
    "a line that has to appear in the log again and again has not; rules are named in the catalogue"
)

CONDITIONS: Final = (
    Condition(
        names.WARNING_IN_LOG,
        "the log warns of what ends nothing (slow GPUs, a result that came once and not again), less than half an hour "
        "ago",
        _warning,
        needs=(LOGS,),
    ),
    Condition(
        names.FAILURE_IN_LOG,
        "the log shows a failure, and it is not clear whether training goes on",
        _failure(names.FAILURE_IN_LOG),
        needs=(LOGS,),
        is_explained=True,
    ),
    # Steps and losses show whether these two last, so they do not stand while the logs are unread.
    Condition(names.STALLED, "the log shows a hang", _hang, hint=stall_hint, limit=LimitName.STALL),
    Condition(
        names.LOSS_NAN,
        "the log shows a failure caused by NaN or infinite values",
        _failure(names.LOSS_NAN),
        hint=NOT_FINITE_HINT,
    ),
)

NETWORK_IN_USE: Final = (
    Condition(
        names.EFA_FALLBACK,
        "NCCL uses sockets, by its own lines (`NCCL_DEBUG=INFO`), though AWS's EFA is there or asked for",
        lambda check: sockets_used(check.evidence.seen.logs),
        needs=(NETWORK,),
        hint="Between nodes NCCL goes over TCP now, many times slower than EFA: it found no plugin for EFA, or the "
        "plugin no device. Set NCCL_NET=ofi (NCCL_NET_PLUGIN=ofi where NCCL knows no network of that name) and "
        "LD_LIBRARY_PATH with /opt/amazon/ofi-nccl/lib/x86_64-linux-gnu. In the container, ls /dev/infiniband and "
        "fi_info -p efa show the devices; in Kubernetes vpc.amazonaws.com/efa has to be among the pod's limits. With "
        "NCCL_DEBUG=INFO a start that uses it says: NET/OFI Selected provider is efa.",
    ),
)
