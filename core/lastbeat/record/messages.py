"""An alert's message in the record."""

from typing import Any

from lastbeat.model.alert import Message
from lastbeat.model.numbers import json_number
from lastbeat.model.status import Event, Status
from lastbeat.model.times import format_time
from lastbeat.record.causes import evidence_document, read_evidence
from lastbeat.record.fields import all_texts, must, optional, real, text, texts, whole

Json = dict[str, Any]


def message_document(message: Message) -> Json:
    """A message as JSON can hold it; a loss that is not finite is written as text (``"NaN"``)."""
    return {
        "key": message.key,
        "run_id": message.run_id,
        "event": message.event.value,
        "status": message.status.value,
        "reason": message.reason,
        "cause": message.cause,
        "confidence": message.confidence,
        "evidence": evidence_document(message.evidence),
        "also_seen": list(message.also_seen),
        "action": message.action,
        "conditions": dict(message.conditions),
        "at": format_time(message.at),
        "attempt": message.attempt,
        "instance_id": message.instance_id,
        "phase": message.phase,
        "duration_s": message.duration_s,
        "step": message.step,
        "total_steps": message.total_steps,
        "loss": json_number(message.loss),
        "last_beat_at": format_time(message.last_beat_at),
        "log_tail": list(message.log_tail),
        "stack": list(message.stack),
        "notes": list(message.notes),
        "where": message.where,
        "link": message.link,
        "members": list(message.members),
        "member_count": message.member_count,
        "shared": dict(message.shared),
    }


def read_message(entry: Json) -> Message:
    return Message(
        run_id=str(entry["run_id"]),
        event=Event(entry["event"]),
        status=Status(entry["status"]),
        reason=str(entry["reason"]),
        at=must(entry["at"]),
        attempt=int(entry["attempt"]),
        cause=optional(entry["cause"], text),
        action=optional(entry["action"], text),
        conditions=texts(entry["conditions"]),
        instance_id=optional(entry["instance_id"], text),
        phase=optional(entry["phase"], text),
        duration_s=optional(entry["duration_s"], real),
        step=optional(entry["step"], whole),
        total_steps=optional(entry["total_steps"], whole),
        loss=optional(entry["loss"], float),
        last_beat_at=optional(entry["last_beat_at"], must),
        stack=tuple(str(line) for line in entry["stack"]),
        log_tail=tuple(str(line) for line in entry["log_tail"]),
        notes=tuple(str(note) for note in entry["notes"]),
        where=str(entry["where"]),
        link=optional(entry["link"], text),
        key=str(entry["key"]),
        # Messages written before there were causes with evidence, or alerts about many runs, do not have these.
        confidence=optional(entry.get("confidence"), real),
        evidence=optional(entry.get("evidence"), read_evidence),
        also_seen=all_texts(entry.get("also_seen", [])),
        members=all_texts(entry.get("members", [])),
        member_count=int(entry.get("member_count", 0)),
        shared=texts(entry.get("shared", {})),
    )
