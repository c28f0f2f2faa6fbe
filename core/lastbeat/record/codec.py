"""The record as JSON: small, versioned, readable by people."""

import json
import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from lastbeat.model.alert import Alert, Delivery, Message
from lastbeat.model.record import SCHEMA, Attempt, HeartbeatMemory, Record, Transition
from lastbeat.model.status import Event, Status
from lastbeat.model.times import format_time, parse_time

_T = TypeVar("_T")
Json = dict[str, Any]


class DamagedRecordError(ValueError):
    """The document is not a record that can be read; ``newer`` when a later lastbeat wrote it."""

    def __init__(self, what: str, *, newer: bool = False) -> None:
        super().__init__(what)
        self.newer = newer


def encode(record: Record) -> bytes:
    """One JSON object, keys in the order in which a person wants to read them."""
    document = {
        "schema": SCHEMA,
        "run_id": record.run_id,
        "status": _name(record.status),
        "reason": record.reason,
        "cause": record.cause,
        "action": record.action,
        "since": format_time(record.since),
        "conditions": dict(record.conditions),
        "attempt": {
            "number": record.attempt.number,
            "start_time": format_time(record.attempt.start_time),
            "declared": record.attempt.declared,
            "earlier_starts": [format_time(start) for start in record.attempt.earlier_starts],
            "spent": list(record.attempt.spent),
        },
        "seq": record.seq,
        "written_at": format_time(record.written_at),
        "writer": record.writer,
        "first_looked_at": format_time(record.first_looked_at),
        "conditional_writes": record.conditional_writes,
        "metadata": _memory(record.metadata),
        "progress": _memory(record.progress),
        "sentinel": record.sentinel,
        "transitions": record.transitions,
        "alerts": record.alerts,
        "delivered": record.delivered,
        "dropped": record.dropped,
        "history": [_transition(transition) for transition in record.history],
        "outbox": [_alert(alert) for alert in record.outbox],
    }
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False).encode("utf-8", "replace")


def _name(value: Status | Event | None) -> str | None:
    return None if value is None else value.value


def _memory(memory: HeartbeatMemory | None) -> Json | None:
    if memory is None:
        return None
    return {
        "modified": format_time(memory.modified),
        "own_time": format_time(memory.own_time),
        "alive_at": format_time(memory.alive_at),
        "skew_s": memory.skew_s,
        "suspect": memory.suspect,
        "step": memory.step,
        "step_at": format_time(memory.step_at),
        "missing_since": format_time(memory.missing_since),
    }


def _transition(transition: Transition) -> Json:
    return {
        "number": transition.number,
        "at": format_time(transition.at),
        "before": _name(transition.before),
        "after": _name(transition.after),
        "reason": transition.reason,
        "cause": transition.cause,
        "attempt": transition.attempt,
    }


def _alert(alert: Alert) -> Json:
    return {
        "number": alert.number,
        "event": alert.event.value,
        "created_at": format_time(alert.created_at),
        "deliveries": {identity: _delivery(delivery) for identity, delivery in alert.deliveries.items()},
        "message": message_document(alert.message),
    }


def _delivery(delivery: Delivery) -> Json:
    return {
        "tries": delivery.tries,
        "sent_at": format_time(delivery.sent_at),
        "failed": delivery.failed,
        "last_error": delivery.last_error,
        "not_before": format_time(delivery.not_before),
        "claimed_until": format_time(delivery.claimed_until),
        "claimed_by": delivery.claimed_by,
    }


def message_document(message: Message) -> Json:
    """A message as JSON can hold it; a loss that is not finite is written as text (``"NaN"``)."""
    loss: float | str | None = message.loss
    if message.loss is not None and not math.isfinite(message.loss):
        loss = "NaN" if math.isnan(message.loss) else "Infinity" if message.loss > 0 else "-Infinity"
    return {
        "key": message.key,
        "run_id": message.run_id,
        "event": message.event.value,
        "status": message.status.value,
        "reason": message.reason,
        "cause": message.cause,
        "action": message.action,
        "conditions": dict(message.conditions),
        "at": format_time(message.at),
        "attempt": message.attempt,
        "instance_id": message.instance_id,
        "phase": message.phase,
        "duration_s": message.duration_s,
        "step": message.step,
        "total_steps": message.total_steps,
        "loss": loss,
        "log_tail": list(message.log_tail),
        "stack": list(message.stack),
        "notes": list(message.notes),
        "where": message.where,
        "link": message.link,
    }


def decode(body: bytes) -> Record:
    """The record that :func:`encode` wrote; :class:`DamagedRecordError` says what is wrong with any other."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise DamagedRecordError(f"it is not JSON ({type(error).__name__})") from error
    if not isinstance(document, dict) or not isinstance(document.get("schema"), int):
        raise DamagedRecordError("it is not a JSON object with a schema number")
    if document["schema"] > SCHEMA:
        raise DamagedRecordError(
            f"it has schema {document['schema']}, written by a newer lastbeat; this one reads {SCHEMA}", newer=True
        )
    try:
        return _record(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedRecordError(
            f"a field is missing or of the wrong type ({type(error).__name__}: {error})"
        ) from error


def _record(document: Json) -> Record:
    attempt = document["attempt"]
    return Record(
        run_id=str(document["run_id"]),
        seq=int(document["seq"]),
        written_at=_time(document["written_at"]),
        writer=str(document["writer"]),
        first_looked_at=_time(document["first_looked_at"]),
        status=_optional(document["status"], Status),
        reason=str(document["reason"]),
        cause=document["cause"],
        action=document["action"],
        since=_time(document["since"]),
        attempt=Attempt(
            number=int(attempt["number"]),
            start_time=_time(attempt["start_time"]),
            declared=attempt["declared"],
            earlier_starts=tuple(_must(start) for start in attempt["earlier_starts"]),
            spent=tuple(attempt["spent"]),
        ),
        conditions=_texts(document["conditions"]),
        metadata=_optional(document["metadata"], _read_memory),
        progress=_optional(document["progress"], _read_memory),
        sentinel=document["sentinel"],
        transitions=int(document["transitions"]),
        history=tuple(_read_transition(entry) for entry in document["history"]),
        outbox=tuple(_read_alert(entry) for entry in document["outbox"]),
        alerts=int(document["alerts"]),
        delivered=int(document["delivered"]),
        dropped=int(document["dropped"]),
        conditional_writes=document["conditional_writes"],
    )


def _optional(value: Any, read: Callable[[Any], _T]) -> _T | None:
    return None if value is None else read(value)


def _time(value: object) -> datetime | None:
    return None if value is None else _must(value)


def _must(value: object) -> datetime:
    when = parse_time(value)
    if when is None:
        raise ValueError(f"{str(value)[:40]!r} is not a time")
    return when


def _texts(value: Mapping[str, object]) -> dict[str, str]:
    return {str(key): str(text) for key, text in value.items()}


def _read_memory(entry: Json) -> HeartbeatMemory:
    return HeartbeatMemory(
        modified=_must(entry["modified"]),
        own_time=_time(entry["own_time"]),
        alive_at=_time(entry["alive_at"]),
        skew_s=float(entry["skew_s"]),
        suspect=bool(entry["suspect"]),
        step=entry["step"],
        step_at=_time(entry["step_at"]),
        missing_since=_time(entry["missing_since"]),
    )


def _read_transition(entry: Json) -> Transition:
    return Transition(
        number=int(entry["number"]),
        at=_must(entry["at"]),
        before=_optional(entry["before"], Status),
        after=Status(entry["after"]),
        reason=str(entry["reason"]),
        attempt=int(entry["attempt"]),
        cause=entry["cause"],
    )


def _read_alert(entry: Json) -> Alert:
    return Alert(
        number=int(entry["number"]),
        event=Event(entry["event"]),
        created_at=_must(entry["created_at"]),
        message=_read_message(entry["message"]),
        deliveries={str(identity): _read_delivery(delivery) for identity, delivery in entry["deliveries"].items()},
    )


def _read_delivery(entry: Json) -> Delivery:
    return Delivery(
        tries=int(entry["tries"]),
        sent_at=_time(entry["sent_at"]),
        failed=entry["failed"],
        last_error=entry["last_error"],
        not_before=_time(entry["not_before"]),
        claimed_until=_time(entry["claimed_until"]),
        claimed_by=entry["claimed_by"],
    )


def _read_message(entry: Json) -> Message:
    return Message(
        run_id=str(entry["run_id"]),
        event=Event(entry["event"]),
        status=Status(entry["status"]),
        reason=str(entry["reason"]),
        at=_must(entry["at"]),
        attempt=int(entry["attempt"]),
        cause=entry["cause"],
        action=entry["action"],
        conditions=_texts(entry["conditions"]),
        instance_id=entry["instance_id"],
        phase=entry["phase"],
        duration_s=entry["duration_s"],
        step=entry["step"],
        total_steps=entry["total_steps"],
        loss=_optional(entry["loss"], float),
        log_tail=tuple(str(line) for line in entry["log_tail"]),
        # Not in the records of lastbeat 0.1.
        stack=tuple(str(line) for line in entry.get("stack", ())),
        notes=tuple(str(note) for note in entry["notes"]),
        where=str(entry["where"]),
        link=entry["link"],
        key=str(entry["key"]),
    )
