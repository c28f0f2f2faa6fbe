"""What stands in a run's record, made fit to be shown: anybody who may write beside the run may have written it."""

from dataclasses import replace

from lastbeat.decide.transition import HISTORY_LIMIT
from lastbeat.model.cause import TEXT_LIMIT
from lastbeat.model.record import Record, RecordedCause, Transition
from lastbeat.views.excerpts import Safe

_REASON_LIMIT = 500
_HINT_LIMIT = 2000
_ALSO = 10


def explained(found: RecordedCause | None, safe: Safe) -> RecordedCause | None:
    """Why the run is as it is."""
    if found is None:
        return None
    cause = found.cause
    evidence = replace(
        cause.evidence,
        file=safe.name(cause.evidence.file),
        text=safe.line(cause.evidence.text, TEXT_LIMIT),
        host=safe.maybe(cause.evidence.host),
    )
    shown = replace(
        cause,
        error_type=safe.name(cause.error_type),
        evidence=evidence,
        subsystem=safe.maybe(cause.subsystem),
        hint=safe.name(cause.hint, _HINT_LIMIT),
        signal=safe.name(cause.signal),
    )
    return RecordedCause(shown, tuple(safe.name(text, _REASON_LIMIT) for text in found.also_seen[:_ALSO]))


def history(record: Record, safe: Safe) -> tuple[Transition, ...]:
    """The latest transitions, oldest first."""
    return tuple(
        replace(
            each,
            reason=safe.name(each.reason, _REASON_LIMIT),
            cause=safe.maybe(each.cause),
            silenced=safe.maybe(each.silenced),
        )
        for each in record.history[-HISTORY_LIMIT:]
    )
