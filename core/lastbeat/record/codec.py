"""The record as JSON: small, versioned, readable by people."""

import json
from typing import Any

from lastbeat.model.alert import Alert, Delivery
from lastbeat.model.record import SCHEMA, Attempt, HeartbeatMemory, Record, Transition
from lastbeat.model.status import Event, Status
from lastbeat.model.times import format_time
from lastbeat.record.causes import explained_document, finding_document, read_explained, read_finding
from lastbeat.record.fields import all_texts, must, optional, pair, real, text, texts, time, whole
from lastbeat.record.messages import message_document, read_message

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
        "flapping_since": format_time(record.flapping_since),
        "conditions": dict(record.conditions),
        "attempt": {
            "number": record.attempt.number,
            "start_time": format_time(record.attempt.start_time),
            "start_skew_s": record.attempt.start_skew_s,
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
        "log": _memory(record.log),
        "log_lines": {name: format_time(at) for name, at in record.log_lines.items()},
        "finding": finding_document(record.finding),
        "explained": explained_document(record.explained),
        "sentinels": list(record.sentinels),
        "continues": record.continues,
        "transitions": record.transitions,
        "alerts": record.alerts,
        "delivered": record.delivered,
        "dropped": record.dropped,
        "history": [transition_document(transition) for transition in record.history],
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
        "lag_s": memory.lag_s,
        "suspect": memory.suspect,
        "step": memory.step,
        "step_at": format_time(memory.step_at),
        "missing_since": format_time(memory.missing_since),
        "gap_s": memory.gap_s,
        "mark": memory.mark,
    }


def transition_document(transition: Transition) -> Json:
    return {
        "number": transition.number,
        "at": format_time(transition.at),
        "before": _name(transition.before),
        "after": _name(transition.after),
        "reason": transition.reason,
        "cause": transition.cause,
        "attempt": transition.attempt,
        "silenced": transition.silenced,
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
        "told_by": delivery.told_by,
    }


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number that a record holds")


def decode(body: bytes) -> Record:
    """The record that :func:`encode` wrote; :class:`DamagedRecordError` says what is wrong with any other."""
    try:
        document = json.loads(body, parse_constant=_no_number)
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
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DamagedRecordError(
            f"a field is missing or of the wrong type ({type(error).__name__}: {error})"
        ) from error


def _record(document: Json) -> Record:
    attempt = document["attempt"]
    return Record(
        run_id=str(document["run_id"]),
        seq=int(document["seq"]),
        written_at=time(document["written_at"]),
        writer=str(document["writer"]),
        first_looked_at=time(document["first_looked_at"]),
        status=optional(document["status"], Status),
        reason=str(document["reason"]),
        cause=optional(document["cause"], text),
        action=optional(document["action"], text),
        since=time(document["since"]),
        # Records written before there was such a thing do not have it.
        flapping_since=time(document.get("flapping_since")),
        attempt=Attempt(
            number=int(attempt["number"]),
            start_time=time(attempt["start_time"]),
            start_skew_s=optional(attempt["start_skew_s"], pair),
            declared=optional(attempt["declared"], whole),
            earlier_starts=tuple(must(start) for start in attempt["earlier_starts"]),
            spent=all_texts(attempt["spent"]),
        ),
        conditions=texts(document["conditions"]),
        metadata=optional(document["metadata"], _read_memory),
        progress=optional(document["progress"], _read_memory),
        log=optional(document.get("log"), _read_memory),
        log_lines={str(name): must(at) for name, at in document.get("log_lines", {}).items()},
        finding=optional(document.get("finding"), read_finding),
        explained=optional(document.get("explained"), read_explained),
        sentinels=all_texts(document["sentinels"]),
        continues=optional(document["continues"], text),
        transitions=int(document["transitions"]),
        history=tuple(_read_transition(entry) for entry in document["history"]),
        outbox=tuple(_read_alert(entry) for entry in document["outbox"]),
        alerts=int(document["alerts"]),
        delivered=int(document["delivered"]),
        dropped=int(document["dropped"]),
        conditional_writes=optional(document["conditional_writes"], bool),
    )


def _read_memory(entry: Json) -> HeartbeatMemory:
    return HeartbeatMemory(
        modified=must(entry["modified"]),
        own_time=time(entry["own_time"]),
        alive_at=time(entry["alive_at"]),
        skew_s=real(entry["skew_s"]),
        lag_s=real(entry["lag_s"]),
        suspect=bool(entry["suspect"]),
        step=optional(entry["step"], whole),
        step_at=time(entry["step_at"]),
        missing_since=time(entry["missing_since"]),
        gap_s=real(entry.get("gap_s", 0.0)),
        mark=text(entry.get("mark", "")),
    )


def _read_transition(entry: Json) -> Transition:
    return Transition(
        number=int(entry["number"]),
        at=must(entry["at"]),
        before=optional(entry["before"], Status),
        after=Status(entry["after"]),
        reason=str(entry["reason"]),
        attempt=int(entry["attempt"]),
        cause=optional(entry["cause"], text),
        silenced=optional(entry.get("silenced"), text),
    )


def _read_alert(entry: Json) -> Alert:
    return Alert(
        number=int(entry["number"]),
        event=Event(entry["event"]),
        created_at=must(entry["created_at"]),
        message=read_message(entry["message"]),
        deliveries={str(identity): _read_delivery(delivery) for identity, delivery in entry["deliveries"].items()},
    )


def _read_delivery(entry: Json) -> Delivery:
    return Delivery(
        tries=int(entry["tries"]),
        sent_at=time(entry["sent_at"]),
        failed=optional(entry["failed"], text),
        last_error=optional(entry["last_error"], text),
        not_before=time(entry["not_before"]),
        claimed_until=time(entry["claimed_until"]),
        claimed_by=optional(entry["claimed_by"], text),
        told_by=optional(entry.get("told_by"), text),
    )
