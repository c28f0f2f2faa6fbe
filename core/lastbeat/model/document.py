"""Outcomes as JSON can hold them: what ``--json`` prints and the Lambda answers."""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from lastbeat.model.status import Status
from lastbeat.model.times import format_time

if TYPE_CHECKING:
    # Not imported at run time, because most callers only need `clean`.
    from lastbeat.model.outcome import Outcome


def outcome_document(outcome: "Outcome") -> dict[str, object]:
    """The documented keys, all of them always there; null for unknown values. ``owner`` and ``team`` are there if the
    run states them."""
    beat, record = outcome.step_source, outcome.record
    seen = outcome.status is not Status.UNKNOWN
    said = {"owner": record.owner, "team": record.team} if record is not None else {}
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
        "since": format_time(record.came_to_be_at) if record is not None and seen else None,
        "alerts": {"pending": outcome.pending, "delivered": outcome.delivered, "failed": failed(outcome)},
        **{name: text for name, text in said.items() if text is not None},
    }


def failed(outcome: "Outcome") -> int:
    """Deliveries that will never go out, of those that the record still knows."""
    alerts = outcome.record.outbox if outcome.record is not None else ()
    return sum(delivery.failed is not None for alert in alerts for delivery in alert.deliveries.values())


def clean(value: object) -> object:
    """``value`` without lone surrogates, which strict parsers refuse and UTF-8 cannot hold."""
    if isinstance(value, str):
        return (
            value if value.isascii() else "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in value)
        )
    if isinstance(value, dict):
        return {clean(key): clean(part) for key, part in value.items()}
    if isinstance(value, list):
        return [clean(part) for part in value]
    return value


def masked(value: object, redact: Callable[[str], str], names: Collection[str] = ()) -> Any:
    """``value`` with secrets masked in every text, except field names and the fields that ``names`` lists."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: part if key in names else masked(part, redact, names) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [masked(part, redact, names) for part in value]
    return value
