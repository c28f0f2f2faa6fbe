"""An outcome as one JSON object on one line, for programs."""

import json
from collections.abc import Callable

from lastbeat.model.outcome import Outcome
from lastbeat.model.status import Status
from lastbeat.model.times import format_time
from lastbeat_cli.lines import heartbeat


def document(outcome: Outcome) -> dict[str, object]:
    """The promised keys, all of them always there; what is not known is null."""
    beat, record = heartbeat(outcome), outcome.record
    seen = outcome.status is not Status.UNKNOWN
    return {
        "run_id": outcome.run_id,
        "status": str(outcome.status),
        "reason": outcome.reason,
        "cause": outcome.cause,
        "action": outcome.action,
        "conditions": list(outcome.conditions),
        "attempt": record.attempt.number if record is not None else None,
        "step": beat.step if beat is not None else None,
        "total_steps": beat.total_steps if beat is not None else None,
        "last_metadata_at": format_time(outcome.last_metadata_at),
        "last_progress_at": format_time(outcome.last_progress_at),
        "since": format_time(record.since) if record is not None and seen else None,
        "alerts": {"pending": outcome.pending, "delivered": outcome.delivered, "failed": failed(outcome)},
    }


def masked(document: dict[str, object], redact: Callable[[str], str]) -> dict[str, object]:
    """``document`` with what people wrote masked."""
    free = ("reason", "action")
    return {key: redact(text) if key in free and isinstance(text, str) else text for key, text in document.items()}


def failed(outcome: Outcome) -> int:
    """Deliveries that will never go out, of those that the record still knows."""
    alerts = outcome.record.outbox if outcome.record is not None else ()
    return sum(delivery.failed is not None for alert in alerts for delivery in alert.deliveries.values())


def dump(value: object) -> str:
    """``value`` as JSON on one line, in ASCII, so that it is valid whatever text a run wrote.

    A lone surrogate would be an escape that strict parsers refuse, so it becomes a replacement character.
    """
    return json.dumps(_clean(value), allow_nan=False)


def _clean(value: object) -> object:
    if isinstance(value, str):
        return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in value)
    if isinstance(value, dict):
        return {key: _clean(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_clean(part) for part in value]
    return value
