"""Logs as JSON, and metrics in CloudWatch's embedded format, with secrets masked."""

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
from aws_lambda_powertools.metrics import Metrics, MetricUnit, single_metric

from lastbeat.model.document import clean
from lastbeat.model.fleet import PassReport
from lastbeat.model.outcome import Outcome
from lastbeat.model.secrets import Redactor, mask_tokens
from lastbeat.model.status import Status
from lastbeat.settings import Settings, SettingsError, own_log, secrets_in
from lastbeat.settings.table import OWN_LOG
from lastbeat_lambda.secret_error import SecretError

NAMESPACE = "lastbeat"
SERVICE = os.environ.get("POWERTOOLS_SERVICE_NAME") or "lastbeat"
"""The only dimension of every metric. The template sets it to the stack's name, so that two stacks do not mix."""
_NAMES = frozenset(
    {"run_id", "status", "before", "after", "level", "timestamp", "location", "service", "itemIdentifier"}
)
"""Keys whose values are fixed words or names. They are not masked, even if they contain a part of a secret."""

_redact: Callable[[str], str] = Redactor(secrets_in(os.environ))
"""Until the settings are loaded, masks the values of all variables that hold a secret."""


class _Masked(LambdaPowertoolsFormatter):
    """Masks each text before it is escaped, so that this covers arguments and tracebacks and the line stays JSON."""

    def serialize(self, log: Any) -> str:
        return super().serialize(masked(clean(log)))


logger = Logger(service=SERVICE, logger_formatter=_Masked(utc=True, use_rfc3339=True, serialize_stacktrace=False))
metrics = Metrics(namespace=NAMESPACE, service=SERVICE)

# lastbeat's own logs use the same handler. They do not propagate to Lambda's root handler, which would not mask them.
for _name in ("lastbeat", "lastbeat_lambda"):
    _library = logging.getLogger(_name)
    _library.addHandler(logger.registered_handler)
    _library.propagate = False


def hide(secrets: Redactor) -> None:
    """Mask ``secrets`` from now on."""
    global _redact  # noqa: PLW0603 - Lambda keeps the module between two events
    _redact = secrets


def follow(settings: Settings) -> None:
    """Mask the secrets of ``settings`` from now on, and log at their level (INFO by default, for transitions)."""
    hide(settings.redactor)
    if settings[OWN_LOG].level is not None:
        logger.setLevel(own_log.level(settings))
        for name in own_log.NAMES:
            logging.getLogger(name).setLevel(own_log.level(settings))


def masked(value: Any) -> Any:
    """``value`` with secrets masked in its texts, except for names."""
    if isinstance(value, str):
        return mask_tokens(_redact(value))
    if isinstance(value, dict):
        return {key: part if key in _NAMES and isinstance(part, str) else masked(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [masked(part) for part in value]
    return value


class DefectError(Exception):
    """An unexpected error; the text is masked."""


@contextmanager
def invocation(context: Any) -> Iterator[None]:
    """A context for one event: adds its id to every log line, and writes its metrics however it ends."""
    logger.append_keys(function_request_id=getattr(context, "aws_request_id", None))
    try:
        yield
    except (SettingsError, SecretError) as fault:
        logger.error("nothing was watched: %s", fault)  # noqa: TRY400 - a traceback would add nothing
        raise
    except Exception as fault:
        logger.exception("nothing more came of this event")
        # Lambda's own client logs this exception unmasked.
        raise DefectError(masked(f"{type(fault).__name__}: {fault}")) from None
    finally:
        if metrics.metric_set:
            metrics.flush_metrics()
        logger.remove_keys(["function_request_id"])


@contextmanager
def about(run_id: str) -> Iterator[None]:
    """A context that adds the run id to the log lines of all modules."""
    with logger.append_context_keys(run_id=run_id):
        yield


def report_pass(report: PassReport) -> None:
    """Write the metrics and log lines of one pass."""
    metrics.add_metric("PassesThatCouldSee", MetricUnit.Count, 0 if report.blind is not None else 1)
    metrics.add_metric("SweepSeconds", MetricUnit.Seconds, report.seconds)
    metrics.add_metric("StoreRequests", MetricUnit.Count, sum(report.requests.values()))
    if report.blind is not None:
        logger.error("the fleet could not be seen", extra={"blind": report.blind, "advice": report.advice})
        return
    active = (Status.RUNNING.value, "RUNNING (WARNING)")
    metrics.add_metric("RunsActive", MetricUnit.Count, sum(report.statuses.get(status, 0) for status in active))
    metrics.add_metric("RunsUnreadable", MetricUnit.Count, report.unreadable_count)
    for name, count in (
        ("AlertsSent", report.sent),
        ("AlertsFailed", report.failed),
        ("AlertsPending", report.pending),
    ):
        metrics.add_metric(name, MetricUnit.Count, count)
    _transitions(Counter(str(transition.after) for _, transition in report.transitions))
    for run_id, transition in report.transitions:
        with about(run_id):
            logger.info("%s: %s", transition.after, transition.reason, extra={"cause": transition.cause})
    for run_id, why in report.unreadable.items():
        with about(run_id):
            logger.warning("this run could not be observed: %s", why)
    for note in report.notes:
        logger.warning("%s", note)


def report_check(outcome: Outcome, channels: int) -> None:
    """Write the metrics and log lines of one run's check. ``channels`` is the number of channels."""
    sent = len(outcome.alerts) * channels - outcome.pending
    for name, count in (("AlertsSent", sent), ("AlertsFailed", len(outcome.failures))):
        if count > 0:
            metrics.add_metric(name, MetricUnit.Count, count)
    if outcome.transition is not None:
        _transitions({str(outcome.transition.after): 1})
    if outcome.status is Status.UNKNOWN:
        metrics.add_metric("RunsUnreadable", MetricUnit.Count, 1)
    with about(outcome.run_id):
        fine = outcome.status is not Status.UNKNOWN and outcome.recorded
        say = logger.info if fine else logger.warning
        say("%s: %s", outcome.status, outcome.reason, extra={"cause": outcome.cause})
        for note in (*outcome.notes, *outcome.failures):
            logger.warning("%s", note)


def _transitions(counts: Mapping[str, int]) -> None:
    for status, count in counts.items():
        with single_metric("Transitions", MetricUnit.Count, count, namespace=NAMESPACE) as metric:
            metric.add_dimension("service", SERVICE)
            metric.add_dimension("status", status)
