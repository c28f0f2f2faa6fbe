"""Causes and the lines that show them, in the record. Records written before there were any do not have these."""

from typing import Any

from lastbeat.model.cause import Cause, Evidence
from lastbeat.model.record import Explained, Finding
from lastbeat.model.times import format_time
from lastbeat.record.fields import all_texts, must, optional, real, text, time, whole

Json = dict[str, Any]


def evidence_document(evidence: Evidence | None) -> Json | None:
    if evidence is None:
        return None
    return {
        "file": evidence.file,
        "line": evidence.line,
        "text": evidence.text,
        "rank": evidence.rank,
        "host": evidence.host,
        "time": format_time(evidence.time),
    }


def read_evidence(entry: Json) -> Evidence:
    return Evidence(
        file=text(entry["file"]),
        line=whole(entry["line"]),
        text=text(entry["text"]),
        rank=optional(entry["rank"], whole),
        host=optional(entry["host"], text),
        time=time(entry["time"]),
    )


def explained_document(explained: Explained | None) -> Json | None:
    if explained is None:
        return None
    cause = explained.cause
    return {
        "error_type": cause.error_type,
        "evidence": evidence_document(cause.evidence),
        "confidence": cause.confidence,
        "subsystem": cause.subsystem,
        "restartable": cause.restartable,
        "hint": cause.hint,
        "signal": cause.signal,
        "also_seen": list(explained.also_seen),
    }


def read_explained(entry: Json) -> Explained:
    cause = Cause(
        error_type=text(entry["error_type"]),
        evidence=read_evidence(entry["evidence"]),
        confidence=real(entry["confidence"]),
        subsystem=optional(entry["subsystem"], text),
        restartable=optional(entry["restartable"], bool),
        hint=text(entry["hint"]),
        signal=text(entry["signal"]),
    )
    return Explained(cause, all_texts(entry["also_seen"]))


def finding_document(finding: Finding | None) -> Json | None:
    if finding is None:
        return None
    return {
        "line": finding.line,
        "seen_at": format_time(finding.seen_at),
        "alone": finding.alone,
        "acquitted": finding.acquitted,
        "doubted": finding.doubted,
    }


def read_finding(entry: Json) -> Finding:
    return Finding(
        line=text(entry["line"]),
        seen_at=must(entry["seen_at"]),
        alone=bool(entry["alone"]),
        acquitted=bool(entry["acquitted"]),
        doubted=bool(entry["doubted"]),
    )
